// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked times of one thread, then of two threads that meet at a bank or a PPE. One
// instruction takes 10 cycles of 1 ns (small_machine()).
#include "engine/model/model_machine.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "base/byte_order.h"
#include "tests/engine/model/script_program.h"

namespace tributary::engine {
namespace {

using memory::Range;
using microcode::XtxnKind;
using testing::ScriptBed;
using testing::small_machine;
using testing::Step;
using Kind = testing::Step::Kind;

class ModelMachineTest : public ::testing::TestWithParam<Fidelity> {
 protected:
  ScriptBed bed_{small_machine(GetParam())};
};

TEST_P(ModelMachineTest, InstructionTakesThePipelineDepth) {
  bed_.scripts.steps[1] = {{.kind = Kind::kInstruction, .count = 3}, {.kind = Kind::kNote}};
  bed_.arrive(1);
  bed_.run();
  EXPECT_EQ(bed_.note_ns(0), 20);  // The start of the third.
  EXPECT_EQ(bed_.pfe().report().latency.mean, nanoseconds(30));
  EXPECT_EQ(bed_.pfe().report().instructions, 3U);
}

TEST_P(ModelMachineTest, SynchronousReadSuspends) {
  auto* word = bed_.allocate<uint64_t>(Range::kSram);
  auto* far = bed_.allocate<uint64_t>(Range::kDram);
  bed_.scripts.steps[1] = {{.kind = Kind::kInstruction}, {.kind = Kind::kWait, .target = word},
                           {.kind = Kind::kNote},        {.kind = Kind::kWait, .target = far},
                           {.kind = Kind::kNote},        {.kind = Kind::kWait, .target = far},
                           {.kind = Kind::kNote}};
  bed_.arrive(1);
  bed_.run();
  EXPECT_EQ(bed_.note_ns(0), 10 + 71);
  EXPECT_EQ(bed_.note_ns(1), 81 + 351);  // Miss.
  EXPECT_EQ(bed_.note_ns(2), 432 + 71);  // Hit.
  const Report report = bed_.pfe().report();
  EXPECT_EQ(report.latency.parts_mean[LatencyPart::kInstructions], nanoseconds(10));
  EXPECT_EQ(report.latency.parts_mean[LatencyPart::kSram], nanoseconds(71));
  EXPECT_EQ(report.latency.parts_mean[LatencyPart::kDram], nanoseconds(351));
  EXPECT_EQ(report.latency.parts_mean[LatencyPart::kDramCache], nanoseconds(71));
  EXPECT_EQ(report.latency.mean, nanoseconds(503));
}

TEST_P(ModelMachineTest, AsynchronousReadOverlapsInstructions) {
  auto* word = bed_.allocate<uint64_t>(Range::kSram);
  // A read takes 71 ns. Behind 50 ns of instructions it waits 21 ns; behind 200 ns it waits none.
  bed_.scripts.steps[1] = {{.kind = Kind::kOverlap, .count = 5, .target = word},
                           {.kind = Kind::kNote}};
  bed_.scripts.steps[2] = {{.kind = Kind::kOverlap, .count = 20, .target = word},
                           {.kind = Kind::kInstruction},
                           {.kind = Kind::kNote}};
  bed_.arrive(1);
  bed_.run();
  EXPECT_EQ(bed_.note_ns(0), 71);
  const Duration start = bed_.core.now().since_start();
  bed_.arrive(2);
  bed_.run();
  EXPECT_EQ(bed_.scripts.notes.at(1).at, Instant(start + nanoseconds(200)));
}

TEST_P(ModelMachineTest, PostsDoNotWait) {
  auto* counter = bed_.allocate<uint64_t>(Range::kSram);
  bed_.scripts.steps[1] = {
      {.kind = Kind::kPost, .xtxn = XtxnKind::kCounterIncrement, .target = counter},
      {.kind = Kind::kInstruction},
      {.kind = Kind::kNote}};
  bed_.arrive(1);
  bed_.run();
  EXPECT_EQ(bed_.note_ns(0), 0);
  EXPECT_EQ(bed_.pfe().report().memory_requests, 1U);
}

TEST_P(ModelMachineTest, FullBankStallsFurtherPosts) {
  auto* words = bed_.allocate<uint64_t>(Range::kSram);
  const Step post{.kind = Kind::kPost, .xtxn = XtxnKind::kWrite, .target = words, .size_bytes = 64};
  bed_.scripts.steps[1] = std::vector<Step>(100, post);
  bed_.scripts.steps[2] = {post, {.kind = Kind::kInstruction}, {.kind = Kind::kNote}};
  bed_.arrive(1, 64, 1);
  bed_.core.run_until(Instant(nanoseconds(100)));
  bed_.arrive(2, 64, 2);
  bed_.run();
  // 100 writes of 8 cycles keep the bank busy until 835 ns. Its queue holds 512 cycles, so a
  // request that would arrive at 135 ns waits 188 ns in the crossbar. In burst it waits a few ns
  // less, since reservations have no order within a slot.
  EXPECT_GT(bed_.note_ns(0), 100 + 100);
  EXPECT_LE(bed_.note_ns(0), 100 + 188);
}

/// Returns a packet with lanes 0 … count - 1, whose gradients begin at its second word.
std::vector<std::byte> gradients_packet(uint8_t script, uint32_t count) {
  std::vector<std::byte> bytes(4 + count * 4);
  bytes[0] = std::byte{script};
  for (uint32_t i = 0; i < count; i++) store_be(&bytes[4 + i * 4], i + 1);
  return bytes;
}

TEST_P(ModelMachineTest, AddLoopMatchesThePapersChunkLoop) {
  auto* lanes = bed_.allocate<int32_t>(Range::kSram, 64);
  bed_.scripts.steps[1] = {{.kind = Kind::kAdd, .count = 64, .target = lanes},
                           {.kind = Kind::kNote}};
  const auto packet = gradients_packet(1, 64);
  bed_.pfe().arrive(packet, static_cast<uint32_t>(packet.size()), Endpoint::ipv4(1, 1));
  bed_.run();
  // The head holds 192 - 42 - 4 = 146 bytes of gradients: enough for two turns of 16 without a tail
  // read. Two more turns need one read each: 64 bytes are 18 left from the head and 46 of a chunk.
  // A turn: 16 + 3 instructions, an add of 32 cycles. 4 x (190 + 70 + 32) + 2 x 500.
  EXPECT_EQ(bed_.note_ns(0), 4 * 292 + 2 * 500);
  for (int32_t i = 0; i < 64; i++) ASSERT_EQ(lanes[i], i + 1);
  const Report report = bed_.pfe().report();
  EXPECT_EQ(report.gradients, 64U);
  EXPECT_DOUBLE_EQ(report.instructions_per_gradient, 19.0 / 16);
  EXPECT_EQ(report.adding.parts_mean[LatencyPart::kTail], nanoseconds(1000));
  EXPECT_EQ(report.adding.parts_mean.sum(), report.adding.mean);
}

TEST_P(ModelMachineTest, ElidedPayloadTakesTheSameTimeAndWritesNothing) {
  auto* lanes = bed_.allocate<int32_t>(Range::kSram, 64);
  bed_.scripts.steps[1] = {{.kind = Kind::kAdd, .count = 64, .target = lanes},
                           {.kind = Kind::kNote},
                           {.kind = Kind::kFinish, .count = 64, .target = lanes},
                           {.kind = Kind::kSend, .count = 256, .target = lanes}};
  lanes[5] = 77;
  const auto packet = gradients_packet(1, 64);
  bed_.pfe().arrive(std::span(packet).first(4), static_cast<uint32_t>(packet.size()),
                    Endpoint::ipv4(1, 1));
  bed_.run();
  EXPECT_EQ(bed_.note_ns(0), 4 * 292 + 2 * 500);
  EXPECT_EQ(lanes[5], 77);
  ASSERT_EQ(bed_.left.size(), 1U);
  EXPECT_EQ(bed_.left[0].size_bytes, 256U);
  EXPECT_EQ(bed_.left[0].stored.size(), kHeadBytes);
}

TEST_P(ModelMachineTest, ElidedPayloadStaysElidedBesideOthers) {
  auto* whole = bed_.allocate<int32_t>(Range::kSram, 64);
  auto* elided = bed_.allocate<int32_t>(Range::kSram, 64);
  const auto add_and_send = [](int32_t* lanes) -> std::vector<Step> {
    return {{.kind = Kind::kAdd, .count = 64, .target = lanes},
            {.kind = Kind::kFinish, .count = 64, .target = lanes},
            {.kind = Kind::kSend, .count = 256, .target = lanes}};
  };
  bed_.scripts.steps[1] = add_and_send(whole);
  bed_.scripts.steps[2] = add_and_send(elided);
  elided[5] = 77;
  for (const uint8_t script : std::vector<uint8_t>{1, 2, 1}) {
    const auto packet = gradients_packet(script, 64);
    const size_t stored_bytes = script == 1 ? packet.size() : 4;
    bed_.pfe().arrive(std::span(packet).first(stored_bytes), static_cast<uint32_t>(packet.size()),
                      Endpoint::ipv4(1, 1));
    bed_.run();
    std::fill_n(whole, 64, 0);  // It holds the bytes of a result.
  }
  EXPECT_EQ(elided[5], 77);
  ASSERT_EQ(bed_.left.size(), 3U);
  EXPECT_EQ(bed_.left[1].stored.size(), kHeadBytes);
  for (const size_t sent : {0U, 2U}) {
    ASSERT_EQ(bed_.left[sent].stored.size(), 256U);
    for (uint32_t i = 0; i < 64; i++) {
      ASSERT_EQ(load_be<uint32_t>(&bed_.left[sent].stored[i * 4]), i + 1);
    }
  }
}

TEST_P(ModelMachineTest, ResultLoopWritesChunksOf256Bytes) {
  auto* lanes = bed_.allocate<int32_t>(Range::kSram, 128);
  std::iota(lanes, lanes + 128, 1);
  bed_.scripts.steps[1] = {{.kind = Kind::kFinish, .count = 128, .target = lanes},
                           {.kind = Kind::kNote},
                           {.kind = Kind::kSend, .count = 512, .target = lanes}};
  bed_.arrive(1);
  bed_.run();
  // Two turns: 10 instructions, then four reads of 64 bytes at four banks at once.
  EXPECT_EQ(bed_.note_ns(0), 2 * (100 + 78));
  ASSERT_EQ(bed_.left.size(), 1U);
  for (uint32_t i = 0; i < 128; i++) {
    ASSERT_EQ(load_be<uint32_t>(&bed_.left[0].stored[i * 4]), i + 1);
  }
}

TEST_P(ModelMachineTest, MoreThreadsThanPipelineStagesShareThePpe) {
  Parameters p = small_machine(GetParam());
  p.ppe_count = 1;
  p.threads_each = 8;
  p.instruction_cycles = 2;
  ScriptBed bed(p);
  bed.scripts.steps[1] = {{.kind = Kind::kInstruction, .count = 1000}};
  for (uint32_t i = 0; i < 8; i++) bed.arrive(1);
  bed.run();
  // Alone a thread would take 2000 cycles. 8000 instructions need 8000 issue slots. Some are lost
  // because slots are reserved in units of 655 ns.
  const Report report = bed.pfe().report();
  EXPECT_NEAR(static_cast<double>(in_nanoseconds(report.latency.max)), 8000, 1200);
  EXPECT_NEAR(report.resources[1].share, 1.0, 0.15);
  EXPECT_EQ(report.resources[1].name, "PPEs");
}

INSTANTIATE_TEST_SUITE_P(Both, ModelMachineTest,
                         ::testing::Values(Fidelity::kExact, Fidelity::kBurst),
                         [](const auto& param) {
                           return param.param == Fidelity::kExact ? "Exact" : "Burst";
                         });

TEST(ModelMachineExact, BankServesTwoThreadsInOrderOfArrival) {
  ScriptBed bed(small_machine(Fidelity::kExact));
  auto* lanes = bed.allocate<int32_t>(Range::kSram, 16);
  // Both add to the same 16 lanes; the second thread is one instruction behind.
  bed.scripts.steps[1] = {{.kind = Kind::kAdd, .count = 16, .target = lanes},
                          {.kind = Kind::kNote}};
  bed.scripts.steps[2] = {{.kind = Kind::kInstruction},
                          {.kind = Kind::kAdd, .count = 16, .target = lanes},
                          {.kind = Kind::kNote}};
  bed.arrive(2, 68, 2);
  bed.arrive(1, 68, 1);
  bed.run();
  ASSERT_EQ(bed.scripts.notes.size(), 2U);
  EXPECT_EQ(bed.scripts.notes[0].script, 1);
  EXPECT_EQ(bed.note_ns(0), 190 + 70 + 32);
  EXPECT_EQ(bed.note_ns(1), 200 + 70 + 32 + 22);  // Arrives 10 ns into the other's 32.
  EXPECT_EQ(bed.pfe().report().bank_queued, nanoseconds(22));
}

constexpr microcode::Instruction kOneRead{"one_read", {.lmem_reads = 1}};

/// A program whose instruction reads more of the head than its budget allows, if a packet's first
/// byte is 1.
struct Greedy {
  static constexpr const char* kName = "greedy";

