// SPDX-License-Identifier: Apache-2.0
// Method: scripts of a few steps on the small machine, with every event and time worked out by
// hand. Then random scripts, to check that a trace changes nothing.
#include <gtest/gtest.h>

#include <string>

#include "base/prng.h"
#include "base/trace.h"
#include "engine/model/trace_words.h"
#include "tests/engine/model/script_program.h"
#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

using memory::Range;
using microcode::XtxnKind;
using testing::ScriptBed;
using testing::Scripts;
using testing::small_machine;
using testing::Step;
using Kind = testing::Step::Kind;

class Kept final : public TraceSink {
 public:
  void on_event(const TraceEvent& event) override { events.push_back(event); }
  /// Returns lines such as "100 request read", with the time in nanoseconds first.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const TraceEvent& event : events) {
      lines.push_back(std::to_string(in_nanoseconds(event.at.since_start())) + " " +
                      to_string(event.kind) + " " + event.what);
    }
    return lines;
  }
  std::vector<TraceEvent> events;
};

/// Counts its calls, and names one address.
class Words final : public TraceWords {
 public:
  [[nodiscard]] TraceWord message(std::span<const std::byte> stored, uint32_t) const override {
    return {.name = "script", .fields = {{"script", std::to_integer<uint8_t>(stored[0])}}};
  }
  [[nodiscard]] TraceWord target(const void* target) const override {
    if (target != word) return {};
    return {.name = "the word", .fields = {{"holds", *word}}};
  }
  [[nodiscard]] std::string drop_reason(uint32_t reason) const override {
    return "reason " + std::to_string(reason);
  }
  const uint64_t* word = nullptr;
};

class TraceTest : public ::testing::TestWithParam<Fidelity> {};

TEST_P(TraceTest, TracesEachStepOfAPacket) {
  ScriptBed bed(small_machine(GetParam()));
  Kept kept;
  Words words;
  words.word = bed.allocate<uint64_t>(Range::kSram);
  bed.pfe().set_trace(Tracer(kept, "pfe"), words);
  void* const word = const_cast<uint64_t*>(words.word);
  bed.scripts.steps[1] = {{.kind = Kind::kInstruction, .count = 2},
                          {.kind = Kind::kWait, .xtxn = XtxnKind::kRead, .target = word},
                          {.kind = Kind::kSend, .count = 8, .target = word}};
  bed.arrive(1);
  bed.run();
  // Two instructions of 10 ns; the read takes SRAM's 70 ns and one cycle of its bank.
  EXPECT_EQ(kept.lines(),
            (std::vector<std::string>{"0 arrive script", "0 thread packet", "0 instruction step",
                                      "10 instruction step", "20 request read", "91 reply read",
                                      "91 end sends 1", "91 send script"}));
  for (const TraceEvent& event : kept.events) {
    EXPECT_EQ(event.node, "pfe");
    EXPECT_EQ(event.packet, 1U);
  }
  EXPECT_EQ(*kept.events[0].find("bytes"), TraceValue(uint64_t{64}));
  EXPECT_EQ(*kept.events[4].find("target"), TraceValue(std::string("the word")));
  EXPECT_EQ(*kept.events[4].find("holds"), TraceValue(uint64_t{0}));
  EXPECT_EQ(*kept.events[5].find("waited"), TraceValue(nanoseconds(71)));
  EXPECT_EQ(*kept.events[5].find("sram"), TraceValue(nanoseconds(71)));
  EXPECT_EQ(*kept.events[6].find("instructions"), TraceValue(uint64_t{2}));
}

