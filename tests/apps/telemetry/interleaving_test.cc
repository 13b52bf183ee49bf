// SPDX-License-Identifier: Apache-2.0
// Method: packets and timers of few flows as many threads of the suspending machine, whose XTXNs
// are served in thousands of random orders. Every packet must be in exactly one record or one
// refusal counter, to the byte.
#include <gtest/gtest.h>

#include <memory>

#include "apps/telemetry/app.h"
#include "tests/apps/telemetry/bed.h"
#include "tests/engine/step_machine.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace tributary::telemetry {
namespace {

using testing::StepMachine;

constexpr uint32_t kRounds = testing::kIsSanitized ? 500 : 2'000;

/// The program on the suspending machine.
class StepBed {
 public:
  StepBed(const TelemetryConfig& config, uint64_t seed)
      : state_(*TelemetryState::create(memory_, config, Instant())),
        m_({.seed = seed, .thread_count = 96, .packet_bytes_max = 512}) {}

  void packet(const Bytes& frame) {
    make_room(1);
    m_.start(
        frame, {}, [&](StepMachine& m) { app_.process(m); }, engine::PacketLayer::kFrame);
  }
  void advance(Duration time) {
    now_ = now_ + time;
    m_.set_now(now_);
  }
  void timers() {
    make_room(8);  // Four threads of each kind.
    m_.start_timer([&](StepMachine& m) { app_.run_timers(m, now_); });
  }
  void stop() {
    make_room(1);
    m_.start_timer([&](StepMachine& m) { app_.stop(m); });
  }
  void steps(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) (void)m_.step();
  }
  /// Runs all threads to their end, and collects the messages.
  void finish() {
    m_.run();
    for (const StepMachine::Sent& sent : m_.take_sent()) collector_.receive(sent.bytes);
  }

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] StepMachine& machine() { return m_; }
  [[nodiscard]] TelemetryState& state() { return *state_; }
  [[nodiscard]] Collector& collector() { return collector_; }
  [[nodiscard]] const memory::PacketByteCounter& counter(Outcome outcome) {
    return state_->counters()[static_cast<uint32_t>(outcome)];
  }

 private:
  void make_room(uint32_t threads) {
    while (m_.threads_active() + threads > 96) (void)m_.step();
  }

  memory::SharedMemory memory_ = small_memory();
  std::unique_ptr<TelemetryState> state_;
  StepMachine m_;
  App app_{*state_};
  Collector collector_;
  Instant now_;
};

struct Walk {
  uint32_t flows = 3;
  uint32_t flows_max = 64;
  uint32_t packets = 60;
  bool export_on_fin = false;
};

struct Covered {
  uint64_t in_use = 0;
  uint64_t refused = 0;
  std::array<uint64_t, wire::kFlowEndReasonCount> reasons{};
};

/// Runs one random interleaving of packets and timers, and checks every packet.
void run_walk(const Walk& walk, uint64_t seed, Covered& covered) {
  Prng prng(seed);
  TelemetryConfig config = small_config();
  config.flows_max = walk.flows_max;
  config.export_on_fin = walk.export_on_fin;
  // Short messages and a short active timeout: all kinds of export meet.
  config.message_bytes_max = wire::kIpfixMessageBytesMin;
  config.active_timeout = milliseconds(150);
  StepBed bed(config, prng.any_u64());
  FlowSums sent;
  FlowSum all;
  for (uint32_t i = 0; i < walk.packets; i++) {
    bed.advance(microseconds(prng.below(prng.chance(0.2) ? 60'000 : 2'000)));
    if (prng.chance(0.5)) bed.timers();
    const FrameSpec spec{.is_ipv6 = prng.chance(0.3),
                         .source = prng.below(walk.flows),
                         .protocol = 6,
                         .tcp_flags = prng.chance(0.2) ? wire::kTcpFin : prng.below(0x20) & ~5U,
                         .payload_bytes = prng.below(200)};
    bed.packet(frame_of(spec));
    const FlowSum one = sum_of_packet(spec, bed.now());
    sent[name_of(spec)].add(one);
    all.add(one);
    bed.steps(prng.below(prng.chance(0.3) ? 60 : 6));
  }
  bed.stop();
  bed.finish();
  // The first stop may have found the store empty before the last packet's thread made a record.
  bed.stop();
  bed.finish();

  // All flows were exported, and the sums are those of the accounted packets.
  EXPECT_EQ(bed.state().flow_count(), 0U);
  EXPECT_EQ(bed.state().pool().free_count(), MessagePool::kCount);
  bed.collector().check_sequence();
  FlowSums exported;
  const auto flows = bed.collector().take_flows();
  add_records(flows, exported);
  FlowSum total;
  for (const auto& [name, sum] : exported) total.add(sum);
  const auto& accounted = bed.counter(Outcome::kAccounted);
  const auto& refused = bed.counter(Outcome::kStoreFull);
  ASSERT_EQ(total.packets, accounted.packets);
  ASSERT_EQ(total.octets, accounted.bytes);
  ASSERT_EQ(accounted.packets + refused.packets, all.packets);
  ASSERT_EQ(accounted.bytes + refused.bytes, all.octets);
  ASSERT_EQ(bed.machine().forwarded().size(), walk.packets);
  if (refused.packets == 0) {
    ASSERT_EQ(exported, sent);
  }

  covered.in_use += bed.state().exports().records_in_use;
  covered.refused += refused.packets;
  for (const auto& flow : flows) covered.reasons[static_cast<size_t>(flow.end_reason)]++;
}

