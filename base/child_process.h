// SPDX-License-Identifier: Apache-2.0
/// @file
/// A process that the demo or `tributary launch` has started: its lines, its errors, its end.
///
/// Model:   Own process group, so a terminal's Ctrl-C reaches the parent alone and the parent
///          decides. It is killed when the parent dies, and by the destructor.
/// Threads: One object, one thread. Start children from a thread that lives as long as they: the
///          kernel's death signal belongs to the thread.
/// Errors:  start() returns what the operating system refused. A program that cannot be executed
///          ends with status 127.
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

/// The end of standard error that is kept for messages.
inline constexpr size_t kStderrTailBytes = 2048;
/// A longer line is delivered in parts.
inline constexpr size_t kLineBytesMax = 65'536;

class ChildProcess {
 public:
  struct Config {
    std::string name;                    ///< As messages call it.
    std::string program;                 ///< Path; not searched for.
    std::vector<std::string> arguments;  ///< Without the program.
    std::vector<int> inherited_files;    ///< Descriptors that stay open in the child.
    /// NAME=VALUE each, on top of the parent's environment; a name that is there is replaced.
    std::vector<std::string> environment = {};
  };

  static Result<ChildProcess> start(const Config& config);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills the child if it still runs and waits for it.
  ~ChildProcess();

  /// Lines that have arrived on standard output, without newlines; never blocks.
  std::vector<std::string> take_lines();
  /// What it wrote last to standard error; never blocks.
  const std::string& stderr_tail();
  /// The lines of standard error instead of its tail, as take_lines(); use one of the two.
  std::vector<std::string> take_error_lines();
  /// Ends of lines that will not be completed, standard output's and standard error's; for a child
  /// that has ended and whose lines have been taken.
  [[nodiscard]] const std::string& stdout_rest() const { return stdout_rest_; }
  [[nodiscard]] const std::string& stderr_rest() const { return stderr_rest_; }

  /// Sends `signal` unless the child has ended.
  void signal(int signal);
  /// Sends `signal` to the child and all processes of its group, also when the child has ended.
  void signal_group(int signal);
  /// True once the child has ended; never blocks.
  bool has_ended();
  /// "exit status 3" or "signal 9 (Killed)"; empty while it runs. Status 0 is "exit status 0".
  [[nodiscard]] std::string end_text() const;
  /// The exit status, or 128 + the signal as shells give it; 0 while it runs.
  [[nodiscard]] int exit_code() const;
  /// Ended with exit status 0.
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
  std::string stderr_rest_;  ///< Likewise.
  std::string stderr_tail_;
  std::optional<int> wait_status_;  ///< As waitpid() gave it.
};

}  // namespace tributary
