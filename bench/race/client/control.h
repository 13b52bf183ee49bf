// SPDX-License-Identifier: Apache-2.0
/// @file
/// The messages between a race and its worker processes: lines over a Unix socket, which crosses
/// network namespaces and does not disturb the measured links.
///
/// Model:   The worker sends "hello RANK", then "ready" for each lap. The race answers "go" when
///          all are ready, or "end". The worker reports with "lap …". A worker that fails sends
///          "failed TEXT" and ends.
/// Units:   Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
/// Threads: One per object.
/// Errors:  Values. A line that is too long or cannot be parsed is an error.
/// Tests:   tests/bench/race/client/control_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tributary::race {

/// Longest line; a longer "failed" text is cut.
inline constexpr size_t kControlLineBytesMax = 4096;

/// A worker's measurements in one lap of one or more all-reduces.
struct LapReport {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t cpu_ns = 0;     ///< CPU time of this process between start and end.
  uint64_t rx_bytes = 0;  ///< Bytes received by its interface between start and end.
  uint64_t tx_bytes = 0;
  uint64_t wrong = 0;    ///< Elements.
  uint64_t partial = 0;  ///< Elements that lack a worker.
  uint64_t digest = 0;   ///< Digest of all results (base/fnv.h); the same on all ranks.

  friend bool operator==(const LapReport&, const LapReport&) = default;
};

/// Encodes and decodes "lap …" without the newline. decode_lap() refuses other words and missing or
/// negative numbers.
[[nodiscard]] std::string encode(const LapReport& report);
[[nodiscard]] Result<LapReport> decode_lap(std::string_view line);

/// Returns the rank in "hello RANK".
[[nodiscard]] Result<uint32_t> decode_hello(std::string_view line);

/// One end of a connection.
class LineSocket {
 public:
  /// Connects to the race that listens at `path`.
  static Result<LineSocket> connect(const std::string& path);
  /// Takes ownership of a connected socket.
  explicit LineSocket(int file) : file_(file) {}
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&&) = delete;
  ~LineSocket();

  [[nodiscard]] int file() const { return file_; }
  Result<void> send_line(std::string_view line);
  /// Blocks until a line has arrived. Fails if the other end has closed.
  Result<std::string> read_line();
  /// Takes the lines that have arrived; never blocks. Fails if the other end has closed and no line
  /// is left.
  Result<std::vector<std::string>> take_lines();

 private:
  /// @return false if the other end has closed.
  Result<bool> read_some(int flags);

  int file_;
  std::string rest_;  ///< An unfinished line.
};

/// Listens for the race's workers. The destructor removes the path.
class ControlListener {
 public:
  static Result<ControlListener> open(const std::string& path);
  ControlListener(ControlListener&& other) noexcept;
  ControlListener& operator=(ControlListener&&) = delete;
  ~ControlListener();

  [[nodiscard]] int file() const { return file_; }
  /// Returns the file of the next connected worker; -1 if there is none.
  [[nodiscard]] int accept_now();

 private:
  ControlListener(int file, std::string path) : file_(file), path_(std::move(path)) {}
  int file_;
  std::string path_;
};

}  // namespace tributary::race
