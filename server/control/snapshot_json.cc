// SPDX-License-Identifier: Apache-2.0
#include "server/control/snapshot_json.h"

#include <algorithm>
#include <string>
#include <vector>

#include "apps/trio_ml/records.h"
#include "auth/mode.h"
#include "engine/counters_json.h"
#include "io/local/client_address.h"
#include "server/job_keys.h"

namespace tributary::control {
namespace {

/// Notices of a packet program in an answer.
constexpr size_t kNoticesShown = 50;

using server::BlockSnapshot;
using server::JobSnapshot;
using server::Snapshot;
using server::SourceSnapshot;
using trio_ml::Outcome;

nlohmann::json milliseconds_or_null(const std::optional<Duration>& duration) {
  return duration ? nlohmann::json(in_milliseconds(*duration)) : nlohmann::json();
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

std::string text_of(const Endpoint& address) {
  return address.is_set() ? io::sender_text(address) : std::string();
}

/// Returns the packets that changed nothing, by reason. Reasons without packets are left out.
nlohmann::json drops_json(const Snapshot& snapshot) {
  nlohmann::json drops = nlohmann::json::object();
  const auto add = [&drops](const std::string& reason, uint64_t packets) {
    if (packets > 0) drops[reason] = drops.value(reason, uint64_t{0}) + packets;
  };
  for (const server::OutcomeTotal& outcome : snapshot.outcomes) {
    if (outcome.refused) add(outcome.name, outcome.packets);
  }
  for (uint32_t core = 0; core < snapshot.core_count(); core++) {
    for (const server::Drop& drop : snapshot.drops_at(core)) {
      add(drop.reason, drop.packets.value_or(0));
    }
  }
  return drops;
}

/// Returns the packets that were served, and events, by name. Names without packets are left out.
nlohmann::json events_json(const Snapshot& snapshot) {
  nlohmann::json events = nlohmann::json::object();
  for (const server::OutcomeTotal& outcome : snapshot.outcomes) {
    if (!outcome.refused && outcome.packets > 0) events[outcome.name] = outcome.packets;
  }
  return events;
}

/// Returns how much of the results is degraded, from 0 to 1; 0 if there are none. The two counts
/// may be read at different moments, so the share is clamped to 1.
double degraded_share(uint64_t degraded, uint64_t total) {
  return total == 0 ? 0.0
                    : std::min(static_cast<double>(degraded) / static_cast<double>(total), 1.0);
}

/// Returns a worker's counts of its own. The rates are 0 if its reports have stopped.
nlohmann::json report_json(const SourceSnapshot& source, Instant now) {
  if (!source.report) return {};
  const trio_ml::MemberReport& report = *source.report;
  const wire::WorkerReport& totals = report.totals;
  const bool is_fresh = server::has_fresh_report(source, now);
  std::vector<uint32_t> waits_for;
  if (is_fresh) waits_for = server::numbers_in(totals.waits_for);
  return {{"age_ms", in_milliseconds(now - report.at)},
          {"bytes_per_s", is_fresh ? report.bytes_per_s : 0.0},
          {"retransmitted_per_s", is_fresh ? report.retransmitted_per_s : 0.0},
          {"blocks", totals.blocks},
          {"bytes", totals.bytes},
          {"degraded_share", degraded_share(totals.degraded, totals.blocks)},
          {"retransmitted", totals.retransmitted},
          {"probes", totals.probes},
          {"waited_ms", is_fresh ? totals.waited_ms : 0},
          {"waits_for", waits_for}};
}

nlohmann::json source_json(const SourceSnapshot& source, uint32_t index, Instant now) {
  return {{"source", index},
          {"ranks", source.ranks},
          {"state", to_string(source.state)},
          {"joining", source.joining},
          {"waited_for", source.waited_for},
          {"address", text_or_null(text_of(source.address))},
          {"last_heard_ms", milliseconds_or_null(source.silent_for)},
          {"report", report_json(source, now)}};
}

nlohmann::json upstream_json(const JobSnapshot& job) {
  if (!job.upstream) return {};
  const server::UpstreamSnapshot& upstream = *job.upstream;
  nlohmann::json json{{"address", job.config.upstream.to_string()},
                      {"state", to_string(upstream.state)},
                      {"silent_ms", in_milliseconds(upstream.silent_for)},
                      {"waits_at", text_or_null(text_of(upstream.waits_at))},
                      {"refusal", nullptr}};
  if (upstream.refusal != wire::Reason::kNone) {
    json["refusal"] = wire::to_string(upstream.refusal);
  }
  return json;
}

nlohmann::json block_json(const BlockSnapshot& block, const JobSnapshot& job, Instant now) {
  nlohmann::json missing = nlohmann::json::array();
  for (const uint32_t source : server::numbers_in(block.missing)) {
    for (const uint32_t rank : job.sources[source].ranks) missing.push_back(rank);
  }
  return {{"id", block.block_id},
          {"since_ms", in_milliseconds(now - block.referenced_at)},
          {"missing", missing},
          {"waits_upstream", block.waits_upstream}};
}

/// Returns the first notices; `records` tells how many things there are to notice.
nlohmann::json notices_json(const Snapshot& snapshot) {
  nlohmann::json notices = nlohmann::json::array();
  for (const std::string& notice : snapshot.notices) {
    if (notices.size() == kNoticesShown) break;
    notices.push_back(notice);
  }
  return notices;
}

}  // namespace

nlohmann::json job_json(const JobSnapshot& job) {
  uint32_t members = 0;
  for (const SourceSnapshot& source : job.sources) {
    members += source.state == server::SourceState::kMember ? 1 : 0;
  }
  return {{"id", job.config.id},
          {"channel_of", job.job_id()},
          {"session", job.session},
          {"draining", job.draining},
          {"sources", job.config.sources},
          {"members", members},
          {"mitigation", job.config.mitigation},
          {"blocks_in_progress", job.blocks_in_progress},
          {"blocks_total", job.blocks_total},
          {"blocks_degraded", job.blocks_degraded},
          {"degraded_share", degraded_share(job.blocks_degraded, job.blocks_total)},
          {"memory_bytes", job.memory_bytes},
          {"buffers_free", job.buffers_free}};
}

nlohmann::json job_details_json(const JobSnapshot& job, Instant now) {
  nlohmann::json json = job_json(job);
  nlohmann::json sources = nlohmann::json::array();
  for (uint32_t i = 0; i < job.sources.size(); i++) {
    sources.push_back(source_json(job.sources[i], i, now));
  }
  nlohmann::json blocks = nlohmann::json::array();
  for (const BlockSnapshot& block : job.blocks) blocks.push_back(block_json(block, job, now));
  json["upstream"] = upstream_json(job);
  json["sources"] = sources;
  json["blocks"] = blocks;
  return json;
}

nlohmann::json cores_json(const Snapshot& snapshot) {
  nlohmann::json cores = nlohmann::json::array();
  for (const auto& core : snapshot.cores) {
    nlohmann::json row = engine::core_json(core.counters);
    row["cpu_s"] = in_seconds(core.cpu);
    cores.push_back(row);
  }
  return cores;
}

nlohmann::json ports_json(const Snapshot& snapshot) {
  nlohmann::json ports = nlohmann::json::array();
  for (uint32_t i = 0; i < snapshot.ports.size(); i++) {
    ports.push_back(engine::port_json(snapshot.ports[i], snapshot.rx_dropped_at(i)));
  }
  return ports;
}

nlohmann::json status_json(const Snapshot& snapshot) {
  nlohmann::json jobs = nlohmann::json::array();
  uint64_t in_progress = 0;
  for (const JobSnapshot& job : snapshot.jobs) {
    in_progress += job.blocks_in_progress;
    jobs.push_back(job_json(job));
  }
  engine::PortCounters traffic;
  for (const auto& port : snapshot.ports) traffic = traffic + port;
  const uint64_t degraded = snapshot.packets(Outcome::kBlockDegraded);
  const uint64_t ended = snapshot.packets(Outcome::kBlockCompleted) + degraded;
  nlohmann::json sessions = nlohmann::json::array();
  for (const auto& session : snapshot.sessions) sessions.push_back(server::session_json(session));
  return {{"service", snapshot.service},
          {"listen", snapshot.listen},
          {"uptime_s", in_seconds(snapshot.uptime)},
          {"jobs", jobs},
          {"sessions", sessions},
          {"events", events_json(snapshot)},
          {"blocks_in_progress", in_progress},
          {"blocks_completed", ended - degraded},
          {"blocks_degraded", degraded},
          {"degraded_share", degraded_share(degraded, ended)},
          {"rx_packets", traffic.rx_packets},
          {"rx_bytes", traffic.rx_bytes},
          {"tx_packets", traffic.tx_packets},
          {"tx_bytes", traffic.tx_bytes},
          {"drops", drops_json(snapshot)},
          {"records", snapshot.records},
          {"notices", notices_json(snapshot)},
          {"cores", cores_json(snapshot)},
          {"directory", server::directory_json(snapshot.directory)},
          {"waits", server::find_waits(snapshot).size()}};
}

nlohmann::json job_config_json(const trio_ml::JobConfig& config) {
  return {{"id", config.id},
          {"sources", config.sources},
          {"block_cnt_max", config.block_cnt_max},
          {"block_grad_max", config.block_grad_max},
          {"history", config.history},
          {"shared_buffers", config.shared_buffers},
          {"mitigation", config.mitigation},
          {"timeout_ms", in_milliseconds(config.timeout)},
          {"timer_threads", config.timer_threads},
          {"permanent_ms", in_milliseconds(config.permanent_after)},
          {"silent_ms", in_milliseconds(config.silent_after)},
          {"silence", to_string(config.on_silence())},
          {"channels", config.channels},
          {"auth", auth::to_string(config.auth.mode)},
          {"clients", server::clients_text(config.clients)},
          {"pin", config.pin},
          {"asynchronous", config.asynchronous},
          {"parameters", config.parameters},
          {"group", text_or_null(text_of(config.group))},
          {"upstream", text_or_null(text_of(config.upstream))},
          {"upstream_source", config.upstream_source},
          {"sources_are_aggregators", config.sources_are_aggregators},
          {"rank_base", config.rank_base},
          {"world", config.ranks()}};
}

nlohmann::json recordings_json(server::RecordControl* recorder) {
  return {{"recordings", recorder == nullptr ? nlohmann::json::array() : recorder->files()}};
}

nlohmann::json wait_json(const server::Wait& wait) {
  return {{"job", wait.job},
          {"channel_of", wait.channel_of},
          {"block", wait.block ? nlohmann::json(*wait.block) : nlohmann::json()},
          {"missing", wait.missing},
          {"since_ms", milliseconds_or_null(wait.since)},
          {"last_heard_ms", milliseconds_or_null(wait.last_heard)},
          {"address", text_or_null(wait.address)},
          {"advice", wait.advice}};
}

}  // namespace tributary::control
