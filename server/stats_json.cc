// SPDX-License-Identifier: Apache-2.0
#include "server/stats_json.h"

#include <string>

#include "engine/counters_json.h"
#include "io/local/client_address.h"

namespace tributary::server {
namespace {

using nlohmann::json;

/// Returns the fields that all aggregators have.
json common_stats(const Snapshot& snapshot) {
  const json counters = counters_json(snapshot);
  json stats{{"command", "serve"},
             {"listen", snapshot.listen},
             {"uptime_s", in_seconds(snapshot.uptime)},
             {"counters", counters["packets"]},
             {"bytes", counters["bytes"]},
             {"cores", json::array()},
             {"ports", json::array()}};
  for (const CoreSnapshot& core : snapshot.cores) {
    stats["cores"].push_back(engine::core_json(core.counters));
  }
  for (uint32_t i = 0; i < snapshot.ports.size(); i++) {
    stats["ports"].push_back(
        engine::port_json(snapshot.ports[i], snapshot.rx_dropped_at(i), snapshot.frames_at(i)));
  }
  return stats;
}

/// Returns a row of "jobs".
json job_stats(const JobSnapshot& job) {
  json sources = json::array();
  for (uint32_t i = 0; i < job.sources.size(); i++) {
    const SourceSnapshot& source = job.sources[i];
    sources.push_back(
        {{"source", i},
         {"address", source.address.is_set() ? io::sender_text(source.address) : std::string()},
         {"waited_for", source.waited_for}});
  }
  return {{"id", job.config.id},
          {"session", job.session},
          {"sources", sources},
          {"block_curr_cnt", job.blocks_held},
          {"block_total_cnt", job.blocks_total},
          {"block_degraded_cnt", job.blocks_degraded},
          {"memory_bytes", job.memory_bytes},
          {"buffers_free", job.buffers_free}};
}

}  // namespace

json counters_json(const Snapshot& snapshot) {
  json packets = json::object();
  json bytes = json::object();
  for (const OutcomeTotal& outcome : snapshot.outcomes) {
    packets[outcome.name] = outcome.packets;
    if (outcome.bytes > 0) bytes[outcome.name] = outcome.bytes;
  }
  return {{"packets", packets}, {"bytes", bytes}};
}

json local_json(const io::LocalServerStats& stats) {
  return {{"socket", stats.socket},
          {"connections", stats.connections},
          {"connections_opened", stats.connections_opened},
          {"connections_closed", stats.connections_closed},
          {"connections_broken", stats.connections_broken},
          {"connections_refused", stats.connections_refused},
          {"connections_failed", stats.connections_failed},
          {"rx_packets", stats.packets.rx_packets},
          {"rx_bytes", stats.packets.rx_bytes},
          {"tx_packets", stats.packets.tx_packets},
          {"tx_bytes", stats.packets.tx_bytes},
          {"tx_refused", stats.packets.tx_refused},
          {"system_calls", stats.packets.system_calls}};
}

json trio_ml_stats(const Snapshot& snapshot) {
  json stats = common_stats(snapshot);
  stats["jobs"] = json::array();
  for (const JobSnapshot& job : snapshot.jobs) stats["jobs"].push_back(job_stats(job));
  if (!snapshot.directory.empty()) stats["directory"] = directory_json(snapshot.directory);
  return stats;
}

json switchml_stats(const Snapshot& snapshot) {
  json stats = common_stats(snapshot);
  stats["protocol"] = snapshot.service;
  stats["sessions"] = json::array();
  for (const SessionSnapshot& session : snapshot.sessions) {
    stats["sessions"].push_back(session_json(session));
  }
  return stats;
}

}  // namespace tributary::server
