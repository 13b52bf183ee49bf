// SPDX-License-Identifier: Apache-2.0
// Method: the time of each kind of expiry by hand on the live machine, then full messages and
// missing buffers, then random packets whose every export must lie in its bounds.
#include "apps/telemetry/expiry.h"

#include <gtest/gtest.h>

#include "tests/apps/telemetry/bed.h"
#include "tests/support/seed.h"

namespace tributary::telemetry {
namespace {

using wire::FlowEndReason;

// --- By hand: idle after 100 ms, active for 1 s --------------------------------------------------

TEST(Expiry, IdleFlowEndsAtTheSecondScan) {
  LiveBed bed(small_config());
  // The first of four threads visits slot 0 at 25, 125, 225 ms. The packet at 30 ms sets the REF
  // flag, the scan at 125 ms clears it, the scan at 225 ms finds it clear.
  bed.timers_until(at_ms(30));
  bed.packet(frame_of({}), at_ms(30));
  bed.timers_until(at_ms(224));
  EXPECT_EQ(bed.state().flow_count(), 1U);
  bed.timers_until(at_ms(225));
  const auto flows = bed.take_flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].end_reason, FlowEndReason::kIdle);
  EXPECT_EQ(bed.state().flow_count(), 0U);

  // The flow begins again.
  bed.packet(frame_of({}), at_ms(300));
  bed.stop(at_ms(301));
  EXPECT_EQ(bed.take_flows().at(0).packets, 1U);
}

TEST(Expiry, DeadFlowIsIdleAlsoIfItIsOld) {
  TelemetryConfig config = small_config();
  config.active_timeout = config.inactive_timeout;
  LiveBed bed(config);
  // Ages are checked at 6.25 ms and every 25 ms from then on: the flow is old at 131.25 ms. The
  // scan at 125 ms has cleared its REF flag.
  bed.timers_until(at_ms(30));
  bed.packet(frame_of({}), at_ms(30));
  bed.timers_until(at_ms(131));
  EXPECT_EQ(bed.state().flow_count(), 1U);
  bed.timers_until(at_ms(400));
  const auto flows = bed.take_flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].end_reason, FlowEndReason::kIdle);
  EXPECT_EQ(flows[0].packets, 1U);
  EXPECT_EQ(bed.state().flow_count(), 0U);
}

TEST(Expiry, PacketsKeepAFlowAlive) {
  LiveBed bed(small_config());
  for (int64_t ms = 0; ms < 900; ms += 90) {
    bed.timers_until(at_ms(ms));
    bed.packet(frame_of({}), at_ms(ms));
  }
  EXPECT_EQ(bed.state().flow_count(), 1U);
  EXPECT_TRUE(bed.take_flows().empty());
}

