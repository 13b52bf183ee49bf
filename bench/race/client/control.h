// SPDX-License-Identifier: Apache-2.0
/// @file
/// How a race and its worker processes talk: lines over a Unix socket, which also crosses network
/// namespaces and does not disturb the links that are measured.
///
/// Model:   worker: "hello RANK", then for each lap "ready"; race: "go" (to all when all are ready)
///          or "end"; worker: "lap …" with what it measured. A worker that cannot go on says
///          "failed TEXT" and ends.
/// Units:   Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
/// Threads: One per object.
/// Errors:  Values. A line that is too long or cannot be read is an error.
/// Tests:   tests/bench/race/client/control_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tributary::race {

/// Longest line; a "failed" text is cut to fit.
inline constexpr size_t kControlLineBytesMax = 4096;

/// What one worker measured in one lap of one or more all-reduces.
struct LapReport {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t cpu_ns = 0;     ///< Of this process, between start and end.
  uint64_t rx_bytes = 0;  ///< Of its interface, likewise.
  uint64_t tx_bytes = 0;
  uint64_t wrong = 0;    ///< Elements.
  uint64_t partial = 0;  ///< Elements that lack someone.

  friend bool operator==(const LapReport&, const LapReport&) = default;
};

/// "lap …" without the newline, and back. Refused: other words, missing or negative numbers.
[[nodiscard]] std::string encode(const LapReport& report);
[[nodiscard]] Result<LapReport> decode_lap(std::string_view line);

/// "hello RANK" as a rank.
[[nodiscard]] Result<uint32_t> decode_hello(std::string_view line);

/// One end of a connection.
class LineSocket {
 public:
  /// Connects to the race that listens at `path`.
  static Result<LineSocket> connect(const std::string& path);
  /// Takes over a connected socket.
  explicit LineSocket(int file) : file_(file) {}
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&&) = delete;
  ~LineSocket();

  [[nodiscard]] int file() const { return file_; }
  Result<void> send_line(std::string_view line);
  /// Blocks until a line is there. An error when the other end has gone.
  Result<std::string> read_line();
  /// Takes the lines that are there; never blocks. An error when the other end has gone and nothing
  /// is left.
  Result<std::vector<std::string>> take_lines();

 private:
  /// @return false when the other end has gone.
  Result<bool> read_some(int flags);

  int file_;
  std::string rest_;  ///< An unfinished line.
};

/// Where the race listens for its workers. The path goes away with it.
class ControlListener {
 public:
  static Result<ControlListener> open(const std::string& path);
  ControlListener(ControlListener&& other) noexcept;
  ControlListener& operator=(ControlListener&&) = delete;
  ~ControlListener();

  [[nodiscard]] int file() const { return file_; }
  /// The next worker that has connected; an invalid file (-1) if there is none now.
  [[nodiscard]] int accept_now();

 private:
  ControlListener(int file, std::string path) : file_(file), path_(std::move(path)) {}
  int file_;
  std::string path_;
};

}  // namespace tributary::race
