// SPDX-License-Identifier: Apache-2.0
#include "server/control/who.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/trio_ml/records.h"
#include "io/local/client_address.h"

namespace tributary::control {
namespace {

using server::BlockSnapshot;
using server::JobSnapshot;
using server::SourceSnapshot;
using server::SourceState;

/// Returns the rank or ranks of a source as the subject of a sentence.
std::string subject(const SourceSnapshot& source) {
  return fmt::format("{} {}", source.ranks.size() == 1 ? "rank" : "ranks",
                     fmt::join(source.ranks, ", "));
}

/// Returns the place of a source's process for a sentence; empty if it is unknown.
std::string place(const SourceSnapshot& source) {
  if (!source.address.is_set()) return {};
  // The address of a worker over shared memory exists in this server only.
  if (io::is_local_client(source.address)) return " on this machine";
  return " at " + source.address.to_string();
}

std::string advice_for(const SourceSnapshot& source) {
  const std::string who = subject(source);
  const std::string from = place(source);
  switch (source.state) {
    case SourceState::kAbsent:
      return fmt::format("{} has sent nothing: start it, and check its --server, --job and --rank",
                         who);
    case SourceState::kLeft:
      return fmt::format("{} has left the session: restart all ranks of the job", who);
    case SourceState::kJoining:
      return fmt::format("{} waits for the session to start", who);
    case SourceState::kPlain:
      return fmt::format("{} sends plain packets and repeats none: check its process{}", who, from);
    case SourceState::kSilent:
    case SourceState::kMember:
      break;
  }
  if (source.joining) {
    return fmt::format("{} was restarted and cannot join a running session: restart all ranks",
                       who);
  }
  if (source.silent_for && *source.silent_for >= kSilenceShown) {
    return fmt::format("{} is silent: check that its process runs{} and that its network is up",
                       who, from);
  }
  return fmt::format(
      "{} was heard lately but has not contributed: see whether its process{} computes or is "
      "stopped",
      who, from);
}

Wait wait_for(const JobSnapshot& job, const SourceSnapshot& source) {
  Wait wait{.job = job.config.id,
            .missing = source.ranks,
            .last_heard = source.silent_for,
            .advice = advice_for(source)};
  if (source.address.is_set()) wait.address = source.address.to_string();
  return wait;
}

/// Returns the oldest block that has waited long enough and satisfies the condition; null: none.
template <class Condition>
const BlockSnapshot* oldest(const JobSnapshot& job, Instant now, Condition&& condition) {
  const auto found = std::ranges::find_if(job.blocks, [&](const BlockSnapshot& block) {
    return now - block.referenced_at >= kWaitShown && condition(block);
  });
  return found == job.blocks.end() ? nullptr : &*found;
}

void add_upstream_wait(const JobSnapshot& job, Instant now, std::vector<Wait>& waits) {
  const BlockSnapshot* block =
      oldest(job, now, [](const BlockSnapshot& each) { return each.waits_upstream; });
  if (block == nullptr) return;
  const std::string upstream = job.config.upstream.to_string();
  waits.push_back(
      {.job = job.config.id,
       .block = block->block_id,
       .missing = {},
       .since = now - block->referenced_at,
       .last_heard = {},
       .address = upstream,
       .advice = fmt::format("all ranks below have contributed; the upper aggregator {} "
                             "has not answered: run tributary who there",
                             upstream)});
}

/// Adds the sources that have not joined, if another one waits for them.
void add_absent(const JobSnapshot& job, std::vector<Wait>& waits) {
  const auto is_joining = [](const SourceSnapshot& s) { return s.joining; };
  if (job.session != 0 || std::ranges::none_of(job.sources, is_joining)) return;
  for (const SourceSnapshot& source : job.sources) {
    if (!source.joining) waits.push_back(wait_for(job, source));
  }
}

void add_missing(const JobSnapshot& job, Instant now, std::vector<Wait>& waits) {
  for (uint32_t i = 0; i < job.sources.size(); i++) {
    const SourceSnapshot& source = job.sources[i];
    const BlockSnapshot* block = oldest(
        job, now, [i](const BlockSnapshot& each) { return trio_ml::contains(each.missing, i); });
    if (block != nullptr) {
      Wait wait = wait_for(job, source);
      wait.block = block->block_id;
      wait.since = now - block->referenced_at;
      waits.push_back(std::move(wait));
    } else if (job.session != 0 && !source.waited_for) {
      Wait wait = wait_for(job, source);
      wait.advice += source.ranks.size() == 1 ? "; the job continues without this rank"
                                              : "; the job continues without these ranks";
      waits.push_back(std::move(wait));
    }
  }
}

}  // namespace

std::vector<Wait> find_waits(const server::Snapshot& snapshot) {
  std::vector<Wait> waits;
  for (const JobSnapshot& job : snapshot.jobs) {
    add_absent(job, waits);
    add_missing(job, snapshot.at, waits);
    add_upstream_wait(job, snapshot.at, waits);
  }
  return waits;
}

}  // namespace tributary::control