  template <microcode::Machine M>
  static microcode::Thread read_head(M& m) {
    m.instruction(kOneRead);
    const auto head = m.head();
    const bool reads_on = head.read(0, 8)[0] == std::byte{1};
    if (reads_on) static_cast<void>(head.read(8, 1));
    m.drop(0);
    co_return;
  }
  static void begin_burst() {}
  template <microcode::Machine M>
  static void process(M& m) {
    read_head(m);
  }
  template <microcode::Machine M>
  static void run_timers(M&, Instant) {}
  [[nodiscard]] static Instant next_due() { return Instant::never(); }
};

class NoSink final : public PfeSink {
  void send(std::span<const std::byte>, uint32_t, std::span<const Endpoint>) override {}
};

/// Runs the program on one packet. @return the reads of its instruction.
uint32_t reads_of_greedy(std::byte first) {
  EventCore core;
  auto memory = *memory::SharedMemory::create({});
  NoSink sink;
  Pfe<Greedy> pfe(core, small_machine(Fidelity::kBurst), memory, Greedy(), sink);
  std::vector<std::byte> packet(64);
  packet[0] = first;
  pfe.arrive(packet, 64, Endpoint::ipv4(1, 1));
  while (core.run_next()) {
  }
  return pfe.accesses().instructions().at(0).most.lmem_reads;
}

TEST(ModelMachineAccounting, InstructionAboveItsBudgetStopsTheRun) {
  EXPECT_EQ(reads_of_greedy(std::byte{0}), 1U);
  EXPECT_DEATH(reads_of_greedy(std::byte{1}),
               "instruction 'one_read' of program 'greedy' at "
               "tests/engine/model/model_machine_test.cc:[0-9]+ makes 2 local memory reads; its "
               "budget is 1");
}

/// A program that turns the bytes of each packet's tail into their complement.
struct Complement {
  static constexpr const char* kName = "complement";