TEST_P(TraceTest, TracesPostsDropsAndRefusals) {
  Parameters p = small_machine(GetParam());
  p.packet_buffer_packets = 1;
  ScriptBed bed(p);
  Kept kept;
  const Words words;
  bed.pfe().set_trace(Tracer(kept, "pfe"), words);
  auto* counter = bed.allocate<uint64_t>(Range::kSram);
  bed.scripts.steps[1] = {
      {.kind = Kind::kPost, .xtxn = XtxnKind::kCounterIncrement, .target = counter},
      {.kind = Kind::kDrop}};
  bed.arrive(1);
  bed.arrive(1);                          // No room.
  bed.arrive(1, p.packet_bytes_max + 1);  // Too long.
  bed.run();
  EXPECT_EQ(kept.lines(), (std::vector<std::string>{"0 arrive script", "0 drop packet buffer full",
                                                    "0 drop too long", "0 thread packet",
                                                    "0 request counter increment",
                                                    "0 drop reason 0", "0 end dropped"}));
  EXPECT_EQ(kept.events[1].packet, 2U);
  EXPECT_EQ(kept.events[2].packet, 3U);
  EXPECT_EQ(*kept.events[4].find("wants_reply"), TraceValue(false));
}

TEST_P(TraceTest, TracesTimersAndPacketsHeldForOrder) {
  Scripts scripts;
  scripts.timer_due = Instant(nanoseconds(5));
  scripts.timer_steps = {{.kind = Kind::kInstruction}};
  ScriptBed bed(small_machine(GetParam()), scripts);
  Kept kept;
  const Words words;
  bed.pfe().set_trace(Tracer(kept, "pfe"), words);
  auto* payload = bed.allocate<uint64_t>(Range::kSram);
  const Step send{.kind = Kind::kSend, .count = 8, .target = payload};
  bed.scripts.steps[1] = {{.kind = Kind::kInstruction, .count = 3}, send};
  bed.scripts.steps[2] = {send};
  bed.arrive(1);
  bed.arrive(2);  // Done at once; waits for the first.
  bed.run();
  EXPECT_EQ(kept.lines(),
            (std::vector<std::string>{
                "0 arrive script", "0 arrive script", "0 thread packet", "0 instruction step",
                "10 instruction step", "20 instruction step", "0 thread packet", "0 end sends 1",
                "0 hold reorder engine", "5 thread timer", "5 instruction step", "15 end done",
                "30 end sends 1", "30 send script", "30 send script"}));
  EXPECT_EQ(kept.events[9].packet, 0U);
  EXPECT_EQ(kept.events[8].packet, 2U);
  EXPECT_EQ(*kept.events[14].find("inside"), TraceValue(nanoseconds(30)));
}

TEST_P(TraceTest, SnapshotShowsThreadsAndQueues) {
  Parameters p = small_machine(GetParam());
  p.ppe_count = 1;
  ScriptBed bed(p);  // One PPE with two threads.
  Words words;
  words.word = bed.allocate<uint64_t>(Range::kDram);
  void* const word = const_cast<uint64_t*>(words.word);
  bed.scripts.steps[1] = {{.kind = Kind::kWait, .xtxn = XtxnKind::kRead, .target = word}};
  bed.scripts.steps[2] = {{.kind = Kind::kInstruction, .count = 9}};
  bed.arrive(1);
  bed.arrive(2);
  bed.arrive(2);
  bed.core.run_until(Instant(nanoseconds(50)));
  const PfeView view = bed.pfe().view(bed.core.now(), words);
  EXPECT_EQ(view.at, Instant(nanoseconds(50)));
  EXPECT_EQ(view.thread_count, 2U);
  ASSERT_EQ(view.threads.size(), 2U);
  EXPECT_EQ(view.threads[0].state, ThreadState::kWaiting);
  EXPECT_EQ(view.threads[0].packet, 1U);
  EXPECT_EQ(view.threads[0].waits_for, "read");
  EXPECT_EQ(view.threads[0].target, "the word");
  EXPECT_EQ(view.threads[0].since, Instant());
  EXPECT_EQ(view.threads[1].state, ThreadState::kExecuting);
  EXPECT_EQ(view.threads[1].packet, 2U);
  EXPECT_EQ(view.threads[1].place, (PpeThread{0, 1}));
  ASSERT_EQ(view.waiting.size(), 1U);
  EXPECT_EQ(view.waiting[0].packet, 3U);
  EXPECT_FALSE(view.waiting[0].in_ingress);
  EXPECT_EQ(view.banks.size(), p.rmw_engine_count);
  bed.run();
  EXPECT_TRUE(bed.pfe().view(bed.core.now(), words).threads.empty());
}

