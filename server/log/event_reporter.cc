// SPDX-License-Identifier: Apache-2.0
#include "server/log/event_reporter.h"

#include <fmt/format.h>

#include "apps/trio_ml/config.h"
#include "io/local/client_address.h"
#include "server/who.h"

namespace tributary::server {
namespace {

using trio_ml::Event;
using trio_ml::EventKind;
using trio_ml::Outcome;
using wire::Reason;

/// Most aggregators that a line names as left out, so that it fits. tributary status names all.
constexpr size_t kLeftOutNamed = 8;

struct Line {
  LogLevel level;
  const char* name;
};

Line line_of(const Event& event) {
  switch (event.kind) {
    case EventKind::kRankJoined:
      return {LogLevel::kInfo, "rank_joined"};
    case EventKind::kRankWithdrawn:
      return {LogLevel::kInfo, "rank_withdrawn"};
    case EventKind::kJoinRefused:
      // Every rank of a directory's job asks twice: for the list, and to join with it.
      if (event.reason == Reason::kOtherList) return {LogLevel::kInfo, "list_given"};
      return {LogLevel::kWarn, "join_refused"};
    case EventKind::kSessionStarted:
      return {LogLevel::kInfo, "session_started"};
    case EventKind::kRankLeft:
      return {LogLevel::kInfo, "rank_left"};
    case EventKind::kSessionEnded:
      return {LogLevel::kInfo, "session_ended"};
    case EventKind::kStraggler:
      return {LogLevel::kInfo, "straggler"};
    case EventKind::kPermanent:
      return {LogLevel::kWarn, "straggler_permanent"};
    case EventKind::kReturned:
      return {LogLevel::kInfo, "straggler_returned"};
    case EventKind::kSilenceWaited:
    case EventKind::kSilenceExcluded:
    case EventKind::kSilenceEnded:
      return {LogLevel::kWarn, "rank_silent"};
    case EventKind::kResumed:
      return {LogLevel::kInfo, "rank_heard"};
    case EventKind::kUpstreamJoined:
      return {LogLevel::kInfo, "upstream_joined"};
    case EventKind::kUpstreamRefused:
      return {LogLevel::kWarn, "upstream_refused"};
    case EventKind::kUpstreamLost:
      return {LogLevel::kWarn, "upstream_lost"};
    case EventKind::kUpstreamSilent:
      return {LogLevel::kWarn, "upstream_silent"};
    case EventKind::kUpstreamHeard:
      return {LogLevel::kInfo, "upstream_heard"};
  }
  return {LogLevel::kError, "unknown"};
}

/// Returns why a session has ended.
const char* end_of(Reason reason) {
  switch (reason) {
    case Reason::kPeerLeft:
      return "all_left";
    case Reason::kPeerSilent:
      return "all_silent";
    case Reason::kSessionLost:
      return "upstream_lost";
    default:
      return wire::to_string(reason);
  }
}

/// Returns the effect of a rank's silence, as the job's key `silence` names it.
const char* outcome_of(EventKind kind) {
  if (kind == EventKind::kSilenceWaited) return to_string(trio_ml::Silence::kWait);
  if (kind == EventKind::kSilenceExcluded) return to_string(trio_ml::Silence::kExclude);
  return to_string(trio_ml::Silence::kEnd);
}

void add_value(const Event& event, LogFields& fields) {
  switch (event.kind) {
    case EventKind::kSessionStarted:
      fields["sources"] = event.value;
      break;
    case EventKind::kSessionEnded:
      fields["reason"] = end_of(event.reason);
      break;
    case EventKind::kUpstreamSilent:
      fields["silent_ms"] = event.value;
      break;
    case EventKind::kSilenceWaited:
    case EventKind::kSilenceExcluded:
    case EventKind::kSilenceEnded:
      fields["silent_ms"] = event.value;
      fields["outcome"] = outcome_of(event.kind);
      break;
    case EventKind::kStraggler:
      fields["block"] = event.value;
      break;
    case EventKind::kRankLeft:
      if (event.value != 0) fields["lost_aggregator"] = event.value;
      if (event.reason != Reason::kNone) fields["reason"] = wire::to_string(event.reason);
      break;
    default:
      if (event.reason == Reason::kOtherList) break;
      if (event.reason != Reason::kNone) fields["reason"] = wire::to_string(event.reason);
  }
}

/// Returns the ranks as text, as in "0-3,7".
std::string ranges_of(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) last++;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[first]);
    if (last > first) text += fmt::format("-{}", ranks[last]);
    first = last + 1;
  }
  return text;
}

LogFields fields_of(uint32_t job, const std::vector<uint32_t>& ranks) {
  LogFields fields{{"job", job}};
  fields.update(rank_fields(ranks));
  return fields;
}

/// Refusals that healthy jobs cause, too: a worker repeats its leave; an answer to a probe crosses
/// the result that was on its way.
bool is_usual(const std::string& reason) {
  return reason == to_string(Outcome::kWrongSession) || reason == to_string(Outcome::kReplayed);
}

}  // namespace

LogFields rank_fields(const std::vector<uint32_t>& ranks) {
  LogFields fields = LogFields::object();
  if (ranks.size() == 1) fields["rank"] = ranks[0];
  if (ranks.size() > 1) fields["ranks"] = ranges_of(ranks);
  return fields;
}

void EventReporter::report(const Event& event) {
  const Line line = line_of(event);
  LogFields fields = fields_of(event.job_id, numbers_in(event.ranks));
  add_value(event, fields);
  if (event.address.is_set()) fields["address"] = io::sender_text(event.address);
  log_.write_at(event.at, line.level, line.name, fields);
}

void EventReporter::report_drained(uint32_t job) {
  log_.write(LogLevel::kInfo, "job_removed", {{"job", job}, {"drained", true}});
}

