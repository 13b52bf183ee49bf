// SPDX-License-Identifier: Apache-2.0
/// @file
/// A process that the demo or `tributary launch` has started: its output lines, errors and end.
///
/// Model:   The child has its own process group, so a terminal's Ctrl-C reaches only the parent,
///          which then ends the child. The destructor kills it, and so does the parent's death.
/// Threads: One thread for each object. The kernel's death signal belongs to the thread that starts
///          the child, so that thread must live as long as the child.
/// Errors:  start() returns the operating system's error. A program that cannot be executed ends
///          with status 127.
/// Memory:  At most kStderrTailBytes of standard error and kLineBytesMax of an unfinished line.
/// Tests:   tests/base/child_process_test.cc
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary {

/// Bytes kept from the end of standard error, for messages.
inline constexpr size_t kStderrTailBytes = 2048;
/// A longer line is delivered in parts.
inline constexpr size_t kLineBytesMax = 65'536;

class ChildProcess {
 public:
  struct Config {
    std::string name;                    ///< The name in messages.
    std::string program;                 ///< A path; PATH is not searched.
    std::vector<std::string> arguments;  ///< Without the program.
    std::vector<int> inherited_files;    ///< Descriptors that stay open in the child.
    /// NAME=VALUE entries, which replace or extend the parent's environment.
    std::vector<std::string> environment = {};
  };

  /// Starts the program.
  static Result<ChildProcess> start(const Config& config);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills the child if it still runs and waits for it.
  ~ChildProcess();

  /// Returns the lines that have arrived on standard output, without newlines. Never blocks. A
  /// line that ends with a carriage return, as a progress bar's do, keeps it.
  std::vector<std::string> take_lines();
  /// Returns the end of standard error. Never blocks.
  const std::string& stderr_tail();
  /// Returns stderr_tail() as one line, for messages: no newline at its end, and spaces for others.
  std::string last_output();
  /// Returns the lines of standard error, like take_lines(). Use this or stderr_tail(), not both.
  std::vector<std::string> take_error_lines();
  /// Return the unfinished last lines of standard output and standard error. Call them when the
  /// child has ended and its lines have been taken.
  [[nodiscard]] const std::string& stdout_rest() const { return stdout_rest_; }
  [[nodiscard]] const std::string& stderr_rest() const { return stderr_rest_; }

  /// Sends `signal` unless the child has ended.
  void signal(int signal);
  /// Sends `signal` to all processes of the child's group, even after the child has ended.
  void signal_group(int signal);
  /// Returns whether the child has ended. Never blocks.
  bool has_ended();
  /// Returns "exit status 3" (0 for success) or "signal 9 (Killed)"; empty while it runs.
  [[nodiscard]] std::string end_text() const;
  /// Returns the exit status, or 128 + the signal as shells do; 0 while it runs.
  [[nodiscard]] int exit_code() const;
  /// Returns whether the child ended with exit status 0.
  [[nodiscard]] bool ended_well() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int stdout_file() const { return stdout_file_; }
  [[nodiscard]] int stderr_file() const { return stderr_file_; }

 private:
  ChildProcess(std::string name, pid_t pid, int stdout_file, int stderr_file);

  std::string name_;
  pid_t pid_;  ///< 0 after a move.
  int stdout_file_;
  int stderr_file_;
  std::string stdout_rest_;  ///< An unfinished line.
  std::string stderr_rest_;  ///< An unfinished line.
  std::string stderr_tail_;
  std::optional<int> wait_status_;  ///< The status from waitpid().
};

}  // namespace tributary