TEST_P(TraceTest, SnapshotShowsTheBacklogOfBanks) {
  ScriptBed bed(small_machine(GetParam()));
  const Words words;
  auto* lanes = bed.allocate<int32_t>(Range::kSram);
  bed.scripts.steps[1] = {
      {.kind = Kind::kWait, .xtxn = XtxnKind::kRead, .target = lanes, .size_bytes = 64}};
  for (uint32_t i = 0; i < 3; i++) bed.arrive(1);
  bed.core.run_until(Instant());
  // Three reads of 64 bytes at one bank: 8 cycles each. An exact request takes the crossbar's time
  // to reach the bank, and counts as queued there meanwhile.
  Duration backlog;
  for (const BankView& bank : bed.pfe().view(Instant(), words).banks) backlog += bank.backlog;
  const Duration on_the_way =
      GetParam() == Fidelity::kExact ? bed.pfe().parameters().crossbar_latency : Duration();
  EXPECT_EQ(backlog, nanoseconds(24) + on_the_way);
  bed.run();
  for (const BankView& bank : bed.pfe().view(bed.core.now(), words).banks) {
    EXPECT_EQ(bank.backlog, Duration());
  }
}

/// Returns the outcome of a bed with these scripts: departure times and notes.
std::vector<int64_t> outcome_of(Fidelity fidelity, uint64_t seed, TraceSink* sink) {
  Prng prng(seed);
  ScriptBed bed(small_machine(fidelity));
  Words words;
  auto* word = bed.allocate<uint64_t>(Range::kDram, 1024);
  words.word = word;
  for (uint8_t script = 1; script <= 8; script++) {
    for (uint32_t i = prng.below(6); i > 0; i--) {
      Step step{.kind = static_cast<Kind>(prng.below(5)), .count = 1 + prng.below(4)};
      step.target = word + prng.below(1000);
      step.xtxn = prng.below(2) == 0 ? XtxnKind::kRead : XtxnKind::kHashLookup;
      bed.scripts.steps[script].push_back(step);
    }
    bed.scripts.steps[script].push_back({.kind = Kind::kSend, .count = 8, .target = word});
  }
  if (sink != nullptr) bed.pfe().set_trace(Tracer(*sink, "pfe"), words);
  for (uint32_t i = 0; i < 40; i++) {
    bed.arrive(static_cast<uint8_t>(1 + prng.below(8)), 64, prng.below(3));
    bed.core.run_until(bed.core.now() + nanoseconds(prng.below(60)));
    if (sink != nullptr) (void)bed.pfe().view(bed.core.now(), words);
  }
  bed.run();
  std::vector<int64_t> outcome;
  for (const auto& left : bed.left) outcome.push_back(left.at.since_start().ticks());
  for (const auto& note : bed.scripts.notes) outcome.push_back(note.at.since_start().ticks());
  return outcome;
}

TEST_P(TraceTest, TracingChangesNoResult) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  for (uint32_t run = 0; run < 50; run++) {
    const uint64_t run_seed = prng.any_u64();
    Kept kept;
    const auto traced = outcome_of(GetParam(), run_seed, &kept);
    EXPECT_EQ(traced, outcome_of(GetParam(), run_seed, nullptr)) << "run " << run;
    EXPECT_GT(kept.events.size(), traced.size());
    // Times of one packet never fall, except where its thread runs ahead of the event core.
    std::map<uint64_t, Instant> last;
    for (const TraceEvent& event : kept.events) {
      EXPECT_GE(event.at, last[event.packet]) << run;
      last[event.packet] = event.at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, TraceTest, ::testing::Values(Fidelity::kExact, Fidelity::kBurst),
                         [](const auto& param) {
                           return param.param == Fidelity::kExact ? "Exact" : "Burst";
                         });

}  // namespace
}  // namespace tributary::engine
