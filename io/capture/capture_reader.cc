// SPDX-License-Identifier: Apache-2.0
#include "io/capture/capture_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pcap/pcap.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "base/errno_text.h"
#include "base/time.h"

namespace tributary::io {
namespace {

struct Compression {
  bool maybe_gzip = false;        ///< It is gzip's, or it cannot be looked at before it is read.
  const char* command = nullptr;  ///< The program that decompresses another format.
};

/// Looks at the first bytes of a file, which stay to be read. Those of a pipe cannot be looked at.
Compression compression_of(int file) {
  std::array<unsigned char, 4> magic{};
  const off_t at = lseek(file, 0, SEEK_CUR);
  if (at < 0) return {.maybe_gzip = true};
  if (pread(file, magic.data(), magic.size(), at) != static_cast<ssize_t>(magic.size())) return {};
  const auto begins = [&magic](std::initializer_list<unsigned char> with) {
    return std::equal(with.begin(), with.end(), magic.begin());
  };
  if (begins({0x1f, 0x8b})) return {.maybe_gzip = true};
  if (begins({0x28, 0xb5, 0x2f, 0xfd})) return {.command = "zstd"};
  if (begins({0xfd, '7', 'z', 'X'})) return {.command = "xz"};
  if (begins({'B', 'Z', 'h'})) return {.command = "bzip2"};
  return {};
}

/// The major version that libpcap reports for a pcapng file; for a pcap file, it is 2 or more.
/// Source: libpcap, sf-pcapng.c.
constexpr int kPcapngMajor = 1;

/// Returns the time of a packet. With PCAP_TSTAMP_PRECISION_NANO, tv_usec counts nanoseconds.
/// libpcap takes the 32 bits of a pcap file's seconds for signed; here they are unsigned. A pcapng
/// file may hold any number of seconds, also before 1970. A time that CaptureTime cannot hold
/// becomes its first or last one.
CaptureTime time_of(const timeval& at, bool is_pcapng) {
  // Leaves room for tv_usec, which may be a few seconds in a damaged file.
  constexpr int64_t kSecondsMax = INT64_MAX / kNanosecondsPerSecond - 60;
  const int64_t s = is_pcapng ? int64_t{at.tv_sec} : int64_t{static_cast<uint32_t>(at.tv_sec)};
  if (s > kSecondsMax) return CaptureTime::max();
  if (s < -kSecondsMax) return CaptureTime::min();
  return CaptureTime(std::chrono::nanoseconds(s * kNanosecondsPerSecond + at.tv_usec));
}

}  // namespace

void CaptureReader::Closer::operator()(pcap* handle) const { pcap_close(handle); }

Result<CaptureReader> CaptureReader::open(const std::string& path) {
  // A copy of standard input, because the end closes the file.
  const int file = path == "-" ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return system_failure(errno, path);
  const std::string name = path == "-" ? "the standard input" : path;
  const Compression compression = compression_of(file);
  if (compression.command != nullptr) {
    close(file);
    return failure(fmt::format(
        "{}: compressed with {}; allowed: no compression, or gzip. Use: {} -dc {} | ... --in -",
        name, compression.command, compression.command, path));
  }
  if (!compression.maybe_gzip) return from(fdopen(file, "rb"), name);
  const auto problem = std::make_shared<std::string>();
  return from(open_gzip(file, problem), name, problem);
}

Result<CaptureReader> CaptureReader::from(std::FILE* file, const std::string& name,
                                          GzipProblem problem) {
  if (file == nullptr) return failure(fmt::format("{}: out of memory", name));
  std::array<char, PCAP_ERRBUF_SIZE> text{};
  std::unique_ptr<pcap, Closer> handle(
      pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, text.data()));
  if (handle == nullptr) {
    std::fclose(file);
    return failure(fmt::format("{}: not a capture in pcap or pcapng format ({})", name,
                               problem && !problem->empty() ? *problem : text.data()));
  }
  const int link_type = pcap_datalink(handle.get());
  auto link_layer = LinkLayer::of(link_type);
  if (!link_layer) {
    const char* link_name = pcap_datalink_val_to_name(link_type);
    return failure(fmt::format("{}: link type {} ({}); allowed: {}", name, link_type,
                               link_name == nullptr ? "unknown" : link_name,
                               readable_link_types()));
  }
  return CaptureReader(std::move(handle), name, *std::move(link_layer), std::move(problem));
}

Result<std::optional<CapturedPacket>> CaptureReader::next() {
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  const int status = pcap_next_ex(handle_.get(), &header, &bytes);
  if (status == PCAP_ERROR_BREAK) return std::nullopt;
  if (status != 1) {
    const bool is_compression = problem_ && !problem_->empty();
    return failure(
        fmt::format("{}: {}", name_, is_compression ? *problem_ : pcap_geterr(handle_.get())));
  }
  const LinkLayer::Frame frame =
      link_layer_.to_ethernet(std::as_bytes(std::span(bytes, header->caplen)),
                              std::max<uint32_t>(header->len, header->caplen));
  return CapturedPacket{
      .at = time_of(header->ts, pcap_major_version(handle_.get()) == kPcapngMajor),
      .bytes = frame.bytes,
      .wire_bytes = frame.wire_bytes};
}

}  // namespace tributary::io
