// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/errno_text.h"

namespace tributary {
namespace {

constexpr int kExitNotExecutable = 127;  // As in shells.

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Result<Pipe> open_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return system_failure(errno, "cannot create a pipe for a child process");
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{ends[0], ends[1]};
}

void close_if_open(int file) {
  if (file >= 0) close(file);
}

/// Runs between fork and exec, so it calls nothing that allocates or locks.
[[noreturn]] void become_program(const char* program, char* const* arguments,
                                 char* const* environment, int stdout_file, int stderr_file,
                                 std::span<const int> inherited_files, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitNotExecutable);  // The parent died before prctl().
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(stdout_file, STDOUT_FILENO);
  dup2(stderr_file, STDERR_FILENO);
  for (const int file : inherited_files) fcntl(file, F_SETFD, 0);
  execve(program, arguments, environment);
  for (const char* text : {program, ": ", strerrordesc_np(errno)}) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
  _exit(kExitNotExecutable);
}

/// Returns pointers to `texts` and a final null, as execve() expects them.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Returns this process's environment with `changes` (NAME=VALUE) applied.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> environment = changes;
  const auto is_replaced = [&changes](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(changes.begin(), changes.end(),
                       [name](const std::string& change) { return change.starts_with(name); });
  };
  for (char** entry = environ; *entry != nullptr; entry++) {
    if (!is_replaced(*entry)) environment.emplace_back(*entry);
  }
  return environment;
}

/// Cuts whole lines off `rest`. A part of more than kLineBytesMax counts as a line.
std::vector<std::string> cut_lines(std::string& rest) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end; (end = rest.find_first_of("\r\n", begin)) != std::string::npos;) {
    if (rest[end] == '\n') {
      lines.push_back(rest.substr(begin, end - begin));
      begin = end + 1;
      continue;
    }
    if (end + 1 == rest.size()) break;  // A newline may follow, which makes it one end of a line.
    const bool is_newline = rest[end + 1] == '\n';
    lines.push_back(rest.substr(begin, end - begin + (is_newline ? 0 : 1)));
    begin = end + (is_newline ? 2 : 1);
  }
  rest.erase(0, begin);
  if (rest.size() > kLineBytesMax) lines.push_back(std::exchange(rest, {}));
  return lines;
}

/// Appends all available bytes. @return false if there were none.
bool read_available(int file, std::string& to) {
  std::array<char, 4096> buffer{};
  bool any = false;
  // Bounded, so that a child that writes without end cannot block the caller.
  for (uint32_t i = 0; i < 64; i++) {
    const ssize_t size = read(file, buffer.data(), buffer.size());
    if (size <= 0) break;
    to.append(buffer.data(), static_cast<size_t>(size));
    any = true;
  }
  return any;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const Config& config) {
  // Everything that allocates comes before the fork.
  std::vector<std::string> words{config.program};
  words.insert(words.end(), config.arguments.begin(), config.arguments.end());
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<std::string> entries = environment_with(config.environment);
  const std::vector<char*> environment = pointers_to(entries);

  const auto out = open_pipe();
  if (!out) return tl::unexpected(out.error());
  const auto errors = open_pipe();
  if (!errors) {
    close(out->read_end);
    close(out->write_end);
    return tl::unexpected(errors.error());
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become_program(config.program.c_str(), arguments.data(), environment.data(), out->write_end,
                   errors->write_end, config.inherited_files, parent);
  }
  // On both sides of the fork, so signal_group() finds the group whichever side runs first.
  if (pid > 0) setpgid(pid, pid);
  close(out->write_end);
  close(errors->write_end);
  ChildProcess child(config.name, std::max(pid, 0), out->read_end, errors->read_end);
  if (pid < 0) {
    return system_failure(errno, fmt::format("cannot start {}", config.name));
  }
  return child;
}

ChildProcess::ChildProcess(std::string name, pid_t pid, int stdout_file, int stderr_file)
    : name_(std::move(name)), pid_(pid), stdout_file_(stdout_file), stderr_file_(stderr_file) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, 0)),
      stdout_file_(std::exchange(other.stdout_file_, -1)),
      stderr_file_(std::exchange(other.stderr_file_, -1)),
      stdout_rest_(std::move(other.stdout_rest_)),
      stderr_rest_(std::move(other.stderr_rest_)),
      stderr_tail_(std::move(other.stderr_tail_)),
      wait_status_(other.wait_status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ != 0 && !wait_status_) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  close_if_open(stdout_file_);
  close_if_open(stderr_file_);
}

std::vector<std::string> ChildProcess::take_lines() {
  if (!read_available(stdout_file_, stdout_rest_)) return {};
  return cut_lines(stdout_rest_);
}

std::vector<std::string> ChildProcess::take_error_lines() {
  if (!read_available(stderr_file_, stderr_rest_)) return {};
  return cut_lines(stderr_rest_);
}

const std::string& ChildProcess::stderr_tail() {
  read_available(stderr_file_, stderr_tail_);
  if (stderr_tail_.size() > kStderrTailBytes) {
    stderr_tail_.erase(0, stderr_tail_.size() - kStderrTailBytes);
  }
  return stderr_tail_;
}

std::string ChildProcess::last_output() {
  std::string text = stderr_tail();
  text.erase(text.find_last_not_of('\n') + 1);  // npos + 1 is 0.
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void ChildProcess::signal(int signal) {
  if (!has_ended()) kill(pid_, signal);
}

void ChildProcess::signal_group(int signal) {
  if (pid_ != 0) kill(-pid_, signal);
}

bool ChildProcess::has_ended() {
  if (wait_status_ || pid_ == 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) wait_status_ = status;
  return wait_status_.has_value();
}

std::string ChildProcess::end_text() const {
  if (!wait_status_) return {};
  if (WIFSIGNALED(*wait_status_)) {
    const int signal = WTERMSIG(*wait_status_);
    return fmt::format("signal {} ({})", signal, strsignal(signal));
  }
  return fmt::format("exit status {}", WEXITSTATUS(*wait_status_));
}

int ChildProcess::exit_code() const {
  if (!wait_status_) return 0;
  return WIFSIGNALED(*wait_status_) ? 128 + WTERMSIG(*wait_status_) : WEXITSTATUS(*wait_status_);
}

bool ChildProcess::ended_well() const {
  return wait_status_ && WIFEXITED(*wait_status_) && WEXITSTATUS(*wait_status_) == 0;
}

}  // namespace tributary
