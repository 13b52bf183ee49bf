// SPDX-License-Identifier: Apache-2.0
// Method: one flow by hand, then every refusal, then the configuration's ranges, then a random walk
// against sums by flow in a map.
#include "apps/telemetry/telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/telemetry/bed.h"
#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::telemetry {
namespace {

using apps::Counts;
using ::testing::HasSubstr;
using wire::FlowEndReason;

// --- By hand -------------------------------------------------------------------------------------

TEST(Telemetry, CountsAFlow) {
  LiveBed bed(small_config());
  const FrameSpec syn{.protocol = 6, .vlan = 9, .tcp_flags = wire::kTcpSyn, .payload_bytes = 0};
  const FrameSpec data{.protocol = 6, .vlan = 9, .tcp_flags = wire::kTcpAck, .payload_bytes = 100};
  bed.packet(frame_of(syn), Instant(microseconds(1)));
  bed.packet(frame_of(data), Instant(microseconds(3)));
  EXPECT_EQ(bed.state().flow_count(), 1U);
  EXPECT_EQ(bed.forwarded(), (std::vector{frame_of(syn), frame_of(data)}));
  bed.stop(at_ms(5));

  const auto flows = bed.take_flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0], (wire::IpfixFlow{.source = Endpoint::ipv4(1, 0).address,
                                       .destination = Endpoint::ipv4(2, 0).address,
                                       .protocol = 6,
                                       .source_port = 1000,
                                       .destination_port = 53,
                                       .vlan = 9,
                                       .tcp_flags = wire::kTcpSyn | wire::kTcpAck,
                                       .end_reason = FlowEndReason::kForcedEnd,
                                       .packets = 2,
                                       .octets = 40 + 140,
                                       .start_ns = kEpochNs + 1'000,
                                       .end_ns = kEpochNs + 3'000}));
  EXPECT_EQ(bed.state().flow_count(), 0U);
  EXPECT_EQ(bed.counter(Outcome::kAccounted), (memory::PacketByteCounter{2, 180}));
  EXPECT_EQ(bed.state().exports().exported, (memory::PacketByteCounter{2, 180}));
  EXPECT_EQ(bed.state().exports().records, 1U);
  EXPECT_EQ(bed.state().exports().messages, 1U);
  EXPECT_EQ(bed.collector().messages()[0].decoded.export_time_s, 1'600'000'000U);
}

TEST(Telemetry, EachFieldOfTheKeyMakesAFlow) {
  LiveBed bed(small_config());
  const std::vector<FrameSpec> specs{{},
                                     {.source = 9},
                                     {.destination = 9},
                                     {.protocol = 6},
                                     {.source_port = 9},
                                     {.destination_port = 9},
                                     {.vlan = 9},
                                     {.vlan = 9, .customer_vlan = 8},
                                     {.is_ipv6 = true},
                                     {.fragment_offset = 9}};
  for (const FrameSpec& spec : specs) bed.packet(frame_of(spec), at_ms(1));
  EXPECT_EQ(bed.state().flow_count(), specs.size());
  bed.stop(at_ms(2));
  FlowSums sums;
  add_records(bed.take_flows(), sums);
  EXPECT_EQ(sums.size(), specs.size());
}

TEST(Telemetry, IssuesTheHashOperationsOfThePaper) {
  auto memory = small_memory();
  const auto state = *TelemetryState::create(memory, small_config(), Instant());
  testing::StepMachine m({.seed = 1});
  const auto run = [&](const FrameSpec& spec) {
    m.start(
        frame_of(spec), {}, [&](testing::StepMachine& machine) { process_packet(machine, *state); },
        engine::PacketLayer::kFrame);
    m.run();
  };
  using microcode::XtxnKind;
  run({.protocol = 6});
  EXPECT_EQ(m.xtxns(XtxnKind::kHashLookup), 1U);
  EXPECT_EQ(m.xtxns(XtxnKind::kHashInsert), 1U);
  EXPECT_EQ(m.xtxns(XtxnKind::kFetchAndOr), 1U);        // The flags.
  EXPECT_EQ(m.xtxns(XtxnKind::kCounterIncrement), 2U);  // The flow's and the outcome's.
  run({.protocol = 6});
  EXPECT_EQ(m.xtxns(XtxnKind::kHashLookup), 2U);
  EXPECT_EQ(m.xtxns(XtxnKind::kHashInsert), 1U);
  EXPECT_EQ(m.xtxns(XtxnKind::kFetchAndSwap), 0U);  // Nothing to change at the same time.
  m.set_now(at_ms(1));
  run({.protocol = 6});
  EXPECT_EQ(m.xtxns(XtxnKind::kFetchAndSwap), 1U);  // The last time.
  EXPECT_EQ(m.xtxns(XtxnKind::kFetchAndOr), 1U);
  EXPECT_EQ(m.forwarded().size(), 3U);
}

TEST(Telemetry, TargetsLieInSharedMemory) {
  auto memory = small_memory();
  const auto state = *TelemetryState::create(memory, small_config(), Instant());
  const auto range = [&](const void* target) {
    const memory::Address address = memory.address_of(target);
    EXPECT_FALSE(address.is_null());
    return memory::SharedMemory::range_of(address);
  };
  EXPECT_EQ(range(&state->counters()), memory::Range::kSram);
  EXPECT_EQ(range(&state->sequence()), memory::Range::kSram);
  EXPECT_EQ(range(&state->pool_word()), memory::Range::kSram);
  const auto look_up = state->hash_request(microcode::XtxnKind::kHashLookup, {.source_port = 7});
  EXPECT_EQ(range(look_up.target), memory::Range::kDram);
  EXPECT_EQ(range(state->ref_flag_of(63)), memory::Range::kDram);
  EXPECT_EQ(range(&state->record_at(63)), memory::Range::kDram);
}

TEST(Telemetry, RemovesOnlyFlowsForWhichTheReasonHolds) {
  auto memory = small_memory();
  const auto state = *TelemetryState::create(memory, small_config(), Instant());
  const apps::FlowKey key{.source_port = 7};
  const auto settle = [](const Admission& flow) { memory::count_packet(flow.span->counted, 100); };
  const auto removes = [&](FlowEndReason reason) { return state->remove(0, reason).removed; };
  EXPECT_FALSE(removes(FlowEndReason::kForcedEnd));  // No flow.

  const Admission first = state->insert(key, time_word(at_ms(1)));
  EXPECT_EQ(state->scan_idle(0, 64), 0U);
  EXPECT_EQ(state->scan_idle(0, 64), 1U);
  EXPECT_FALSE(removes(FlowEndReason::kIdle));  // A packet is in flight.
  EXPECT_FALSE(removes(FlowEndReason::kForcedEnd));
  EXPECT_EQ(state->exports().records_in_use, 2U);
  settle(first);
  settle(state->admit(key));
  EXPECT_FALSE(removes(FlowEndReason::kIdle));  // Referenced since the scan.
  EXPECT_EQ(state->scan_idle(0, 64), 0U);
  state->record_at(0).state |= kExporting;
  EXPECT_FALSE(removes(FlowEndReason::kIdle));  // Another thread exports it.
  state->record_at(0).state &= ~kExporting;
  EXPECT_FALSE(removes(FlowEndReason::kEndOfFlow));  // No FIN.

  const RemovedFlow flow = state->remove(0, FlowEndReason::kIdle);
  EXPECT_TRUE(flow.removed);
  ASSERT_EQ(flow.count, 1U);
  EXPECT_EQ(flow.exports[0].key, key);
  EXPECT_EQ(flow.exports[0].span.counted, (memory::PacketByteCounter{2, 200}));
  EXPECT_EQ(state->flow_count(), 0U);
  EXPECT_EQ(state->admit(key).span, nullptr);
}

TEST(Telemetry, InsertionOfAKnownFlowIsALookUp) {
  auto memory = small_memory();
  const auto state = *TelemetryState::create(memory, small_config(), Instant());
  const apps::FlowKey key{.source_port = 7};
  const Admission one = state->insert(key, 5);
  const Admission two = state->insert(key, 4);
  EXPECT_EQ(one.span, two.span);
  EXPECT_EQ(two.first_at, 5U);  // The thread must still write its earlier time.
  EXPECT_EQ(two.span->admitted, 2U);
}

// --- Refusals ------------------------------------------------------------------------------------

TEST(Telemetry, FullStoreRefusesNewFlowsOnly) {
  TelemetryConfig config = small_config();
  config.flows_max = 2;
  LiveBed bed(config);
  for (const uint32_t source : {1U, 2U, 3U, 1U, 3U}) {
    bed.packet(frame_of({.source = source}), at_ms(1));
  }
  EXPECT_EQ(bed.counts(), (Counts{{"accounted", 3}, {"store_full", 2}}));
  EXPECT_EQ(bed.counter(Outcome::kStoreFull), (memory::PacketByteCounter{2, 76}));  // IP bytes.
  EXPECT_EQ(bed.forwarded().size(), 5U);
  EXPECT_EQ(bed.state().flow_count(), 2U);
}

TEST(Telemetry, CountsEachDefectAndForwards) {
  LiveBed bed(small_config());
  Bytes arp = frame_of({});
  arp[13] = std::byte{0x06};
  Bytes bad = frame_of({});
  bad[14] = std::byte{0x65};
  Bytes tags = frame_of({.vlan = 1, .customer_vlan = 2});
  tags[20] = std::byte{0x81};
  tags[21] = std::byte{0x00};
  Bytes extensions;
  for (uint32_t i = 0; i < 200; i++)
    extensions.push_back(i % 8 == 0 ? std::byte{60} : std::byte{0});
  const Bytes deep = frame_of({.is_ipv6 = true, .extensions = extensions, .first_extension = 60});
  bed.packet(frame_of({}), at_ms(1), engine::PacketLayer::kUdpPayload);
  for (const Bytes& frame : {arp, bad, tags, deep, Bytes(20)}) bed.packet(frame, at_ms(1));
  Bytes cut = frame_of({});
  cut.resize(30);
  bed.packet(cut, at_ms(1));
  EXPECT_EQ(bed.counts(), (Counts{{"not_frame", 1},
                                  {"not_ip", 2},
                                  {"bad_ip_header", 1},
                                  {"too_many_tags", 1},
                                  {"headers_too_long", 1},
                                  {"truncated", 1}}));
  EXPECT_EQ(bed.counter(Outcome::kTruncated).bytes, 30U);
  EXPECT_EQ(bed.state().flow_count(), 0U);
}

TEST(Telemetry, OutcomesHaveNames) {
  EXPECT_STREQ(to_string(Outcome::kIndexFull), "index_full");
  EXPECT_STREQ(to_string(Outcome::kTruncated), "truncated");
  EXPECT_STREQ(to_string(Outcome::kCount), "unknown");
}

TEST(Telemetry, RefusesValuesOutOfRange) {
  const auto text_of = [](auto&& change) {
    TelemetryConfig config = small_config();
    change(config);
    const auto checked = check(config);
    return checked ? std::string("accepted") : checked.error().text;
  };
  EXPECT_EQ(text_of([](TelemetryConfig&) {}), "accepted");
  EXPECT_THAT(text_of([](auto& c) { c.flows_max = 0; }), HasSubstr("flows_max = 0; allowed: 1"));
  EXPECT_THAT(text_of([](auto& c) { c.flows_max = kFlowsLimit + 1; }), HasSubstr("flows_max"));
  EXPECT_THAT(text_of([](auto& c) { c.inactive_timeout = microseconds(999); }),
              HasSubstr("inactive_timeout"));
  EXPECT_THAT(text_of([](auto& c) { c.active_timeout = seconds(3601); }),
              HasSubstr("active_timeout"));
  EXPECT_THAT(text_of([](auto& c) { c.timer_threads = 0; }), HasSubstr("timer_threads"));
  EXPECT_THAT(text_of([](auto& c) { c.message_bytes_max = 255; }), HasSubstr("message_bytes_max"));
  EXPECT_THAT(text_of([](auto& c) { c.heavy_hitters = 1001; }), HasSubstr("heavy_hitters"));
  EXPECT_THAT(text_of([](auto& c) { c.collector = {}; }), HasSubstr("collector"));
  EXPECT_THAT(text_of([](auto& c) { c.epoch_ns = -1; }), HasSubstr("epoch_ns"));
}

TEST(Telemetry, RefusesMemoryThatIsTooSmall) {
  auto memory = *memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = 4096});
  EXPECT_FALSE(TelemetryState::create(memory, small_config(), Instant()).has_value());
  auto no_sram =
      *memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = uint64_t{1} << 24});
  EXPECT_FALSE(TelemetryState::create(no_sram, small_config(), Instant()).has_value());
}

