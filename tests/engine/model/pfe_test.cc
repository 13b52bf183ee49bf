// SPDX-License-Identifier: Apache-2.0
// Method: small machines with scripts for the PFE's own work (dispatch, order, timers, drops), by
// hand.
#include "engine/model/pfe.h"

#include <gtest/gtest.h>

#include "apps/filter/filter.h"
#include "tests/engine/model/script_program.h"
#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

using memory::Range;
using microcode::XtxnKind;
using testing::kTimerScript;
using testing::ScriptBed;
using testing::Scripts;
using testing::small_machine;
using testing::Step;
using Kind = testing::Step::Kind;

class PfeTest : public ::testing::TestWithParam<Fidelity> {
 protected:
  [[nodiscard]] static Parameters one_thread() {
    Parameters p = small_machine(GetParam());
    p.ppe_count = 1;
    p.threads_each = 1;
    return p;
  }
};

TEST_P(PfeTest, PacketsWaitInOrderWhenNoThreadIsFree) {
  ScriptBed bed(one_thread());
  bed.scripts.steps[1] = {{.kind = Kind::kNote}, {.kind = Kind::kInstruction, .count = 10}};
  for (uint32_t i = 0; i < 3; i++) bed.arrive(1);
  EXPECT_EQ(bed.pfe().packets_inside(), 3U);
  bed.run();
  EXPECT_EQ(bed.note_ns(0), 0);
  EXPECT_EQ(bed.note_ns(1), 100);
  EXPECT_EQ(bed.note_ns(2), 200);
  const Report report = bed.pfe().report();
  EXPECT_EQ(report.latency.mean, nanoseconds(200));  // 100, 200, 300.
  EXPECT_EQ(report.latency.parts_mean[LatencyPart::kDispatch], nanoseconds(100));
  EXPECT_EQ(report.threads_peak, 1U);
  EXPECT_EQ(report.consumed, 3U);
  EXPECT_EQ(report.active, nanoseconds(300));
  EXPECT_EQ(report.resources[3].name, "threads");
  EXPECT_DOUBLE_EQ(report.resources[3].share, 1.0);
  EXPECT_EQ(bottleneck(report), "threads: 100 % busy");
  EXPECT_EQ(bed.pfe().packets_inside(), 0U);
}

TEST_P(PfeTest, IngressTakesTimeButNoThread) {
  Parameters p = one_thread();
  p.ingress_latency = microseconds(2);
  ScriptBed bed(p);
  bed.scripts.steps[1] = {{.kind = Kind::kNote}, {.kind = Kind::kInstruction}};
  bed.arrive(1);
  bed.run();
  EXPECT_EQ(bed.note_ns(0), 2000);
  EXPECT_EQ(bed.pfe().report().active, nanoseconds(10));
}

TEST_P(PfeTest, FullPacketBufferDropsAndCounts) {
  Parameters p = one_thread();
  p.packet_buffer_packets = 4;
  ScriptBed bed(p);
  bed.scripts.steps[1] = {{.kind = Kind::kInstruction}};
  for (uint32_t i = 0; i < 6; i++) bed.arrive(1);
  bed.arrive(1, p.packet_bytes_max + 1);
  bed.run();
  const Report report = bed.pfe().report();
  EXPECT_EQ(report.arrived, 7U);
  EXPECT_EQ(report.refused_full, 2U);
  EXPECT_EQ(report.refused_too_long, 1U);
  EXPECT_EQ(report.packet_threads, 4U);
  EXPECT_EQ(report.packet_buffer_peak, 4U);
}

TEST_P(PfeTest, OnlyPacketsOfOneFlowLeaveInOrder) {
  ScriptBed bed(small_machine(GetParam()));
  auto* payload = bed.allocate<uint64_t>(Range::kSram);
  const Step send{.kind = Kind::kSend, .count = 8, .target = payload};
  bed.scripts.steps[1] = {{.kind = Kind::kInstruction, .count = 10}, send};
  bed.scripts.steps[2] = {{.kind = Kind::kInstruction, .count = 2}, send};
  bed.arrive(1, 64, /*source=*/1);
  bed.arrive(2, 64, /*source=*/1);
  bed.arrive(2, 64, /*source=*/2);
  bed.run();
  ASSERT_EQ(bed.left.size(), 3U);
  EXPECT_EQ(bed.left[0].at, Instant(nanoseconds(20)));  // The other flow.
  EXPECT_EQ(bed.left[1].at, Instant(nanoseconds(100)));
  EXPECT_EQ(bed.left[2].at, Instant(nanoseconds(100)));
  EXPECT_EQ(bed.left[1].to.port, 1);  // Script 1 first, though script 2 was done first.
  EXPECT_EQ(bed.left[2].to.port, 2);
  EXPECT_EQ(bed.pfe().report().held_for_order, 1U);
  EXPECT_EQ(bed.pfe().report().latency.parts_mean[LatencyPart::kReorder], nanoseconds(80) / 3);
}

