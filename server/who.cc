// SPDX-License-Identifier: Apache-2.0
#include "server/who.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/trio_ml/records.h"
#include "io/local/client_address.h"

namespace tributary::server {
namespace {

/// Returns the rank or ranks of a source as the subject of a sentence.
std::string subject(const SourceSnapshot& source) {
  return fmt::format("{} {}", source.ranks.size() == 1 ? "rank" : "ranks",
                     fmt::join(source.ranks, ", "));
}

/// Returns the place of a process for a sentence; empty if it is unknown.
std::string place_of(const Endpoint& address) {
  if (!address.is_set()) return {};
  // The address of a worker over shared memory exists in this server only.
  if (io::is_local_client(address)) {
    const uint32_t pid = io::pid_of(address);
    return pid == 0 ? " on this machine" : fmt::format(" on this machine (pid {})", pid);
  }
  return " at " + address.to_string();
}

/// Tells whether a source's joins wait because plain packets use the job. A worker repeats them.
bool is_held_off(const JobSnapshot& job, const SourceSnapshot& source, Instant now) {
  return job.config.clients == trio_ml::Clients::kAny && source.refused_join &&
         source.refused_join->reason == wire::Reason::kPlainClients &&
         now - source.refused_join->at <= trio_ml::kJoinFreshFor;
}

/// Tells whether joins wait because this source sends plain packets.
bool holds_joins_off(const JobSnapshot& job, const SourceSnapshot& source, Instant now) {
  return job.session == 0 && source.state == SourceState::kPlain &&
         std::ranges::any_of(
             job.sources, [&](const SourceSnapshot& each) { return is_held_off(job, each, now); });
}

/// Returns the join of a source that was not accepted; null: there is none, or it does not matter.
const trio_ml::RefusedJoin* refused_join_of(const SourceSnapshot& source) {
  const bool matters = !source.joining && source.state != SourceState::kMember;
  return source.refused_join && matters ? &*source.refused_join : nullptr;
}

/// Returns "the join of its process at 10.0.0.9:4000 was refused 3.2 s ago (wrong_world): …".
std::string refusal_text(const trio_ml::RefusedJoin& join, Instant now) {
  const double ago_s = in_seconds(std::max(now - join.at, Duration()));
  if (join.reason == wire::Reason::kAuthentication) {
    return fmt::format(
        "a process{} sent a join in its name, which was refused {:.1f} s ago (authentication) and "
        "may be a stranger's: compare the auth and the secret of the rank's process with the job's",
        place_of(join.from), ago_s);
  }
  return fmt::format(
      "the join of its process{} was refused {:.1f} s ago ({}): see the error of that process",
      place_of(join.from), ago_s, wire::to_string(join.reason));
}

/// Returns what to check about a silent source. A worker of this machine needs no network.
std::string silence_advice(const SourceSnapshot& source, const std::string& who) {
  if (!io::is_local_client(source.address)) {
    return fmt::format("{} is silent: check that its process runs{} and that its network is up",
                       who, place_of(source.address));
  }
  return fmt::format("{} is silent: check that its process{} runs and is not stopped", who,
                     place_of(source.address));
}

bool is_silent(const SourceSnapshot& source) {
  return source.silent_for && *source.silent_for >= kSilenceShown;
}

/// Returns the advice that workers and lower aggregators share; nothing if it depends on more.
/// @param who The source as the subject of a sentence.
std::optional<std::string> advice_on_membership(const SourceSnapshot& source,
                                                const std::string& who) {
  if (source.state == SourceState::kLeft) {
    return fmt::format("{} has left the session: restart all ranks of the job", who);
  }
  if (source.state == SourceState::kJoining) {
    return fmt::format("{} waits for the session to start", who);
  }
  if (source.joining) {
    return fmt::format("{} was restarted and cannot join a running session: restart all ranks",
                       who);
  }
  return std::nullopt;
}

/// Returns the advice about a lower aggregator. The ranks below it are known from its join.
std::string advice_for_lower(const SourceSnapshot& source, uint32_t index, Instant now) {
  const std::string who = source.ranks.empty()
                              ? fmt::format("the lower aggregator with upstream_source={}", index)
                              : fmt::format("the lower aggregator of {}", subject(source));
  const std::string from = place_of(source.address);
  if (source.state == SourceState::kAbsent || source.state == SourceState::kPlain) {
    if (const auto* join = refused_join_of(source)) {
      return fmt::format("{} has not joined: {}", who, refusal_text(*join, now));
    }
    return fmt::format("{} has not joined: start it and its ranks, and check its upstream=", who);
  }
  if (const auto advice = advice_on_membership(source, who)) return *advice;
  if (is_silent(source)) {
    return fmt::format("{} is silent: check that it runs{} and that its network is up", who, from);
  }
  return fmt::format("{} waits for one of its ranks: run tributary who there{}", who,
                     from.empty() ? "" : fmt::format(" ({})", source.address.to_string()));
}

/// @param joining Whether other ranks wait for a session, so that plain packets help nobody.
std::string advice_for(const SourceSnapshot& source, bool joining, Instant now) {
  const std::string who = subject(source);
  const std::string from = place_of(source.address);
  const bool has_not_joined =
      source.state == SourceState::kAbsent || (joining && source.state == SourceState::kPlain);
  if (const auto* refused = refused_join_of(source); has_not_joined && refused != nullptr) {
    return fmt::format("{} has not joined: {}", who, refusal_text(*refused, now));
  }
  if (joining && source.state == SourceState::kPlain) {
    return fmt::format("{} has not joined: start it, and check its --server, --job and --rank",
                       who);
  }
  if (source.state == SourceState::kAbsent) {
    return fmt::format("{} has sent nothing: start it, and check its --server, --job and --rank",
                       who);
  }
  if (source.state == SourceState::kPlain) {
    return fmt::format("{} sends plain packets and repeats none: check its process{}", who, from);
  }
  if (const auto advice = advice_on_membership(source, who)) return *advice;
  if (is_silent(source)) return silence_advice(source, who);
  return fmt::format(
      "{} was heard lately but has not contributed: see whether its process{} computes or is "
      "stopped, or whether the network drops its long packets (MTU)",
      who, from);
}

std::string advice_on(const JobSnapshot& job, uint32_t index, Instant now) {
  const SourceSnapshot& source = job.sources[index];
  if (is_held_off(job, source, now)) {
    return fmt::format("{} waits to join until no plain packets use the job", subject(source));
  }
  const bool joining = std::ranges::any_of(job.sources, &SourceSnapshot::joining);
  std::string advice = job.config.sources_are_aggregators ? advice_for_lower(source, index, now)
                                                          : advice_for(source, joining, now);
  const bool was_member =
      source.state == SourceState::kLeft || source.state == SourceState::kSilent;
  if (const auto* refused = refused_join_of(source); was_member && refused != nullptr) {
    advice += "; " + refusal_text(*refused, now);
  }
  return advice;
}

Wait wait_for(const JobSnapshot& job, uint32_t index, Instant now) {
  const SourceSnapshot& source = job.sources[index];
  Wait wait{.job = job.config.id,
            .channel_of = job.job_id(),
            .source = index,
            .missing = source.ranks,
            .last_heard = source.silent_for,
            .advice = advice_on(job, index, now)};
  if (source.address.is_set()) wait.address = io::sender_text(source.address);
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

std::string upstream_advice(const JobSnapshot& job) {
  using State = UpstreamSnapshot::State;
  const std::string upstream = job.config.upstream.to_string();
  const UpstreamSnapshot state = job.upstream.value_or(UpstreamSnapshot());
  if (state.state == State::kSilent) {
    return fmt::format(
        "the upper aggregator {} has not answered for {:.1f} s: check that it runs, this job's "
        "upstream= and the network between them",
        upstream, in_seconds(state.silent_for));
  }
  if (state.state == State::kRefused) {
    return fmt::format("the upper aggregator {} refuses this one: {}", upstream,
                       wire::to_string(state.refusal));
  }
  if (state.waits_for_silent) {
    return fmt::format("aggregator {}, above {}, does not answer: check that it runs",
                       state.waits_at.to_string(), upstream);
  }
  if (state.state == State::kJoining) {
    return fmt::format(
        "all ranks below have joined; the upper aggregator {} waits for its other aggregators: run "
        "tributary who there",
        state.waits_at.to_string());
  }
  return fmt::format(
      "all ranks below have contributed; the upper aggregator {} waits for others: run tributary "
      "who there",
      upstream);
}

/// Adds the upper aggregator, if a block or the start of a session waits for it.
void add_upstream_wait(const JobSnapshot& job, Instant now, std::vector<Wait>& waits) {
  const BlockSnapshot* block =
      oldest(job, now, [](const BlockSnapshot& each) { return each.waits_upstream; });
  const auto is_joining = [](const SourceSnapshot& s) { return s.joining; };
  const bool joins = job.config.upstream.is_set() && job.session == 0 &&
                     std::ranges::all_of(job.sources, is_joining);
  if (block == nullptr && !joins) return;
  Wait wait{.job = job.config.id,
            .channel_of = job.job_id(),
            .missing = {},
            .last_heard = {},
            .address = job.config.upstream.to_string(),
            .advice = upstream_advice(job)};
  if (block != nullptr) {
    wait.block = block->block_id;
    wait.since = now - block->referenced_at;
  }
  waits.push_back(std::move(wait));
}

/// Adds the sources whose plain packets make joins wait. A sender may be a stranger that uses the
/// number of a rank.
void add_plain_senders(const JobSnapshot& job, Instant now, std::vector<Wait>& waits) {
  for (uint32_t i = 0; i < job.sources.size(); i++) {
    const SourceSnapshot& source = job.sources[i];
    if (!holds_joins_off(job, source, now)) continue;
    waits.push_back(
        {.job = job.config.id,
         .channel_of = job.job_id(),
         .source = i,
         .missing = source.ranks,
         .last_heard = {},
         .address = io::sender_text(source.address),
         .advice = fmt::format(
             "a process{} sends plain packets as source {}, so joins wait: stop it if it "
             "does not belong to the job, or give the job clients=sessions",
             place_of(source.address), i)});
  }
}

/// Adds the sources that have not joined, if another one waits for them.
void add_absent(const JobSnapshot& job, Instant now, std::vector<Wait>& waits) {
  const auto is_joining = [](const SourceSnapshot& s) { return s.joining; };
  if (job.session != 0 || std::ranges::none_of(job.sources, is_joining)) return;
  for (uint32_t i = 0; i < job.sources.size(); i++) {
    if (job.sources[i].joining || holds_joins_off(job, job.sources[i], now)) continue;
    waits.push_back(wait_for(job, i, now));
  }
}

void add_missing(const JobSnapshot& job, Instant now, std::vector<Wait>& waits) {
  for (uint32_t i = 0; i < job.sources.size(); i++) {
    const SourceSnapshot& source = job.sources[i];
    if (holds_joins_off(job, source, now)) continue;
    const BlockSnapshot* block = oldest(
        job, now, [i](const BlockSnapshot& each) { return trio_ml::contains(each.missing, i); });
    if (block != nullptr) {
      Wait wait = wait_for(job, i, now);
      wait.block = block->block_id;
      wait.since = now - block->referenced_at;
      waits.push_back(std::move(wait));
    } else if (job.session != 0 && !source.waited_for) {
      Wait wait = wait_for(job, i, now);
      wait.advice += source.ranks.size() == 1 ? "; the job continues without this rank"
                                              : "; the job continues without these ranks";
      waits.push_back(std::move(wait));
    }
  }
}

}  // namespace

std::vector<Wait> find_waits(const Snapshot& snapshot) {
  std::vector<Wait> waits;
  for (const JobSnapshot& job : snapshot.jobs) {
    add_plain_senders(job, snapshot.at, waits);
    add_absent(job, snapshot.at, waits);
    add_missing(job, snapshot.at, waits);
    add_upstream_wait(job, snapshot.at, waits);
  }
  return waits;
}

}  // namespace tributary::server
