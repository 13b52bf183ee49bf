// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads Ethernet frames from a capture file: pcap or pcapng, with times in microseconds or
/// nanoseconds, of either byte order. libpcap does the parsing.
///
/// Units:   Times in nanoseconds since 1970; sizes in bytes without the frame check sequence.
/// Threads: One.
/// Errors:  open() refuses a file that is not a capture, and every link type except Ethernet. next()
///          reports a damaged or cut-off file; the packets before the damage have been read.
/// Memory:  One packet of at most 256 KiB, inside libpcap.
/// Tests:   tests/io/capture/capture_test.cc, tests/fuzz/capture_file.cc
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

struct pcap;

namespace tributary::io {

using CaptureTime = std::chrono::sys_time<std::chrono::nanoseconds>;

/// One packet of a capture.
struct CapturedPacket {
  CaptureTime at;
  std::span<const std::byte> bytes;  ///< The captured bytes; valid until the next next().
  uint32_t wire_bytes = 0;  ///< Size on the wire: more than bytes.size() if the capture cut it.
};

class CaptureReader {
 public:
  /// Opens a file; "-" is the standard input.
  [[nodiscard]] static Result<CaptureReader> open(const std::string& path);
  /// Reads from an open file and closes it at the end. @param name For error texts.
  [[nodiscard]] static Result<CaptureReader> from(std::FILE* file, const std::string& name);

  /// Returns the next packet, or nothing at the end of the file.
  [[nodiscard]] Result<std::optional<CapturedPacket>> next();

 private:
  struct Closer {
    void operator()(pcap* handle) const;
  };
  CaptureReader(pcap* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

  std::unique_ptr<pcap, Closer> handle_;
  std::string name_;
};

}  // namespace tributary::io
