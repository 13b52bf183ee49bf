// SPDX-License-Identifier: Apache-2.0
#include "bench/chaos/rank_group.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace tributary::chaos {
namespace {

/// More than any run completes; a group ends by a signal or a fault.
constexpr uint64_t kIterations = 1'000'000'000;
constexpr int kPollMs = 2;

}  // namespace

RankGroup::RankGroup(GroupConfig config) : config_(std::move(config)) {
  ranks_.resize(config_.workers);
  for (RankState& rank : ranks_) rank.ended = true;
}

Result<void> RankGroup::start(uint32_t rank) {
  std::vector<std::string> words = config_.where[rank];
  words.insert(
      words.end(),
      {config_.program, "worker", "--server", config_.server,
       // The faults are the network's; shared memory would not meet them.
       "--local", "off", "--rank", std::to_string(rank), "--world", std::to_string(config_.workers),
       "--elements", std::to_string(config_.elements), "--iterations", std::to_string(kIterations),
       "--deadline-s", std::to_string(config_.deadline_s), "--verify", "--format", "exponent",
       "--owner", "drawn", "--report-ms", std::to_string(kReportEvery.count())});
  if (config_.auth != auth::Mode::kNone) {
    words.insert(words.end(),
                 {"--auth", auth::to_string(config_.auth), "--secret-file", config_.secret_path});
  }
  auto child = ChildProcess::start({.name = fmt::format("rank {}", rank),
                                    .program = words.front(),
                                    .arguments = {words.begin() + 1, words.end()},
                                    .inherited_files = {}});
  if (!child) return tl::unexpected(child.error());
  ranks_[rank] = RankState();
  ranks_[rank].process = std::make_unique<ChildProcess>(std::move(*child));
  return {};
}

void RankGroup::signal(uint32_t rank, int number) {
  if (ranks_[rank].process != nullptr) ranks_[rank].process->signal(number);
}

void RankGroup::signal_all(int number) {
  for (uint32_t rank = 0; rank < size(); rank++) signal(rank, number);
}

void RankGroup::turn() {
  std::vector<pollfd> files;
  for (const RankState& rank : ranks_) {
    if (!rank.ended) files.push_back({rank.process->stdout_file(), POLLIN, 0});
  }
  poll(files.data(), files.size(), kPollMs);
  for (RankState& rank : ranks_) {
    if (!rank.ended) read(rank);
  }
}

void RankGroup::read(RankState& rank) {
  // Ask for the end first, so that the lines of an ended process are complete.
  const bool ended = rank.process->has_ended();
  for (const std::string& line : rank.process->take_lines()) {
    std::istringstream words(line);
    std::string key;
    uint64_t done = 0;
    uint64_t wrong = 0;
    if (!(words >> key >> done) || key != "done" || !(words >> key >> wrong)) continue;
    reductions_ += done - std::exchange(rank.done, done);
    wrong_ += wrong - std::exchange(rank.wrong, wrong);
  }
  const std::string& tail = rank.process->stderr_tail();  // Also drains the pipe.
  if (!ended) return;
  rank.ended = true;
  rank.ended_at = Clock::now();
  if (!rank.process->ended_well()) {
    rank.error = fmt::format("{} ({})", tail.substr(0, tail.find('\n')), rank.process->end_text());
  }
}

void RankGroup::mark() {
  for (RankState& rank : ranks_) rank.before = rank.done;
}

bool RankGroup::has_progressed() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& rank) { return rank.done > rank.before; });
}

bool RankGroup::has_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& rank) { return rank.ended; });
}

bool RankGroup::any_ended() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& rank) { return rank.ended; });
}

}  // namespace tributary::chaos
