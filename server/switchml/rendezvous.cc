// SPDX-License-Identifier: Apache-2.0
#include "server/switchml/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "apps/switchml/slots.h"

namespace tributary::server {
namespace {

using switchml::kWorkersMax;

/// Returns the host part of "host:port".
std::string_view host_of(std::string_view peer) { return peer.substr(0, peer.rfind(':')); }

std::string missing_ranks(const std::vector<std::string>& peers) {
  std::string text;
  for (size_t rank = 0; rank < peers.size(); rank++) {
    if (!peers[rank].empty()) continue;
    text += text.empty() ? "" : ", ";
    text += std::to_string(rank);
  }
  return text;
}

}  // namespace

void Rendezvous::answer(Ticket ticket, Error error, std::string text, uint64_t value) {
  answers_.push_back({ticket, error, std::move(text), value});
}

void Rendezvous::answer_all(Waiting& waiting, Error error, const std::string& text,
                            uint64_t value) {
  for (const Call& call : waiting.calls) answer(call.ticket, error, text, value);
  waiting.calls.clear();
}

void Rendezvous::add(Waiting& waiting, const Call& call, Instant now) {
  if (waiting.calls.empty()) waiting.since = now;
  waiting.calls.push_back(call);
}

Rendezvous::Group* Rendezvous::group_of(const std::string& peer) {
  const auto group = std::find_if(groups_.rbegin(), groups_.rend(), [&peer](const Group& known) {
    return std::ranges::find(known.peers, peer) != known.peers.end();
  });
  return group == groups_.rend() ? nullptr : &*group;
}

void Rendezvous::fail(Group& group, const std::string& text) {
  group.failure = text;
  answer_all(group.broadcast, Error::kAborted, text);
  answer_all(group.barrier, Error::kAborted, text);
}

void Rendezvous::fail(const std::string& peer, const std::string& text) {
  if (Group* const group = group_of(peer); group != nullptr) fail(*group, text);
}

void Rendezvous::drop_superseded(const std::string& peer, const Broadcast& request) {
  std::erase_if(groups_, [&](Group& group) {
    if (group.num_workers != request.num_workers || group.root != request.root) return false;
    const std::string& before = group.peers[request.rank];
    if (before.empty() || host_of(before) != host_of(peer)) return false;
    const std::string text =
        fmt::format("rank {} of {} has restarted at {}; restart every worker of the job",
                    request.rank, request.num_workers, host_of(peer));
    fail(group, text);
    return true;
  });
}

Rendezvous::Group* Rendezvous::group_for(const std::string& peer, const Broadcast& request,
                                         Instant now) {
  drop_superseded(peer, request);
  for (Group& group : groups_) {
    if (group.num_workers == request.num_workers && group.root == request.root &&
        group.failure.empty() && group.peers[request.rank].empty()) {
      return &group;
    }
  }
  if (groups_.size() == kGroupsMax) {
    // Evict a group in which no rank waits.
    const auto idle = std::ranges::find_if(groups_, [](const Group& group) {
      return group.broadcast.calls.empty() && group.barrier.calls.empty();
    });
    if (idle == groups_.end()) return nullptr;
    groups_.erase(idle);
  }
  Group& group = groups_.emplace_back();
  group.num_workers = request.num_workers;
  group.root = request.root;
  group.peers.resize(request.num_workers);
  group.touched_at = now;
  return &group;
}

Rendezvous::Ticket Rendezvous::broadcast(const std::string& peer, const Broadcast& request,
                                         Instant now) {
  const Ticket ticket = ++tickets_;
  if (request.num_workers < 1 || request.num_workers > kWorkersMax) {
    answer(ticket, Error::kInvalid,
           fmt::format("num_workers={}; allowed: 1 to {}", request.num_workers, kWorkersMax));
    return ticket;
  }
  if (request.rank >= request.num_workers || request.root >= request.num_workers) {
    answer(ticket, Error::kInvalid,
           fmt::format("rank={} root={}; allowed: 0 to {}", request.rank, request.root,
                       request.num_workers - 1));
    return ticket;
  }
  Group* const group = group_for(peer, request, now);
  if (group == nullptr) {
    answer(ticket, Error::kTooMany,
           fmt::format("{} jobs are forming; allowed: at most {}", kGroupsMax, kGroupsMax));
    return ticket;
  }
  group->peers[request.rank] = peer;
  group->touched_at = now;
  add(group->broadcast, {ticket, request.rank}, now);
  if (request.rank == request.root) {
    group->has_value = true;
    group->value = request.value;
  }
  if (group->has_value) answer_all(group->broadcast, Error::kNone, "", group->value);
  return ticket;
}

void Rendezvous::arrive(Waiting& barrier, uint32_t num_workers, const Call& call, Instant now) {
  add(barrier, call, now);
  if (barrier.calls.size() >= num_workers) answer_all(barrier, Error::kNone, "");
}

Rendezvous::Ticket Rendezvous::barrier(const std::string& peer, uint32_t num_workers, Instant now) {
  const Ticket ticket = ++tickets_;
  if (num_workers < 1 || num_workers > kWorkersMax) {
    answer(ticket, Error::kInvalid,
           fmt::format("num_workers={}; allowed: 1 to {}", num_workers, kWorkersMax));
    return ticket;
  }
  Group* const group = group_of(peer);
  if (group == nullptr) {
    ungrouped_barriers_.resize(kWorkersMax + 1);
    arrive(ungrouped_barriers_[num_workers], num_workers, {.ticket = ticket}, now);
    return ticket;
  }
  if (!group->failure.empty()) {
    answer(ticket, Error::kAborted, group->failure);
    return ticket;
  }
  if (num_workers != group->num_workers) {
    answer(
        ticket, Error::kInvalid,
        fmt::format("num_workers={}; this worker's job has {}", num_workers, group->num_workers));
    return ticket;
  }
  group->touched_at = now;
  const auto rank = std::ranges::find(group->peers, peer) - group->peers.begin();
  arrive(group->barrier, num_workers, {ticket, static_cast<uint32_t>(rank)}, now);
  return ticket;
}

void Rendezvous::cancel(Ticket ticket) {
  const auto take = [ticket](Waiting& waiting) -> std::optional<Call> {
    const auto found = std::ranges::find(waiting.calls, ticket, &Call::ticket);
    if (found == waiting.calls.end()) return std::nullopt;
    const Call call = *found;
    waiting.calls.erase(found);
    return call;
  };
  for (Group& group : groups_) {
    // A rank that waits has not received the value yet, so its next process may take its place.
    if (const auto call = take(group.broadcast)) group.peers[call->rank].clear();
    if (const auto call = take(group.barrier)) {
      fail(group, fmt::format("rank {} of {} at {} has left; restart every worker of the job",
                              call->rank, group.num_workers, host_of(group.peers[call->rank])));
    }
  }
  for (Waiting& barrier : ungrouped_barriers_) static_cast<void>(take(barrier));
  std::erase_if(groups_, [this](Group& group) {
    if (!std::ranges::all_of(group.peers, &std::string::empty)) return false;
    // A connection may have a second call in this group.
    fail(group, "the job's last worker has left");
    return true;
  });
}

bool Rendezvous::is_late(const Waiting& waiting, Instant now) const {
  return !waiting.calls.empty() && now - waiting.since >= deadline_;
}

void Rendezvous::end_late_barrier(Waiting& barrier, uint32_t num_workers, Instant now) {
  if (!is_late(barrier, now)) return;
  answer_all(barrier, Error::kDeadline,
             fmt::format("barrier: {} of {} workers arrived within {} s", barrier.calls.size(),
                         num_workers, in_seconds(deadline_)));
}

void Rendezvous::end_late_calls(Group& group, Instant now) {
  if (is_late(group.broadcast, now)) {
    const std::string text =
        fmt::format("broadcast: of {} workers, rank {} did not arrive within {} s",
                    group.num_workers, missing_ranks(group.peers), in_seconds(deadline_));
    answer_all(group.broadcast, Error::kDeadline, text);
    // The waiting calls have timed out, so no later rank may join this group.
    group.failure = text;
  }
  if (is_late(group.barrier, now)) {
    end_late_barrier(group.barrier, group.num_workers, now);
    group.failure = "the job's barrier has ended at its deadline; restart every worker of the job";
  }
}

void Rendezvous::on_time(Instant now) {
  for (Group& group : groups_) end_late_calls(group, now);
  for (uint32_t n = 0; n < ungrouped_barriers_.size(); n++) {
    end_late_barrier(ungrouped_barriers_[n], n, now);
  }
  std::erase_if(groups_, [&](const Group& group) {
    return group.broadcast.calls.empty() && group.barrier.calls.empty() &&
           now - group.touched_at >= deadline_;
  });
}

Instant Rendezvous::next_deadline() const {
  Instant next = Instant::never();
  const auto include = [&](const Waiting& waiting) {
    if (!waiting.calls.empty()) next = std::min(next, waiting.since + deadline_);
  };
  for (const Group& group : groups_) {
    include(group.broadcast);
    include(group.barrier);
    next = std::min(next, std::max(group.touched_at, group.broadcast.since) + deadline_);
  }
  for (const Waiting& barrier : ungrouped_barriers_) include(barrier);
  return next;
}

std::vector<Rendezvous::Answer> Rendezvous::take_answers() { return std::exchange(answers_, {}); }

}  // namespace tributary::server
