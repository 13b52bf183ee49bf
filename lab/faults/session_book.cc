// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/session_book.h"

namespace tributary::lab {

SessionBook::SessionBook(const FaultPlan& plan, FaultWorld& world) : plan_(plan), world_(world) {
  latest_.assign(world.aggregator_count(), std::vector<uint64_t>(plan.jobs.size()));
  for (uint32_t i = 0; i < world.aggregator_count(); i++) {
    // A modelled PFE has no tree: its sessions are root sessions.
    if (world.live(i) == nullptr) continue;
    index_of_[world.live(i)] = i;
    world.live(i)->set_observer(this);
  }
}

void SessionBook::on_round(LiveNode& node) {
  const uint32_t aggregator = index_of_.find(&node)->second;
  for (uint32_t job = 0; job < plan_.jobs.size(); job++) {
    const trio_ml::Job* at = world_.job_at(aggregator, job);
    if (at == nullptr) continue;
    const uint32_t number = at->session.number();
    if (number == latest_[aggregator][job]) continue;
    latest_[aggregator][job] = number;
    if (number == 0) continue;
    upper_session_[{job, aggregator, at->session.result_key(number)}] =
        at->session.upstream_result_key();
  }
}

uint64_t SessionBook::root_session(uint32_t job, uint32_t aggregator, uint64_t session) const {
  while (aggregator != world_.root_of(job)) {
    const auto known = upper_session_.find({job, aggregator, session});
    if (known == upper_session_.end()) break;  // An unknown session forms its own group.
    session = known->second;
    aggregator = plan_.parent[aggregator];
  }
  return session;
}

void SessionBook::note_member(uint32_t job, uint64_t root_session, uint32_t rank,
                              uint32_t process) {
  const auto [entry, is_new] = members_.try_emplace({job, root_session});
  if (is_new) entry->second.assign(plan_.jobs[job].world, kNobody);
  entry->second[rank] = process;
}

const std::vector<uint32_t>& SessionBook::members(uint32_t job, uint64_t root_session) const {
  return members_.at({job, root_session});
}

}  // namespace tributary::lab