TEST_P(PfeTest, ConsumedPacketsDelayNoOtherPacket) {
  ScriptBed bed(small_machine(GetParam()));
  auto* payload = bed.allocate<uint64_t>(Range::kSram);
  bed.scripts.steps[1] = {{.kind = Kind::kInstruction}};  // Ends without sending.
  bed.scripts.steps[2] = {{.kind = Kind::kInstruction, .count = 2},
                          {.kind = Kind::kSend, .count = 8, .target = payload}};
  bed.arrive(1);
  bed.arrive(2);
  bed.run();
  ASSERT_EQ(bed.left.size(), 1U);
  EXPECT_EQ(bed.left[0].at, Instant(nanoseconds(20)));
}

TEST_P(PfeTest, TimersCompeteForFreeThreads) {
  Scripts scripts;
  scripts.timer_due = Instant(nanoseconds(50));
  scripts.timer_threads = 2;
  scripts.timer_steps = {{.kind = Kind::kNote}, {.kind = Kind::kInstruction, .count = 3}};
  scripts.steps[1] = {{.kind = Kind::kNote}, {.kind = Kind::kInstruction, .count = 10}};
  ScriptBed bed(one_thread(), scripts);
  for (uint32_t i = 0; i < 3; i++) bed.arrive(1);
  bed.run();
  // Packet 0-100, both timers 100-130 and 130-160, then the waiting packets.
  ASSERT_EQ(bed.scripts.notes.size(), 5U);
  EXPECT_EQ(bed.scripts.notes[1].script, kTimerScript);
  EXPECT_EQ(bed.note_ns(1), 100);
  EXPECT_EQ(bed.note_ns(2), 130);
  EXPECT_EQ(bed.note_ns(3), 160);
  EXPECT_EQ(bed.note_ns(4), 260);
  EXPECT_EQ(bed.pfe().report().timer_threads, 2U);
}

TEST_P(PfeTest, TimersDoTheWorkOfATrain) {
  Parameters p = small_machine(GetParam());  // Four threads.
  p.train_max = 3;
  Scripts scripts;
  scripts.timer_due = Instant(nanoseconds(50));
  scripts.timer_threads = 2;
  scripts.timer_steps = {{.kind = Kind::kNote}, {.kind = Kind::kInstruction, .count = 3}};
  ScriptBed bed(p, scripts);
  auto* word = bed.allocate<uint64_t>(Range::kSram);
  bed.scripts.timer_steps.push_back({.kind = Kind::kWait, .target = word, .size_bytes = 64});
  bed.run();
  // 30 ns of instructions and a read of 78 ns. One thread is left for the second timer's train.
  EXPECT_EQ(bed.note_ns(0), 50);
  EXPECT_EQ(bed.note_ns(1), 158);
  const Report report = bed.pfe().report();
  EXPECT_EQ(report.observed, nanoseconds(266));
  EXPECT_EQ(report.threads_peak, 3U);
  EXPECT_EQ(report.memory_requests, 6U);
  EXPECT_EQ(report.xtxn_counts.at(0).issued, 6U);
  // Of four banks, 2 x 3 reads of 8 cycles; of four threads, 2 x 3 times 108 ns.
  EXPECT_NEAR(report.resources[0].timer_share, 48.0 / (4 * 266), 1e-9);
  EXPECT_NEAR(report.resources[3].timer_share, 648.0 / (4 * 266), 1e-9);
  EXPECT_EQ(report.bank_packet_work_s, 0);
}

TEST_P(PfeTest, TrainOccupiesThreadsForAllItsPackets) {
  ScriptBed bed(small_machine(GetParam()));  // Four threads.
  bed.scripts.steps[1] = {{.kind = Kind::kNote}, {.kind = Kind::kInstruction, .count = 10}};
  bed.arrive(1, 64, 1, /*train=*/3);
  bed.arrive(1, 64, 1, /*train=*/3);
  bed.arrive(1, 64, 1, /*train=*/1);
  bed.run();
  EXPECT_EQ(bed.note_ns(1), 100);  // Only one thread was free.
  EXPECT_EQ(bed.note_ns(2), 100);
  const Report report = bed.pfe().report();
  EXPECT_EQ(report.packet_threads, 7U);
  EXPECT_EQ(report.instructions, 70U);
  EXPECT_EQ(report.latency.count, 7U);
}

