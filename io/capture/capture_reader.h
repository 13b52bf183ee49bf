// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads Ethernet frames from a capture file: pcap or pcapng, with times in microseconds or
/// nanoseconds, of either byte order, plain or compressed with gzip. libpcap does the parsing. Of
/// other link types that have IP packets, it makes Ethernet frames (link_layer.h).
///
/// Units:   Times in nanoseconds since 1970; sizes in bytes without the frame check sequence.
/// Threads: One.
/// Errors:  open() refuses a file that is not a capture, and all other link types. next() reports a
///          damaged or cut-off file; the packets before the damage have been read.
/// Memory:  Two packets of at most 256 KiB.
/// Tests:   tests/io/capture/, tests/fuzz/capture_file.cc
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
#include "io/capture/gzip_file.h"
#include "io/capture/link_layer.h"

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
  /// Opens a file, which may be compressed with gzip; "-" is the standard input.
  [[nodiscard]] static Result<CaptureReader> open(const std::string& path);
  /// Reads from an open file and closes it at the end. @param name For error texts.
  /// @param problem Problem of a file from open_gzip(); null: the file is not compressed.
  [[nodiscard]] static Result<CaptureReader> from(std::FILE* file, const std::string& name,
                                                  GzipProblem problem = nullptr);

  /// Returns the next packet, or nothing at the end of the file.
  [[nodiscard]] Result<std::optional<CapturedPacket>> next();

 private:
  struct Closer {
    void operator()(pcap* handle) const;
  };
  CaptureReader(std::unique_ptr<pcap, Closer> handle, std::string name, LinkLayer link_layer,
                GzipProblem problem)
      : handle_(std::move(handle)),
        name_(std::move(name)),
        link_layer_(std::move(link_layer)),
        problem_(std::move(problem)) {}

  std::unique_ptr<pcap, Closer> handle_;
  std::string name_;
  LinkLayer link_layer_;
  GzipProblem problem_;  ///< Null: the file is not compressed.
};

}  // namespace tributary::io
