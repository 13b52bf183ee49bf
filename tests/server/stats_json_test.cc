// SPDX-License-Identifier: Apache-2.0
// Method: snapshots made by hand, and every field of their JSON: programs of users read it.
#include "server/stats_json.h"

#include <gtest/gtest.h>

#include "engine/counters_json.h"

namespace tributary::server {
namespace {

using nlohmann::json;

Snapshot example() {
  Snapshot snapshot;
  snapshot.uptime = milliseconds(2500);
  snapshot.listen = "127.0.0.1:12000";
  snapshot.add("aggregated", /*refused=*/false, {15, 240});
  snapshot.add("truncated", /*refused=*/true, {0, 0});
  snapshot.cores.push_back({.counters = {.packets = 70}, .cpu = seconds(2)});
  snapshot.ports.push_back({.rx_packets = 80});
  snapshot.rx_dropped = {11};
  snapshot.frames = {{{"arp_asked", 2}}};
  return snapshot;
}

/// Returns the fields that both servers have.
json common_json() {
  return {{"command", "serve"},
          {"listen", "127.0.0.1:12000"},
          {"uptime_s", 2.5},
          {"counters", {{"aggregated", 15}, {"truncated", 0}}},
          {"bytes", {{"aggregated", 240}}},
          {"cores", json::array({engine::core_json({.packets = 70})})},
          {"ports", json::array({engine::port_json({.rx_packets = 80}, 11, {{"arp_asked", 2}})})}};
}

TEST(StatsJson, TrioMlHasItsJobs) {
  Snapshot snapshot = example();
  JobSnapshot job;
  job.config.id = 4;
  job.session = 3;
  job.blocks_held = 2;
  job.blocks_in_progress = 1;
  job.blocks_total = 8;
  job.blocks_degraded = 5;
  job.memory_bytes = 4096;
  job.buffers_free = 6;
  job.sources = {{.address = Endpoint::ipv4(0x0a000002, 4000)}, {.waited_for = false}};
  snapshot.jobs.push_back(job);

  json expected = common_json();
  expected["jobs"] = json::array(
      {json{{"id", 4},
            {"session", 3},
            {"sources",
             json::array({json{{"source", 0}, {"address", "10.0.0.2:4000"}, {"waited_for", true}},
                          json{{"source", 1}, {"address", ""}, {"waited_for", false}}})},
            {"block_curr_cnt", 2},
            {"block_total_cnt", 8},
            {"block_degraded_cnt", 5},
            {"memory_bytes", 4096},
            {"buffers_free", 6}}});
  EXPECT_EQ(trio_ml_stats(snapshot), expected);
}

TEST(StatsJson, DirectoryHasItsPlans) {
  Snapshot snapshot = example();
  snapshot.directory.push_back({.job_id = 4, .changes = 1, .predicted_s = 0.5, .aggregators = {}});
  json expected = common_json();
  expected["jobs"] = json::array();
  expected["directory"] = directory_json(snapshot.directory);
  EXPECT_EQ(trio_ml_stats(snapshot), expected);
}

TEST(StatsJson, SwitchmlHasItsSessions) {
  Snapshot snapshot = example();
  snapshot.service = "switchml";
  snapshot.sessions.push_back({.place = 1, .id = 7, .elements = 64, .slots = 16});
  json expected = common_json();
  expected["protocol"] = "switchml";
  expected["sessions"] = json::array({session_json(snapshot.sessions[0])});
  EXPECT_EQ(switchml_stats(snapshot), expected);
}

TEST(StatsJson, LocalWorkersHaveTheirPackets) {
  io::LocalServerStats stats;
  stats.socket = "@tributary";
  stats.connections = 1;
  stats.connections_opened = 2;
  stats.packets.rx_packets = 3;
  const json local = local_json(stats);
  EXPECT_EQ(local["socket"], "@tributary");
  EXPECT_EQ(local["connections"], 1);
  EXPECT_EQ(local["connections_opened"], 2);
  EXPECT_EQ(local["rx_packets"], 3);
  EXPECT_EQ(local.size(), 13U);
}

}  // namespace
}  // namespace tributary::server
