// SPDX-License-Identifier: Apache-2.0
// Method: small runs with an observer, whose observations are compared with the run's own report.
// No kind of observation may change the digest.
#include "lab/run_observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lab/inspect/run_tracer.h"
#include "lab/trace/trace_log.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using testing::run_well;

Scenario small(Backend backend = Backend::kTrioMl) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = 2;
  scenario.iterations = 2;
  scenario.window = 64;
  scenario.mitigation.history = 8;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {8192}, .forward = {}, .backward = {}};
  return scenario;
}

size_t count_of(const TraceLog& log, TraceKind kind, const std::string& what) {
  const auto& events = log.events();
  return static_cast<size_t>(std::count_if(
      events.begin(), events.end(),
      [&](const TraceEvent& event) { return event.kind == kind && event.what == what; }));
}

TEST(RunObserver, TraceMatchesTheReportsCounters) {
  TraceLog log({}, 100'000);
  RunTracer tracer({}, &log);
  const auto result = run_scenario(small(), nullptr, &tracer);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_FALSE(tracer.had_enough());
  // Two iterations of two blocks, two workers.
  EXPECT_EQ(count_of(log, TraceKind::kArrive, "contribution"), 8U);
  EXPECT_EQ(count_of(log, TraceKind::kSend, "result"), 4U);
  EXPECT_EQ(count_of(log, TraceKind::kRequest, "add loop"), 8U);
  EXPECT_EQ(count_of(log, TraceKind::kThread, "packet"), result->aggregators[0].packets);
  EXPECT_EQ(log.more_count(), 0U);
}

TEST(RunObserver, TracingKeepsTheDigest) {
  for (const engine::Fidelity fidelity : {engine::Fidelity::kBurst, engine::Fidelity::kExact}) {
    Scenario scenario = small();
    scenario.pfe.fidelity = fidelity;
    scenario.link.faults.loss = 0.05;
    scenario.host.retransmission = true;
    const RunResult plain = run_well(scenario);
    TraceLog log({}, 10);
    RunTracer traced({.node = "", .links = true, .at = {}, .request = {}}, &log);
    const auto with_trace = run_scenario(scenario, nullptr, &traced);
    ASSERT_TRUE(with_trace);
    EXPECT_EQ(with_trace->digest, plain.digest);
    EXPECT_EQ(with_trace->events, plain.events);
    EXPECT_EQ(with_trace->total, plain.total);
    EXPECT_GT(log.more_count(), 100U);
  }
}

TEST(RunObserver, SnapshotsShowOneInstant) {
  TraceLog log({}, 100'000);
  RunTracer tracer({}, &log);
  ASSERT_TRUE(run_scenario(small(), nullptr, &tracer));
  // In the middle of the first add loop, both threads of that block wait for their replies.
  const auto loop = std::find_if(log.events().begin(), log.events().end(),
                                 [](const TraceEvent& event) { return event.what == "add loop"; });
  ASSERT_NE(loop, log.events().end());
  const Instant at = loop->at + microseconds(50);

  RunTracer looking({.node = "switch", .at = {at}, .request = {}}, nullptr);
  const auto result = run_scenario(small(), nullptr, &looking);
  EXPECT_FALSE(result);  // The observer stopped the run.
  EXPECT_EQ(result.error().text, kEndedByObserver);
  EXPECT_TRUE(looking.had_enough());
  ASSERT_EQ(looking.snapshots().size(), 1U);
  const NodeSnapshot& snapshot = looking.snapshots()[0].snapshot;
  EXPECT_EQ(snapshot.node, "switch");
  ASSERT_EQ(snapshot.tables.size(), 4U);
  const SnapshotTable& threads = snapshot.tables[0];
  EXPECT_EQ(threads.name, "threads");
  ASSERT_EQ(threads.rows.size(), 4U);
  for (const auto& row : threads.rows) {
    EXPECT_EQ(row[4], "waiting");
    EXPECT_EQ(row[5], "add loop");
    EXPECT_TRUE(row[6].starts_with("buffer of job 1 block ")) << row[6];
  }
  const SnapshotTable& blocks = snapshot.tables[3];
  EXPECT_EQ(blocks.name, "blocks");
  ASSERT_EQ(blocks.rows.size(), 2U);
  EXPECT_EQ(blocks.rows[0][3], "aggregating");
  EXPECT_EQ(blocks.rows[0][4], "2");    // Admitted,
  EXPECT_EQ(blocks.rows[0][5], "0");    // not added yet,
  EXPECT_EQ(blocks.rows[0][7], "0x3");  // from sources 0 and 1.
}

TEST(RunObserver, SnapshotOfABlockShowsItsRecordOnly) {
  SnapshotRequest request;
  request.block = 1;
  RunTracer looking({.at = {Instant(microseconds(100))}, .request = request}, nullptr);
  (void)run_scenario(small(), nullptr, &looking);
  ASSERT_EQ(looking.snapshots().size(), 1U);
  const SnapshotTable& blocks = looking.snapshots()[0].snapshot.tables[3];
  ASSERT_EQ(blocks.rows.size(), 1U);
  EXPECT_EQ(blocks.rows[0][1], "1");
}

TEST(RunObserver, ReportsSnapshotTimesPastTheEnd) {
  RunTracer looking({.at = {Instant(microseconds(10)), Instant(seconds(5))}, .request = {}},
                    nullptr);
  ASSERT_TRUE(run_scenario(small(), nullptr, &looking));
  EXPECT_EQ(looking.snapshots().size(), 1U);
  EXPECT_EQ(looking.missed(), std::vector{Instant(seconds(5))});
  EXPECT_LT(looking.ended_at(), Instant(seconds(1)));
}

TEST(RunObserver, RunEndsAfterTheLastRequestedEvent) {
  TraceLog log({}, 100'000);
  RunTracer tracer({.to = Instant(microseconds(30)), .at = {}, .request = {}}, &log);
  EXPECT_FALSE(run_scenario(small(), nullptr, &tracer));
  EXPECT_TRUE(tracer.had_enough());
  EXPECT_LE(tracer.ended_at(), Instant(microseconds(30)));
  EXPECT_EQ(count_of(log, TraceKind::kSend, "result"), 0U);
}

TEST(RunObserver, LinkTraceNamesItsMessages) {
  TraceLog log({}, 100'000);
  RunTracer tracer({.node = "worker-0.0>switch.0", .at = {}, .request = {}}, &log);
  const auto result = run_scenario(small(Backend::kIdeal), nullptr, &tracer);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(count_of(log, TraceKind::kLink, "contribution"), 4U);
  EXPECT_EQ(log.events().size(), result->links[0].packets);
  for (const TraceEvent& event : log.events()) EXPECT_EQ(event.node, "worker-0.0>switch.0");
}

TEST(RunObserver, LinkTraceNamesSwitchmlMessages) {
  TraceLog log({}, 100'000);
  RunTracer tracer({.node = "worker-1.0>switch.1"}, &log);
  Scenario scenario = small(Backend::kSwitchml64);
  scenario.model.bucket_bytes = {1024};  // Four packets of 64 elements.
  const auto result = run_scenario(scenario, nullptr, &tracer);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(count_of(log, TraceKind::kLink, "contribution"), log.events().size());
  std::set<uint64_t> slots;
  for (const TraceEvent& event : log.events()) {
    slots.insert(std::get<uint64_t>(*event.find("slot")));
  }
  EXPECT_EQ(slots.size(), log.events().size());
}

TEST(RunObserver, TofinoSnapshotShowsTheRegistersOfASlot) {
  SnapshotRequest request;
  request.rows_max = 1000;
  Scenario scenario = small(Backend::kSwitchml64);
  size_t rows[2];
  for (const Payload payload : {Payload::kElided, Payload::kReal}) {
    scenario.payload = payload;
    RunTracer looking({.at = {Instant(microseconds(2))}, .request = request}, nullptr);
    (void)run_scenario(scenario, nullptr, &looking);
    ASSERT_EQ(looking.snapshots().size(), 1U);
    const auto& tables = looking.snapshots()[0].snapshot.tables;
    ASSERT_EQ(tables.size(), 4U);
    EXPECT_EQ(tables[0].name, "slots");
    EXPECT_GT(tables[0].rows.size(), 0U);
    EXPECT_EQ(tables[1].name, "registers");
    rows[static_cast<uint32_t>(payload)] = tables[1].rows.size();
  }
  // 32 registers of values, two sets of each, in all four pipes of the chip.
  EXPECT_EQ(rows[1] - rows[0], 32U * 2U * 4U);
}

TEST(RunObserver, TracingATofinoKeepsItsPasses) {
  Scenario scenario = small(Backend::kSwitchml64);
  scenario.payload = Payload::kReal;
  const RunResult plain = run_well(scenario);
  TraceFilter filter;
  filter.slot = 3;
  TraceLog log(filter, 100'000);
  RunTracer tracer({}, &log);
  const auto result = run_scenario(scenario, nullptr, &tracer);
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->digest, plain.digest);
  EXPECT_GT(count_of(log, TraceKind::kRegister, "bitmap"), 0U);
  EXPECT_GT(count_of(log, TraceKind::kRegister, "values0"), 0U);
  for (const TraceEvent& event : log.events()) {
    const TraceValue* const slot = event.find("slot");
    if (slot != nullptr) {
      EXPECT_EQ(*slot, TraceValue(uint64_t{3}));
    }
  }
}

TEST(RunObserver, RefusesUnknownNames) {
  TraceLog log({}, 1);
  RunTracer unknown({.node = "swich", .at = {}, .request = {}}, &log);
  const auto result = run_scenario(small(), nullptr, &unknown);
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().text.starts_with(
      "unknown node 'swich' (did you mean 'switch'?); allowed: switch, "))
      << result.error().text;

  RunTracer nothing({}, &log);
  const auto ideal = run_scenario(small(Backend::kIdeal), nullptr, &nothing);
  ASSERT_FALSE(ideal);
  EXPECT_NE(ideal.error().text.find("not modelled"), std::string::npos) << ideal.error().text;
}

TEST(RunObserver, TracesAFailedRunToItsEnd) {
  Scenario scenario = small();
  scenario.limit = microseconds(100);  // A block takes twice as long as the limit.
  TraceLog log({}, 100'000);
  RunTracer tracer({}, &log);
  const auto result = run_scenario(scenario, nullptr, &tracer);
  EXPECT_FALSE(result);
  EXPECT_NE(result.error().text.find("is not done after"), std::string::npos);
  EXPECT_FALSE(tracer.had_enough());
  EXPECT_GT(log.events().size(), 0U);
  EXPECT_GT(tracer.ended_at(), Instant());
}

}  // namespace
}  // namespace tributary::lab
