// SPDX-License-Identifier: Apache-2.0
#include "io/capture/capture_reader.h"

#include <fmt/format.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/errno_text.h"

namespace tributary::io {

void CaptureReader::Closer::operator()(pcap* handle) const { pcap_close(handle); }

Result<CaptureReader> CaptureReader::open(const std::string& path) {
  // A copy of standard input, because the end closes the file.
  std::FILE* file = path == "-" ? fdopen(dup(STDIN_FILENO), "rb") : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return failure(fmt::format("{}: {}", path, errno_text(errno)));
  return from(file, path == "-" ? "the standard input" : path);
}

Result<CaptureReader> CaptureReader::from(std::FILE* file, const std::string& name) {
  std::array<char, PCAP_ERRBUF_SIZE> problem{};
  pcap* handle =
      pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, problem.data());
  if (handle == nullptr) {
    std::fclose(file);
    return failure(
        fmt::format("{}: not a capture in pcap or pcapng format ({})", name, problem.data()));
  }
  CaptureReader reader(handle, name);
  const int link_type = pcap_datalink(handle);
  if (link_type != DLT_EN10MB) {
    const char* link_name = pcap_datalink_val_to_name(link_type);
    return failure(fmt::format("{}: link type {} ({}); allowed: EN10MB (Ethernet)", name, link_type,
                               link_name == nullptr ? "unknown" : link_name));
  }
  return reader;
}

Result<std::optional<CapturedPacket>> CaptureReader::next() {
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  const int status = pcap_next_ex(handle_.get(), &header, &bytes);
  if (status == PCAP_ERROR_BREAK) return std::nullopt;
  if (status != 1) return failure(fmt::format("{}: {}", name_, pcap_geterr(handle_.get())));
  // With PCAP_TSTAMP_PRECISION_NANO, tv_usec counts nanoseconds. Unsigned arithmetic: a file may
  // hold any number of seconds.
  const uint64_t at_ns = static_cast<uint64_t>(header->ts.tv_sec) * 1'000'000'000 +
                         static_cast<uint64_t>(header->ts.tv_usec);
  return CapturedPacket{
      .at = CaptureTime(std::chrono::nanoseconds(static_cast<int64_t>(at_ns))),
      .bytes = std::as_bytes(std::span(bytes, header->caplen)),
      .wire_bytes = std::max<uint32_t>(header->len, header->caplen),
  };
}

}  // namespace tributary::io
