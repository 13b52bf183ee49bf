// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes Ethernet frames to a capture file: pcap with times in nanoseconds, which Wireshark,
/// tcpdump and CaptureReader open.
///
/// Units:   As for CaptureReader.
/// Threads: One.
/// Errors:  open() refuses a path that cannot be written. write() and finish() report a failed
///          write, such as to a full disk; the packets before it stay in the file.
/// Tests:   tests/io/capture/capture_test.cc
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "io/capture/capture_reader.h"

struct pcap_dumper;

namespace tributary::io {

class CaptureWriter {
 public:
  /// Creates the file, or replaces its content; "-" is the standard output.
  [[nodiscard]] static Result<CaptureWriter> open(const std::string& path);

  /// Appends a packet.
  /// @pre packet.bytes.size() <= packet.wire_bytes. The time is from 1970 to 2106: a file has 32
  ///      bits for the seconds.
  [[nodiscard]] Result<void> write(const CapturedPacket& packet);
  /// Flushes and closes the file. No other call may follow.
  [[nodiscard]] Result<void> finish();

 private:
  struct Closer {
    void operator()(pcap* handle) const;
    void operator()(pcap_dumper* file) const;
  };
  CaptureWriter() = default;
  [[nodiscard]] Result<void> failed() const;

  std::unique_ptr<pcap, Closer> handle_;
  std::unique_ptr<pcap_dumper, Closer> file_;
  std::string name_;
};

}  // namespace tributary::io
