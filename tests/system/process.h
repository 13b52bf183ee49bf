// SPDX-License-Identifier: Apache-2.0
/// @file
/// A child process of a test: its output, its signals and its end.
///
/// Waiting: Always in poll() and with a deadline; output that is missing by then fails the test.
/// Threads: One.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tributary::system_test {

using Clock = std::chrono::steady_clock;

/// Longest wait for anything; only a failure takes this long.
inline constexpr std::chrono::seconds kPatience{20};

/// Returns the milliseconds until `deadline` for poll(), at least 0.
int milliseconds_until(Clock::time_point deadline);

class Process {
 public:
  /// Starts the `tributary` program. The child dies with this process.
  /// @param output_path Standard output goes to this file, and output() stays empty. Empty: a pipe.
  explicit Process(const std::vector<std::string>& arguments, const std::string& output_path = "");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Reads until standard output contains the whole line `text`.
  /// @return whether it arrived in time.
  bool wait_for_line(const std::string& text);
  /// Reads until standard error contains `text`.
  /// @return whether it arrived in time.
  bool wait_for_error(const std::string& text);
  /// Reads until the process ends.
  /// @return its exit status, 128 + n for signal n; nothing if it still ran at the deadline and was
  ///   killed.
  std::optional<int> wait_for_end();

  void signal(int number);
  /// Returns the memory that the process occupies (VmRSS); 0 if it has ended.
  [[nodiscard]] uint64_t resident_bytes() const;
  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] const std::string& errors() const { return errors_; }

 private:
  /// Waits for output and reads it.
  /// @return false if both pipes have ended or time is up.
  bool read_some(Clock::time_point deadline);
  static bool drain(int& file, std::string& text);

  pid_t pid_ = 0;
  int output_file_ = -1;
  int errors_file_ = -1;
  std::string output_;
  std::string errors_;
};

/// Returns the lines of a text, without their newlines.
std::vector<std::string> lines_of(const std::string& text);

/// Returns a path in this run's scratch directory, which is removed at its end.
std::string scratch(const std::string& name);

}  // namespace tributary::system_test