  template <microcode::Machine M>
  static microcode::Thread change(M& m) {
    std::array<std::byte, microcode::kTailChunkBytes> chunk;
    for (uint32_t at = 0;; at += microcode::kTailChunkBytes) {
      const uint32_t count = co_await m.read_tail(at, chunk);
      if (count == 0) break;
      m.instruction(kOneRead);
      for (std::byte& byte : chunk) byte = ~byte;
      co_await m.write_tail(at, std::span(chunk).first(count));
    }
    m.forward();
  }
  static void begin_burst() {}
  template <microcode::Machine M>
  static void process(M& m) {
    change(m);
  }
  template <microcode::Machine M>
  static void run_timers(M&, Instant) {}
  [[nodiscard]] static Instant next_due() { return Instant::never(); }
};

class KeepingSink final : public PfeSink {
 public:
  void send(std::span<const std::byte> stored, uint32_t, std::span<const Endpoint>) override {
    sent.emplace_back(stored.begin(), stored.end());
  }
  std::vector<std::vector<std::byte>> sent;
};

TEST(ModelMachineTail, EachChunkCostsAReadAndAWriteOfThePacketBuffer) {
  for (const Fidelity fidelity : {Fidelity::kExact, Fidelity::kBurst}) {
    EventCore core;
    auto memory = *memory::SharedMemory::create({});
    KeepingSink sink;
    Pfe<Complement> pfe(core, small_machine(fidelity), memory, Complement(), sink);
    std::vector<std::byte> packet(kHeadBytes + 70, std::byte{0x0f});
    pfe.arrive(packet, kHeadBytes + 70, Endpoint::ipv4(1, 1), 1, PacketLayer::kFrame);
    while (core.run_next()) {
    }
    std::fill(packet.begin() + kHeadBytes, packet.end(), std::byte{0xf0});
    EXPECT_EQ(sink.sent, std::vector<std::vector<std::byte>>{packet});
    // Two chunks, and a read that finds the tail's end: five times 500 ns, and two instructions.
    EXPECT_EQ(pfe.report().latency.mean, nanoseconds(5 * 500 + 2 * 10));
    EXPECT_EQ(pfe.report().latency.parts_mean[LatencyPart::kTail], nanoseconds(5 * 500));
  }
}

TEST(ModelMachineAccounting, CodeBehindAReplyHasNoPriceUntilTheNextMark) {
  ScriptBed bed(small_machine(Fidelity::kBurst));
  auto* word = bed.allocate<uint64_t>(Range::kSram);
  bed.scripts.steps[1] = {
      {.kind = Kind::kInstruction},          {.kind = Kind::kWait, .target = word},
      {.kind = Kind::kPost, .target = word}, {.kind = Kind::kPost, .target = word},
      {.kind = Kind::kInstruction},          {.kind = Kind::kPost, .target = word}};
  bed.arrive(1);
  bed.arrive(1);
  bed.run();
  const auto& accesses = bed.pfe().accesses();
  ASSERT_EQ(accesses.unpriced().size(), 1U);
  EXPECT_STREQ(accesses.unpriced()[0].after.mark, "step");
  EXPECT_STREQ(accesses.unpriced()[0].after.reply, "read");
  EXPECT_EQ(accesses.unpriced()[0].executed, 2U);
  EXPECT_EQ(accesses.unpriced()[0].most.xtxns, 2U);
  EXPECT_EQ(accesses.instructions()[0].most.xtxns, 1U);
}

}  // namespace
}  // namespace tributary::engine
