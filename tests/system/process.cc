// SPDX-License-Identifier: Apache-2.0
#include "tests/system/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace tributary::system_test {
namespace {

class ScratchDirectory {
 public:
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  static const std::filesystem::path& of_this_run() {
    static const ScratchDirectory directory;
    return directory.path_;
  }

 private:
  ScratchDirectory() {
    std::string pattern = ::testing::TempDir() + "tributary_system_XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  std::filesystem::path path_;
};

}  // namespace

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

Process::Process(const std::vector<std::string>& arguments, const std::string& output_path) {
  std::array<int, 2> output{};
  std::array<int, 2> errors{};
  if (pipe2(output.data(), O_CLOEXEC) != 0 || pipe2(errors.data(), O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe2";
    return;
  }
  std::vector<std::string> words{TRIBUTARY_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  if (!output_path.empty()) {
    close(output[1]);
    output[1] = open(output_path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  }

  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(output[1]);
  close(errors[1]);
  output_file_ = output[0];
  errors_file_ = errors[0];
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_file_ >= 0) close(output_file_);
  if (errors_file_ >= 0) close(errors_file_);
}

bool Process::drain(int& file, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t size = read(file, buffer.data(), buffer.size());
  if (size > 0) {
    text.append(buffer.data(), static_cast<size_t>(size));
    return true;
  }
  if (size < 0 && errno == EINTR) return true;
  close(file);
  file = -1;
  return false;
}

bool Process::read_some(Clock::time_point deadline) {
  if (output_file_ < 0 && errors_file_ < 0) return false;
  std::array<pollfd, 2> files{{{output_file_, POLLIN, 0}, {errors_file_, POLLIN, 0}}};
  if (poll(files.data(), files.size(), milliseconds_until(deadline)) <= 0) return false;
  if (files[0].revents != 0) drain(output_file_, output_);
  if (files[1].revents != 0) drain(errors_file_, errors_);
  return true;
}

bool Process::wait_for_line(const std::string& text) {
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    const auto lines = lines_of(output_);
    if (std::find(lines.begin(), lines.end(), text) != lines.end()) return true;
    if (!read_some(deadline)) return false;
  }
}

bool Process::wait_for_error(const std::string& text) {
  const auto deadline = Clock::now() + kPatience;
  while (errors_.find(text) == std::string::npos) {
    if (!read_some(deadline)) return false;
  }
  return true;
}

std::optional<int> Process::wait_for_end() {
  const auto deadline = Clock::now() + kPatience;
  while (read_some(deadline)) {
  }
  if (pid_ == 0) return std::nullopt;
  const bool ended = output_file_ < 0 && errors_file_ < 0;
  if (!ended) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  if (!ended) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Process::signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

uint64_t Process::resident_bytes() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  constexpr std::string_view kKey = "VmRSS:";
  constexpr uint64_t kUnitBytes = 1024;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kKey)) return std::stoull(line.substr(kKey.size())) * kUnitBytes;
  }
  return 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string scratch(const std::string& name) { return ScratchDirectory::of_this_run() / name; }

}  // namespace tributary::system_test