TEST(TelemetryInterleaving, EveryPacketIsInOneRecord) {
  const uint64_t seed = tributary::testing::seed_from_env();
  Prng prng(seed);
  Covered covered;
  for (uint32_t round = 0; round < kRounds; round++) {
    const Walk walk{.flows = 1 + prng.below(4), .export_on_fin = prng.chance(0.3)};
    const uint64_t walk_seed = prng.any_u64();
    SCOPED_TRACE(::testing::Message()
                 << tributary::testing::replay_hint(seed) << " round " << round);
    ASSERT_NO_FATAL_FAILURE(run_walk(walk, walk_seed, covered));
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  // The walks cover every case that they are meant to reach.
  EXPECT_GT(covered.in_use, 0U);
  EXPECT_EQ(covered.refused, 0U);
  for (uint32_t reason = 1; reason < wire::kFlowEndReasonCount; reason++) {
    EXPECT_GT(covered.reasons[reason], 0U) << reason;
  }
}

TEST(TelemetryInterleaving, EveryPacketIsInOneRecordOrOneRefusal) {
  const uint64_t seed = tributary::testing::seed_from_env();
  Prng prng(seed);
  Covered covered;
  for (uint32_t round = 0; round < kRounds / 4; round++) {
    const Walk walk{.flows = 10, .flows_max = 1 + prng.below(6), .export_on_fin = prng.chance(0.3)};
    const uint64_t walk_seed = prng.any_u64();
    SCOPED_TRACE(::testing::Message()
                 << tributary::testing::replay_hint(seed) << " round " << round);
    ASSERT_NO_FATAL_FAILURE(run_walk(walk, walk_seed, covered));
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(covered.refused, 0U);
}

/// Threads write times in any order; the smallest and the largest must remain.
template <microcode::Machine M>
microcode::Thread keep_both(M& m, uint64_t& smallest, uint64_t& largest, uint64_t value) {
  co_await keep_smallest(m, smallest, value);
  co_await keep_largest(m, largest, value);
}

TEST(TelemetryInterleaving, SwapsKeepTheExtremes) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 500; round++) {
    StepMachine m({.seed = prng.any_u64(), .thread_count = 32});
    uint64_t smallest = UINT64_MAX;
    uint64_t largest = 0;
    uint64_t wanted_smallest = UINT64_MAX;
    uint64_t wanted_largest = 0;
    m.start_timer([&](StepMachine& machine) {
      for (uint32_t i = 0; i < 30; i++) {
        const uint64_t value = prng.below(40);
        wanted_smallest = std::min(wanted_smallest, value);
        wanted_largest = std::max(wanted_largest, value);
        keep_both(machine, smallest, largest, value);
      }
    });
    m.run();
    ASSERT_EQ(smallest, wanted_smallest);
    ASSERT_EQ(largest, wanted_largest);
  }
}

}  // namespace
}  // namespace tributary::telemetry
