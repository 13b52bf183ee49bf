// SPDX-License-Identifier: Apache-2.0
/// @file
/// One line on a terminal that is overwritten in place while a command works. Elsewhere, nothing.
///
/// Model:   The first line comes after half a second, so that quick commands print none. Lines are
///          cut to the terminal's width, because a line that wraps cannot be overwritten.
/// Threads: Prints from a thread of its own.
/// Tests:   tests/cli/status_line_test.cc
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace tributary::cli {

/// Returns the beginning of a UTF-8 text that leaves the last of `columns` columns free.
[[nodiscard]] std::string clip_line(std::string_view text, uint32_t columns);

/// Returns the width of a terminal; 80 if it does not tell.
[[nodiscard]] uint32_t terminal_columns(int file);

/// Overwrites the terminal's line.
void overwrite_line(int file, std::string_view text);

class StatusLine {
 public:
  /// Returns the line. Called in the line's thread.
  using Text = std::function<std::string(double elapsed_s)>;

  /// @param file Standard error, or another file in tests.
  explicit StatusLine(Text text, int file = STDERR_FILENO);
  /// Wipes the line.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Tells whether lines are printed at all.
  [[nodiscard]] bool is_shown() const { return printer_.joinable(); }

 private:
  void print_until_stopped(const std::stop_token& stop);

  const Text text_;
  const int file_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread printer_;
};

}  // namespace tributary::cli
