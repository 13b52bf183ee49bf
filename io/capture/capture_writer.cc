// SPDX-License-Identifier: Apache-2.0
#include "io/capture/capture_writer.h"

#include <fmt/format.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/assert.h"
#include "base/errno_text.h"
#include "base/time.h"

namespace tributary::io {
namespace {

/// The largest packet that a file may announce. Source: libpcap's own limit for Ethernet.
constexpr int kSnapshotBytes = 262'144;

}  // namespace

void CaptureWriter::Closer::operator()(pcap* handle) const { pcap_close(handle); }
void CaptureWriter::Closer::operator()(pcap_dumper* file) const { pcap_dump_close(file); }

Result<CaptureWriter> CaptureWriter::open(const std::string& path) {
  CaptureWriter writer;
  writer.name_ = path == "-" ? "the standard output" : path;
  writer.handle_.reset(
      pcap_open_dead_with_tstamp_precision(DLT_EN10MB, kSnapshotBytes, PCAP_TSTAMP_PRECISION_NANO));
  if (!writer.handle_) return failure(fmt::format("{}: out of memory", writer.name_));
  // A copy of standard output, because the end closes the file.
  std::FILE* file = path == "-" ? fdopen(dup(STDOUT_FILENO), "wb") : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return system_failure(errno, path);
  writer.file_.reset(pcap_dump_fopen(writer.handle_.get(), file));
  if (!writer.file_) {
    std::fclose(file);
    return failure(fmt::format("{}: {}", writer.name_, pcap_geterr(writer.handle_.get())));
  }
  return writer;
}

Result<void> CaptureWriter::failed() const { return system_failure(errno, name_); }

Result<void> CaptureWriter::write(const CapturedPacket& packet) {
  TRIB_ASSERT(packet.bytes.size() <= packet.wire_bytes);
  const int64_t at_ns = packet.at.time_since_epoch().count();
  pcap_pkthdr header{};
  header.ts.tv_sec = at_ns / kNanosecondsPerSecond;
  header.ts.tv_usec = at_ns % kNanosecondsPerSecond;
  header.caplen = static_cast<bpf_u_int32>(packet.bytes.size());
  header.len = packet.wire_bytes;
  pcap_dump(reinterpret_cast<u_char*>(file_.get()), &header,
            reinterpret_cast<const u_char*>(packet.bytes.data()));
  if (std::ferror(pcap_dump_file(file_.get())) != 0) return failed();
  return {};
}

Result<void> CaptureWriter::finish() {
  const bool flushed = pcap_dump_flush(file_.get()) == 0;
  if (!flushed) return failed();
  file_.reset();
  return {};
}

}  // namespace tributary::io