TEST(Expiry, LongFlowIsExportedAndContinues) {
  LiveBed bed(small_config());
  // A packet every 10 ms from 0 to 2,990 ms. Thread 0 checks ages at 62.5 ms and every 250 ms from
  // then on. The first check of an age of 1 s is at 1,062.5 ms; the next span begins at 1,070 ms
  // and is old at 2,312.5 ms.
  for (int64_t ms = 0; ms < 3'000; ms += 10) {
    bed.timers_until(at_ms(ms));
    bed.packet(frame_of({.payload_bytes = 72}), at_ms(ms));
  }
  const auto flows = bed.take_flows();
  ASSERT_EQ(flows.size(), 2U);
  EXPECT_EQ(flows[0].end_reason, FlowEndReason::kActive);
  EXPECT_EQ(flows[0].packets, 107U);  // 0 to 1,060 ms.
  EXPECT_EQ(flows[0].octets, 10'700U);
  EXPECT_EQ(flows[0].start_ns, kEpochNs);
  EXPECT_EQ(flows[0].end_ns, kEpochNs + 1'060'000'000);
  EXPECT_EQ(flows[1].packets, 125U);  // 1,070 to 2,310 ms.
  EXPECT_EQ(flows[1].start_ns, kEpochNs + 1'070'000'000);
  EXPECT_EQ(bed.state().flow_count(), 1U);
  EXPECT_EQ(bed.state().heavy_hitters().sorted().at(0).total.packets, 232U);

  bed.timers_until(at_ms(3'200));
  const auto rest = bed.take_flows();
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].end_reason, FlowEndReason::kIdle);
  EXPECT_EQ(rest[0].packets, 68U);
  EXPECT_EQ(bed.state().heavy_hitters().sorted().at(0).total,
            (memory::PacketByteCounter{300, 30'000}));
}

TEST(Expiry, FlowWithoutPacketsSinceItsExportEndsSilently) {
  TelemetryConfig config = small_config();
  config.inactive_timeout = seconds(2);
  LiveBed bed(config);
  bed.packet(frame_of({}), at_ms(0));
  bed.timers_until(at_ms(1'100));
  EXPECT_EQ(bed.take_flows().at(0).end_reason, FlowEndReason::kActive);
  EXPECT_EQ(bed.state().flow_count(), 1U);
  bed.timers_until(at_ms(4'000));
  EXPECT_TRUE(bed.take_flows().empty());
  EXPECT_EQ(bed.state().flow_count(), 0U);
}

TEST(Expiry, FinEndsAFlowIfConfigured) {
  for (const bool on : {false, true}) {
    TelemetryConfig config = small_config();
    config.export_on_fin = on;
    LiveBed bed(config);
    bed.packet(frame_of({.source = 1, .protocol = 6}), at_ms(1));
    bed.packet(frame_of({.source = 1, .protocol = 6, .tcp_flags = wire::kTcpFin}), at_ms(2));
    bed.packet(frame_of({.source = 2, .protocol = 6, .tcp_flags = wire::kTcpRst}), at_ms(2));
    bed.packet(frame_of({.source = 3, .protocol = 6}), at_ms(2));
    bed.timers_until(at_ms(63));
    const auto flows = bed.take_flows();
    ASSERT_EQ(flows.size(), on ? 2U : 0U);
    for (const auto& flow : flows) EXPECT_EQ(flow.end_reason, FlowEndReason::kEndOfFlow);
    EXPECT_EQ(bed.state().flow_count(), on ? 1U : 3U);
  }
}

// --- Messages ------------------------------------------------------------------------------------

TEST(Expiry, RecordsFillMessages) {
  TelemetryConfig config = small_config();
  config.flows_max = 4'000;
  LiveBed bed(config);
  for (uint32_t i = 0; i < 4'000; i++) bed.packet(frame_of({.source = i}), at_ms(1));
  bed.stop(at_ms(2));
  EXPECT_EQ(bed.take_flows().size(), 4'000U);
  // (1,400 - 148 - 4) / 68 = 18 records a message, 223 messages: more than there are buffers.
  ASSERT_EQ(bed.collector().messages().size(), 223U);
  EXPECT_EQ(bed.collector().messages()[0].decoded.flows.size(), 18U);
  EXPECT_EQ(bed.collector().messages()[0].bytes, 148U + 4 + 18 * 68);
  EXPECT_EQ(bed.collector().messages()[222].decoded.flows.size(), 4U);
  bed.collector().check_sequence();
  EXPECT_EQ(bed.state().exports().messages, 223U);
}

TEST(Expiry, FlowsStayWhileNoBufferIsFree) {
  LiveBed bed(small_config());
  bed.timers_until(at_ms(30));
  bed.packet(frame_of({}), at_ms(30));
  std::vector<std::span<std::byte>> taken;
  while (bed.state().pool().free_count() > 0) taken.push_back(bed.state().pool().take().buffer);
  bed.timers_until(at_ms(230));
  EXPECT_EQ(bed.state().flow_count(), 1U);
  EXPECT_EQ(bed.state().exports().visits_without_buffer, 1U);
  bed.state().pool().give_back(taken.back(), /*was_sent=*/false);
  bed.timers_until(at_ms(330));
  EXPECT_EQ(bed.take_flows().size(), 1U);
}

TEST(Expiry, StopWithoutFlowsSendsNothing) {
  LiveBed bed(small_config());
  bed.stop(at_ms(1));
  EXPECT_TRUE(bed.collector().messages().empty());
  EXPECT_EQ(bed.state().pool().free_count(), MessagePool::kCount);
}

// --- Random --------------------------------------------------------------------------------------

TEST(Expiry, RandomExportsLieInTheirBounds) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  TelemetryConfig config = small_config();
  config.active_timeout = milliseconds(400);
  config.flows_max = 300;
  LiveBed bed(config);
  std::array<uint32_t, wire::kFlowEndReasonCount> reasons{};
  Instant now;
  for (uint32_t step = 0; step < 20'000; step++) {
    // A few flows are busy, most are seldom seen.
    const uint32_t source = prng.chance(0.5) ? prng.below(10) : prng.below(300);
    now = now + microseconds(prng.below(1'000));
    while (bed.app().next_due() <= now) {
      const Instant at = bed.app().next_due();
      bed.timers(at);
      const int64_t at_ns = kEpochNs + in_nanoseconds(at.since_start());
      for (const auto& flow : bed.take_flows()) {
        reasons[static_cast<size_t>(flow.end_reason)]++;
        const int64_t idle_ns = at_ns - flow.end_ns;
        const int64_t age_ns = at_ns - flow.start_ns;
        if (flow.end_reason == FlowEndReason::kIdle) {
          ASSERT_GE(idle_ns, 100'000'000);
          ASSERT_LE(idle_ns, 200'000'000);
        } else {
          ASSERT_EQ(flow.end_reason, FlowEndReason::kActive);
          ASSERT_LT(idle_ns, 100'000'000);
          ASSERT_GE(age_ns, 400'000'000);
          ASSERT_LE(age_ns, 500'000'000);
        }
      }
    }
    bed.packet(frame_of({.source = source}), now);
  }
  EXPECT_GT(reasons[static_cast<size_t>(FlowEndReason::kIdle)], 100U);
  EXPECT_GT(reasons[static_cast<size_t>(FlowEndReason::kActive)], 100U);
}

}  // namespace
}  // namespace tributary::telemetry
