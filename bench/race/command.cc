// SPDX-License-Identifier: Apache-2.0
#include "bench/race/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "base/child_process.h"

namespace tributary::race {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{20};  // Generous; normally milliseconds.
constexpr int kPollMs = 20;

}  // namespace

std::string find_program(const std::string& name) {
  for (const char* folder : std::array{"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    std::string path = folder + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

Result<std::string> run_command(const std::vector<std::string>& words) {
  const std::string program = find_program(words.front());
  if (program.empty()) return failure(fmt::format("{}: not installed", words.front()));
  auto child = ChildProcess::start({.name = words.front(),
                                    .program = program,
                                    .arguments = {words.begin() + 1, words.end()},
                                    .inherited_files = {}});
  if (!child) return tl::unexpected(child.error());
  std::string output;
  const auto take = [&] {
    for (const std::string& line : child->take_lines()) output += line + '\n';
  };
  const auto deadline = Clock::now() + kPatience;
  while (!child->has_ended() && Clock::now() < deadline) {
    // The pipe closes when the program ends, which wakes poll().
    pollfd file{child->stdout_file(), POLLIN, 0};
    poll(&file, 1, kPollMs);
    take();
  }
  take();
  if (child->ended_well()) return output;
  const std::string message = child->last_output();
  return failure(fmt::format("{}: {} ({})", fmt::join(words, " "),
                             child->has_ended() ? child->end_text() : "took too long",
                             message.empty() ? "no message" : message));
}

}  // namespace tributary::race