TEST_P(PfeTest, ResetClearsTheCounters) {
  ScriptBed bed(small_machine(GetParam()));
  bed.scripts.steps[1] = {{.kind = Kind::kInstruction}, {.kind = Kind::kDrop}};
  bed.arrive(1);
  bed.run();
  bed.pfe().reset_report();
  const Report report = bed.pfe().report();
  EXPECT_EQ(report.arrived, 0U);
  EXPECT_EQ(report.dropped, 0U);
  EXPECT_EQ(report.instructions, 0U);
  EXPECT_TRUE(report.instruction_counts.empty());
  EXPECT_EQ(report.latency.count, 0U);
  EXPECT_EQ(bottleneck(report), "nothing: no packet came");
  bed.arrive(1);
  bed.run();
  EXPECT_EQ(bed.pfe().report().dropped, 1U);
}

INSTANTIATE_TEST_SUITE_P(Both, PfeTest, ::testing::Values(Fidelity::kExact, Fidelity::kBurst),
                         [](const auto& param) {
                           return param.param == Fidelity::kExact ? "Exact" : "Burst";
                         });

// --- The filter of the paper's §3.2 -------------------------------------------------------------

/// The filter as an engine's program.
class FilterApp {
 public:
  explicit FilterApp(filter::FilterState& state) : state_(&state) {}
  void begin_burst() {}
  template <microcode::Machine M>
  void process(M& m) {
    filter::filter_packet(m, *state_);
  }
  template <microcode::Machine M>
  void run_timers(M&, Instant) {}
  [[nodiscard]] static Instant next_due() { return Instant::never(); }

 private:
  filter::FilterState* state_;
};

class ForwardSink final : public PfeSink {
 public:
  void send(std::span<const std::byte> stored, uint32_t, std::span<const Endpoint>) override {
    frames.emplace_back(stored.begin(), stored.end());
  }
  std::vector<std::vector<std::byte>> frames;
};

std::vector<std::byte> frame_of(uint16_t ether_type, uint8_t version_and_words) {
  std::vector<std::byte> frame(64);
  wire::EthernetHeader::EtherType::store(frame.data(), ether_type);
  frame[wire::EthernetHeader::kBytes] = std::byte{version_and_words};
  return frame;
}

TEST(PfeFilter, ForwardsPlainIpAndDropsTheRest) {
  for (const Fidelity fidelity : {Fidelity::kExact, Fidelity::kBurst}) {
    EventCore core;
    auto memory = *memory::SharedMemory::create({});
    auto state = *filter::FilterState::create(memory);
    ForwardSink sink;
    Pfe<FilterApp> pfe(core, small_machine(fidelity), memory, FilterApp(state), sink);
    const auto plain = frame_of(wire::kEtherTypeIpv4, 0x45);
    for (const auto& frame :
         {plain, frame_of(0x0806, 0x45), frame_of(wire::kEtherTypeIpv4, 0x46), plain}) {
      pfe.arrive(frame, 64, Endpoint::ipv4(1, 1), 1, PacketLayer::kFrame);
    }
    while (core.run_next()) {
    }
    EXPECT_EQ(sink.frames, (std::vector<std::vector<std::byte>>{plain, plain}));
    EXPECT_EQ(state.dropped(filter::Drop::kNonIp).packets, 1U);
    EXPECT_EQ(state.dropped(filter::Drop::kIpOptions).packets, 1U);
    EXPECT_EQ(state.dropped(filter::Drop::kIpOptions).bytes, 64U);
    const Report report = pfe.report();
    EXPECT_EQ(report.forwarded, 2U);
    EXPECT_EQ(report.dropped, 2U);
    // process_ether, process_ip, forward_packet: 3 of 10 ns; non-IP packets need 3 too, IP with
    // options 4 (Figure 5).
    EXPECT_EQ(report.instructions, 3U + 3U + 4U + 3U);
    EXPECT_EQ(report.latency.max, nanoseconds(40));
    EXPECT_EQ(report.memory_requests, 2U);  // CounterIncPhys, twice.
  }
}

}  // namespace
}  // namespace tributary::engine