void EventReporter::report_lost(uint64_t events_lost) {
  if (events_lost == events_lost_) return;
  log_.write(LogLevel::kWarn, "events_lost", {{"events", events_lost - events_lost_}});
  events_lost_ = events_lost;
}

void EventReporter::compare_counts(const char* event, const Counts& counts, Counts& before) {
  for (const auto& [reason, packets] : counts) {
    const uint64_t known = before[reason];
    // A counter of the kernel may fall: it has 32 bits.
    if (packets <= known || !has_snapshot_) continue;
    const uint64_t more = packets - known;
    log_.write(is_usual(reason) ? LogLevel::kDebug : LogLevel::kWarn, event,
               {{"reason", reason}, {"packets", more}});
  }
  before = counts;
}

void EventReporter::compare_waits(const Snapshot& snapshot) {
  std::map<Source, Instant> waits;
  for (const Wait& wait : find_waits(snapshot)) {
    const Source key{wait.job, wait.source, wait.missing};
    const auto seen = waits_.find(key);
    const Instant seen_at = seen == waits_.end() ? snapshot.at : seen->second;
    waits[key] = seen_at;
    const Duration waited = wait.since.value_or(snapshot.at - seen_at);
    if (waited < kWaitLogged || !waits_logged_.insert(key).second) continue;
    LogFields fields = fields_of(wait.job, wait.missing);
    if (wait.block) fields["block"] = *wait.block;
    fields["waited_ms"] = in_milliseconds(waited);
    if (!wait.address.empty()) fields["address"] = wait.address;
    fields["advice"] = wait.advice;
    log_.write(LogLevel::kWarn, "rank_waited_for", fields);
  }
  for (auto it = waits_logged_.begin(); it != waits_logged_.end();) {
    if (waits.contains(*it)) {
      ++it;
      continue;
    }
    const auto& [job, source, ranks] = *it;
    log_.write(LogLevel::kInfo, "rank_wait_over", fields_of(job, ranks));
    it = waits_logged_.erase(it);
  }
  waits_ = std::move(waits);
}

/// Sessions of SwitchML: they begin with their first worker, and another session may replace them.
void EventReporter::compare_sessions(const Snapshot& snapshot) {
  const auto write = [this](const char* event, const Session& session, LogFields fields = {}) {
    fields["session"] = fmt::format("{:#x}", session.second);
    fields["place"] = session.first;
    log_.write(LogLevel::kInfo, event, fields);
  };
  std::map<Session, uint64_t> workers;
  for (const SessionSnapshot& session : snapshot.sessions) {
    const Session key{session.place, session.id};
    const auto known = static_cast<uint64_t>(
        std::ranges::count_if(session.workers, [](const auto& each) { return !each.empty(); }));
    const auto before = session_workers_.find(key);
    const bool is_new = before == session_workers_.end();
    if (is_new) write("session_began", key, {{"workers", session.workers.size()}});
    const bool was_complete = !is_new && before->second == session.workers.size();
    if (known == session.workers.size() && !was_complete) write("session_complete", key);
    workers[key] = known;
  }
  for (const auto& [key, known] : session_workers_) {
    if (!workers.contains(key)) write("session_ended", key);
  }
  session_workers_ = std::move(workers);
}

/// Writes a directory's new plans, and the aggregators that they leave out with the reasons.
void EventReporter::compare_plans(const Snapshot& snapshot) {
  for (const DirectoryJob& job : snapshot.directory) {
    if (std::exchange(plans_[job.job_id], job.changes) == job.changes) continue;
    uint32_t aggregators = 0;
    std::vector<std::string> left_out;
    for (const DirectoryAggregator& each : job.aggregators) {
      if (each.weight > 0) aggregators++;
      if (!each.answers) left_out.push_back(fmt::format("{} ({})", each.name, each.fault));
    }
    const LogLevel level = left_out.empty() ? LogLevel::kInfo : LogLevel::kWarn;
    if (left_out.size() > kLeftOutNamed) {
      const size_t more = left_out.size() - kLeftOutNamed;
      left_out.resize(kLeftOutNamed);
      left_out.push_back(fmt::format("and {} more", more));
    }
    LogFields fields{{"job", job.job_id}, {"plan", job.changes}, {"aggregators", aggregators}};
    if (aggregators > 0) fields["predicted_s"] = job.predicted_s;
    if (!left_out.empty()) fields["left_out"] = fmt::format("{}", fmt::join(left_out, ", "));
    log_.write(level, "plan_changed", fields);
  }
}

void EventReporter::compare_if_logged(ObservedServer& server) {
  if (log_.takes(LogLevel::kWarn)) {
    compare(server.snapshot());
  } else {
    has_snapshot_ = false;
  }
}

void EventReporter::compare(const Snapshot& snapshot) {
  Counts refused;
  for (const OutcomeTotal& outcome : snapshot.outcomes) {
    if (outcome.refused) refused[outcome.name] = outcome.packets;
  }
  compare_counts("packets_refused", refused, refused_);
  Counts dropped;
  for (uint32_t core = 0; core < snapshot.core_count(); core++) {
    for (const Drop& drop : snapshot.drops_at(core)) {
      dropped[drop.reason] += drop.packets.value_or(0);
    }
  }
  compare_counts("packets_dropped", dropped, dropped_);
  const uint64_t resets = snapshot.packets(Outcome::kResetSent);
  if (has_snapshot_ && resets > resets_) {
    log_.write(LogLevel::kInfo, "session_unknown", {{"packets", resets - resets_}});
  }
  resets_ = resets;
  compare_waits(snapshot);
  compare_sessions(snapshot);
  compare_plans(snapshot);
  has_snapshot_ = true;
}

}  // namespace tributary::server