TEST(Telemetry, ExportsTheTimesOfANewEpoch) {
  LiveBed bed(small_config());
  bed.packet(frame_of({}), at_ms(1));
  bed.state().set_epoch(kEpochNs + 7'000'000'000);  // The system clock was 7 s late.
  bed.stop(at_ms(5));
  EXPECT_EQ(bed.take_flows().at(0).start_ns, kEpochNs + 7'000'000'000 + 1'000'000);
  EXPECT_EQ(bed.collector().messages()[0].decoded.export_time_s, 1'600'000'007U);
}

TEST(Telemetry, ClampsTimesThatIpfixCannotExpress) {
  TelemetryConfig config = small_config();
  config.epoch_ns = 0;
  LiveBed bed(config);
  bed.packet(frame_of({}), Instant(seconds(-1)));
  bed.stop(Instant());
  EXPECT_EQ(bed.take_flows().at(0).start_ns, 0);
}

// --- Random --------------------------------------------------------------------------------------

FrameSpec random_spec(Prng& prng, uint32_t flows) {
  FrameSpec spec{.is_ipv6 = prng.chance(0.3),
                 .source = prng.below(flows),
                 .protocol = prng.chance(0.5) ? 6U : 17U,
                 .tcp_flags = prng.below(0x20),
                 .payload_bytes = prng.below(1200)};
  return spec;
}

TEST(Telemetry, RandomWalkMatchesSumsByFlow) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 10; round++) {
    TelemetryConfig config = small_config();
    config.flows_max = 1 + prng.below(100);
    config.export_on_fin = prng.chance(0.3);
    config.message_bytes_max = 256 + prng.below(1000);
    LiveBed bed(config);
    FlowSums expected;
    FlowSums exported;
    uint64_t refused = 0;
    uint64_t forwarded = 0;
    Instant now;
    for (uint32_t step = 0; step < 3'000; step++) {
      now = now + microseconds(prng.below(prng.chance(0.01) ? 200'000 : 2'000));
      bed.timers_until(now);
      const FrameSpec spec = random_spec(prng, 20);
      const uint32_t before = bed.state().flow_count();
      bed.packet(frame_of(spec), now);
      forwarded++;
      const uint64_t refused_now = bed.counter(Outcome::kStoreFull).packets;
      if (refused_now == refused) {
        expected[name_of(spec)].add(sum_of_packet(spec, now));
      } else {
        ASSERT_EQ(before, config.flows_max);  // Only a full store refuses.
        refused = refused_now;
      }
      const auto flows = bed.take_flows();
      add_records(flows, exported);
    }
    bed.stop(now);
    add_records(bed.take_flows(), exported);
    bed.collector().check_sequence();
    ASSERT_EQ(exported, expected);
    EXPECT_EQ(bed.forwarded().size(), forwarded);
    EXPECT_EQ(bed.state().flow_count(), 0U);
    EXPECT_EQ(bed.state().exports().exported, bed.counter(Outcome::kAccounted));
    for (const auto& message : bed.collector().messages()) {
      EXPECT_LE(message.bytes, config.message_bytes_max);
    }
  }
}

TEST(Telemetry, OwnerSpreadsFlowsAndKeepsEachOnOneCore) {
  std::array<uint32_t, 4> flows{};
  for (uint32_t port = 0; port < 4000; port++) {
    const Bytes small = frame_of({.source_port = port, .payload_bytes = 1});
    const Bytes large = frame_of({.source_port = port, .payload_bytes = 1000});
    const uint32_t core = App::owner(small, true, 4);
    ASSERT_LT(core, 4U);
    EXPECT_EQ(App::owner(large, true, 4), core);
    flows[core]++;
  }
  for (const uint32_t count : flows) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(App::owner(frame_of({}), false, 4), 0U);
  EXPECT_EQ(App::owner({}, true, 4), 0U);
}

}  // namespace
}  // namespace tributary::telemetry
