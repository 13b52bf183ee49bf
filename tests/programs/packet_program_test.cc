// SPDX-License-Identifier: Apache-2.0
// Method: a program that counts packets in one word, right and wrong. Over captures both machines
// report the same. Under random interleavings the right one counts every packet, and the wrong one,
// which is right if its threads run one after another, is caught.
#include "programs/packet_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "memory/xtxn.h"
#include "tests/programs/captures.h"
#include "tests/programs/interleaved_run.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"
#include "wire/headers.h"

namespace tributary::programs {
namespace {

constexpr microcode::Instruction kCount{"count", {.register_reads = 1}};

struct CounterBase {
  static constexpr std::array kKeys{KeySpec{.name = "step",
                                            .type = KeyType::kUint,
                                            .help = "Added for each packet",
                                            .default_text = "1",
                                            .min = 1,
                                            .max = 100}};
  static Result<uint64_t*> allocate(memory::SharedMemory& memory) {
    return memory.allocate(memory::Range::kSram, sizeof(uint64_t), sizeof(uint64_t))
        .map([&](memory::Address at) { return memory.at_as<uint64_t>(at); });
  }
  [[nodiscard]] nlohmann::ordered_json details() const { return {{"count", *count}}; }

  uint64_t* count = nullptr;
  uint64_t step = 1;
};

struct RightCounter : CounterBase {
  static constexpr std::string_view kName = "right";
  static constexpr std::string_view kSummary = "Counts packets";
  static Result<std::unique_ptr<RightCounter>> create(memory::SharedMemory& memory,
                                                      const KeyValues& settings) {
    return allocate(memory).map([&](uint64_t* word) {
      auto state = std::make_unique<RightCounter>();
      state->count = word;
      state->step = settings.uint("step");
      return state;
    });
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, RightCounter& state) {
    m.instruction(kCount);
    co_await memory::xtxn_fetch_and_add(m, *state.count, state.step);
    m.forward();
  }
};

/// Reads the word and writes it back in two XTXNs, and drops short packets.
struct WrongCounter : CounterBase {
  static inline uint32_t write_line = 0;  ///< Number of the source line that has no instruction.
  static constexpr std::string_view kName = "wrong";
  static constexpr std::string_view kSummary = "Loses packets";
  static Result<std::unique_ptr<WrongCounter>> create(memory::SharedMemory& memory,
                                                      const KeyValues&) {
    return allocate(memory).map([&](uint64_t* word) {
      auto state = std::make_unique<WrongCounter>();
      state->count = word;
      return state;
    });
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, WrongCounter& state) {
    m.instruction(kCount);
    const uint64_t before = co_await memory::xtxn_read(m, *state.count);
    co_await memory::xtxn_masked_write(m, *state.count, before + 1, ~uint64_t{0});
    state.write_line = __LINE__ - 1;
    if (m.packet_size() < 60) {
      m.drop(0);
    } else {
      m.forward();
    }
  }
  [[nodiscard]] std::vector<OutcomeCount> outcomes() const { return {{"counted", {*count, 0}}}; }
};

/// Issues 40 XTXNs in one coroutine. It keeps next to nothing across them.
struct Busy : CounterBase {
  static constexpr std::string_view kName = "busy";
  static constexpr std::string_view kSummary = "Issues many XTXNs";
  static Result<std::unique_ptr<Busy>> create(memory::SharedMemory& memory, const KeyValues&) {
    return allocate(memory).map([&](uint64_t* word) {
      auto state = std::make_unique<Busy>();
      state->count = word;
      return state;
    });
  }
  template <microcode::Machine M, size_t... kAddends>
  static microcode::Subroutine<void, M> add(M& m, uint64_t& word,
                                            std::index_sequence<kAddends...>) {
    ((co_await memory::xtxn_fetch_and_add(m, word, uint64_t{kAddends})), ...);
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Busy& state) {
    m.instruction(kCount);
    co_await add(m, *state.count, std::make_index_sequence<40>());
    m.forward();
  }
};

/// Reads the packet's head in an instruction that declares no such read.
struct Greedy : CounterBase {
  static constexpr std::string_view kName = "greedy";
  static constexpr std::string_view kSummary = "Exceeds a budget";
  static Result<std::unique_ptr<Greedy>> create(memory::SharedMemory&, const KeyValues&) {
    return std::make_unique<Greedy>();
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Greedy&) {
    m.instruction(kCount);
    const auto ether = m.head().template view<wire::EthernetHeader>(0);
    if (ether) static_cast<void>(ether->template get<wire::EthernetHeader::EtherType>());
    m.forward();
    co_return;
  }
  [[nodiscard]] nlohmann::ordered_json details() const { return nlohmann::ordered_json::object(); }
};

/// Forwards each packet `step` - 1 times.
struct Ender : CounterBase {
  static constexpr std::string_view kName = "ender";
  static constexpr std::string_view kSummary = "Ends packets never, once or twice";
  static Result<std::unique_ptr<Ender>> create(memory::SharedMemory&, const KeyValues& settings) {
    auto state = std::make_unique<Ender>();
    state->step = settings.uint("step");
    return state;
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Ender& state) {
    for (uint64_t i = 1; i < state.step; i++) m.forward();
    co_return;
  }
  [[nodiscard]] nlohmann::ordered_json details() const { return nlohmann::ordered_json::object(); }
};

constexpr microcode::Instruction kMark{"mark", {.lmem_writes = 2}};

/// Writes a mark over the source address of each frame, in one access more than it declares if the
/// setting is 2.
struct Marker : CounterBase {
  static constexpr std::string_view kName = "marker";
  static constexpr std::string_view kSummary = "Changes source addresses";
  static Result<std::unique_ptr<Marker>> create(memory::SharedMemory&, const KeyValues& settings) {
    auto state = std::make_unique<Marker>();
    state->step = settings.uint("step");
    return state;
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Marker& state) {
    m.instruction(kMark);
    constexpr std::array<std::byte, 3> kHalf{std::byte{7}, std::byte{8}, std::byte{9}};
    if (m.head().size() >= kSourceAt + 2 * kHalf.size()) {
      m.write_head(kSourceAt, kHalf);
      m.write_head(kSourceAt + kHalf.size(), kHalf);
      if (state.step == 2) m.write_head(0, kHalf);
    }
    m.forward();
    co_return;
  }
  static constexpr uint32_t kSourceAt = 6;
  [[nodiscard]] nlohmann::ordered_json details() const { return nlohmann::ordered_json::object(); }
};

// The shapes of optional members: right ones, none, and ones that nobody would call.
struct NoMembers {};
struct GoodMembers {
  template <microcode::Machine M>
  static microcode::Thread visit(M&, GoodMembers&, timers::TimerSlice) {
    co_return;
  }
  [[nodiscard]] nlohmann::ordered_json details() const { return {}; }
  [[nodiscard]] std::vector<OutcomeCount> outcomes() const { return {}; }
  timers::PeriodicTimers timers;
};
struct NotConst {
  nlohmann::ordered_json details() { return {}; }
  std::vector<OutcomeCount> outcomes() { return {}; }
};
struct OtherResults {
  void details() const {}
  [[nodiscard]] int outcomes() const { return 0; }
};
struct PrivateMembers {
 private:
  [[nodiscard]] nlohmann::ordered_json details() const { return {}; }
  [[nodiscard]] std::vector<OutcomeCount> outcomes() const { return {}; }
};
struct TimersAlone {
  timers::PeriodicTimers timers;
};
struct VisitAlone {
  template <microcode::Machine M>
  static microcode::Thread visit(M&, VisitAlone&, timers::TimerSlice) {
    co_return;
  }
};
struct VisitOfRecords {
  template <microcode::Machine M>
  static microcode::Thread visit(M&, VisitOfRecords&, uint32_t, uint32_t) {
    co_return;
  }
  timers::PeriodicTimers timers;
};
struct OtherTimers {
  template <microcode::Machine M>
  static microcode::Thread visit(M&, OtherTimers&, timers::TimerSlice) {
    co_return;
  }
  std::unique_ptr<timers::PeriodicTimers> timers;
};
struct Inherits : NotConst {};

static_assert(HasGoodDetails<NoMembers> && HasGoodOutcomes<NoMembers> && HasGoodTimers<NoMembers>);
static_assert(HasGoodDetails<GoodMembers> && HasGoodOutcomes<GoodMembers> &&
              HasGoodTimers<GoodMembers> && HasTimers<GoodMembers>);
static_assert(!HasGoodDetails<NotConst> && !HasGoodOutcomes<NotConst> && HasGoodTimers<NotConst>);
static_assert(!HasGoodDetails<Inherits> && !HasGoodOutcomes<Inherits>);
static_assert(!HasGoodDetails<OtherResults> && !HasGoodOutcomes<OtherResults>);
static_assert(!HasGoodDetails<PrivateMembers> && !HasGoodOutcomes<PrivateMembers>);
static_assert(!HasGoodTimers<TimersAlone> && !HasGoodTimers<VisitAlone>);
static_assert(!HasGoodTimers<VisitOfRecords> && !HasGoodTimers<OtherTimers>);
// The programs of this test, and one that inherits details().
static_assert(HasGoodDetails<RightCounter> && HasGoodOutcomes<WrongCounter>);

static_assert(PacketProgram<RightCounter>::kCoresMax == UINT32_MAX);
struct OnOneCore : RightCounter {
  static constexpr int kCoresMax = 1;
  static Result<std::unique_ptr<OnOneCore>> create(memory::SharedMemory&, const KeyValues&) {
    return std::make_unique<OnOneCore>();
  }
};
static_assert(PacketProgram<OnOneCore>::kCoresMax == 1);

TEST(PacketProgram, ForwardsChangedHeadsOnBothMachines) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap", out = scratch.path() / "out.pcap";
  std::vector<testing::TestPacket> packets{
      {1'000, testing::ipv4_frame(60)}, {2'000, testing::ipv4_frame(1'000)}, {3'000, {}}};
  testing::write_capture(in, packets);
  for (testing::TestPacket& packet : packets) {
    for (uint32_t i = 0; i < 6 && packet.bytes.size() >= 12; i++)
      packet.bytes[Marker::kSourceAt + i] = static_cast<std::byte>(7 + i % 3);
  }
  const CaptureProgram program = capture_program_of<Marker>();
  for (const bool on_model : {false, true}) {
    RunRequest request{.in = in, .out = out};
    if (on_model) request.model = engine::Parameters();
    const auto end = program.run(*program.settings().read({}, ""), request);
    ASSERT_TRUE(end);
    EXPECT_EQ(testing::read_capture(out), packets);
    if (!on_model) continue;
    ASSERT_EQ(end->report.model->accounting.instructions.size(), 1U);
    EXPECT_EQ(end->report.model->accounting.instructions[0].most,
              (microcode::AccessCount{.lmem_writes = 2}));
  }
}

TEST(PacketProgram, EachPacketMustEndOnce) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in, {{1'000, testing::ipv4_frame(60)}, {2'000, testing::ipv4_frame(60)}});
  const CaptureProgram program = capture_program_of<Ender>();
  const auto problem_of = [&](const std::string& setting, bool on_model) {
    RunRequest request{.in = in};
    if (on_model) request.model = engine::Parameters();
    const auto end = program.run(*program.settings().parse(setting), request);
    return end->problem ? end->problem->text : "";
  };
  for (const bool on_model : {false, true}) {
    EXPECT_EQ(problem_of("step=2", on_model), "");
    EXPECT_THAT(
        problem_of("step=1", on_model),
        ::testing::HasSubstr("of 2 packets it forwarded 0 and dropped 0, and 2 did not end"));
  }
  EXPECT_THAT(problem_of("step=3", false),
              ::testing::HasSubstr("of 2 packets it forwarded 4 and dropped 0, and 2 did not end"));
  EXPECT_DEATH(problem_of("step=3", true), "ends a packet once");
}

TEST(PacketProgramDeathTest, WritesToTheHeadHaveABudget) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in, {{1'000, testing::ipv4_frame(60)}});
  const CaptureProgram program = capture_program_of<Marker>();
  RunRequest request{.in = in};
  request.model = engine::Parameters();
  EXPECT_DEATH(static_cast<void>(program.run(*program.settings().parse("step=2"), request)),
               "makes 3 local memory writes; its budget is 2");
}

TEST(PacketProgramDeathTest, BudgetErrorNamesTheProgram) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in, {{1'000, testing::ipv4_frame(60)}});
  const CaptureProgram program = capture_program_of<Greedy>();
  const auto settings = program.settings().read({}, "");
  ASSERT_TRUE(settings);
  RunRequest request{.in = in};
  request.model = engine::Parameters();
  EXPECT_DEATH(static_cast<void>(program.run(*settings, request)),
               "instruction 'count' of program 'greedy'");
}

// The compiler keeps each request and reply in the coroutine's frame, which is no state of a
// thread.
TEST(PacketProgram, MayIssueManyXtxns) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in, {{1'000, testing::ipv4_frame(60)}, {2'000, testing::ipv4_frame(60)}});
  const CaptureProgram program = capture_program_of<Busy>();
  const auto settings = program.settings().read({}, "");
  ASSERT_TRUE(settings);
  for (const bool on_model : {false, true}) {
    RunRequest request{.in = in};
    if (on_model) request.model = engine::Parameters();
    const auto end = program.run(*settings, request);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->report.details["count"], 2 * (39 * 40 / 2));
  }
}

TEST(PacketProgram, ReportsTheSameOnBothMachines) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap", out = scratch.path() / "out.pcap";
  const std::vector<testing::TestPacket> packets{
      {1'000, testing::ipv4_frame(60)}, {2'000, testing::ipv4_frame(1'000)}, {3'000, {}}};
  testing::write_capture(in, packets);
  const CaptureProgram program = capture_program_of<RightCounter>();
  EXPECT_EQ(program.name, "right");
  const auto settings = program.settings().parse("step=7");
  ASSERT_TRUE(settings);
  for (const bool on_model : {false, true}) {
    RunRequest request{.in = in, .out = out};
    if (on_model) request.model = engine::Parameters();
    const auto end = program.run(*settings, request);
    ASSERT_TRUE(end);
    EXPECT_FALSE(end->problem);
    EXPECT_EQ(testing::read_capture(out), packets);
    EXPECT_EQ(end->report.details["count"], 21);
    EXPECT_TRUE(end->report.outcomes.empty());
  }
}

TEST(PacketProgram, CountsDroppedPacketsAndReportsOutcomes) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in, {{1'000, testing::ipv4_frame(60)}, {2'000, {}}});
  const CaptureProgram program = capture_program_of<WrongCounter>();
  const auto end = program.run(*program.settings().read({}, ""), {.in = in});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->report.dropped, 1U);
  EXPECT_EQ(end->report.output.forwarded, 1U);
  ASSERT_EQ(end->report.outcomes.size(), 1U);
  EXPECT_EQ(end->report.outcomes[0].counter.packets, 2U);
}

TEST(PacketProgram, ModelNamesThePlaceOfCodeWithoutAPrice) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in, {{1'000, testing::ipv4_frame(60)}, {2'000, testing::ipv4_frame(60)}});
  const CaptureProgram program = capture_program_of<WrongCounter>();
  RunRequest request{.in = in};
  request.model = engine::Parameters();
  const auto end = program.run(*program.settings().read({}, ""), request);
  ASSERT_TRUE(end && end->report.model);
  const engine::Accounting& accounting = end->report.model->accounting;
  EXPECT_EQ(accounting.program, "wrong");
  ASSERT_EQ(accounting.instructions.size(), 1U);
  EXPECT_EQ(accounting.instructions[0].most.xtxns, 1U);
  // Its masked write has no instruction.
  ASSERT_EQ(accounting.unpriced.size(), 1U);
  const auto& row = accounting.unpriced[0];
  EXPECT_EQ(microcode::place_text(row.place),
            "tests/programs/packet_program_test.cc:" + std::to_string(WrongCounter::write_line));
  EXPECT_STREQ(row.after.mark, "count");
  EXPECT_STREQ(row.after.reply, "read");
  EXPECT_EQ(row.executed, 2U);
  EXPECT_EQ(row.most, (microcode::AccessCount{.xtxns = 1}));
}

TEST(InterleavedRun, SameSeedGivesSameOrder) {
  const std::vector<testing::Frame> frames{testing::ipv4_frame(60), testing::ipv4_frame(61),
                                           testing::ipv4_frame(62), testing::ipv4_frame(63)};
  const auto order_of = [&](uint64_t seed) {
    const auto program = testing::make_program<RightCounter>();
    return testing::run_interleaved(**program, frames, seed);
  };
  uint32_t other_orders = 0;
  for (uint64_t seed = 0; seed < 20; seed++) {
    ASSERT_EQ(order_of(seed), order_of(seed));
    if (order_of(seed) != frames) other_orders++;
  }
  EXPECT_GT(other_orders, 0U);
}

TEST(InterleavedRun, CatchesAReadAndAWriteThatAreNotOneTransaction) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  uint32_t caught = 0;
  for (uint32_t round = 0; round < 100; round++) {
    // More packets than the machine has threads.
    const std::vector<testing::Frame> frames(300, testing::ipv4_frame(60));
    const auto right = testing::make_program<RightCounter>("step=3");
    ASSERT_EQ(testing::run_interleaved(**right, frames, prng.any_u64()).size(), frames.size());
    ASSERT_EQ(*(*right)->state().count, 3 * frames.size());
    const auto wrong = testing::make_program<WrongCounter>();
    ASSERT_EQ(testing::run_interleaved(**wrong, frames, prng.any_u64()).size(), frames.size());
    if (*(*wrong)->state().count != frames.size()) caught++;
  }
  // Hundreds of threads meet in each round.
  EXPECT_EQ(caught, 100U);
}

TEST(InterleavedRun, RefusedSettingsAreAnError) {
  const auto program = testing::make_program<RightCounter>("step=0");
  ASSERT_FALSE(program);
  EXPECT_NE(program.error().text.find("allowed: a whole number from 1 to 100"), std::string::npos);
}

}  // namespace
}  // namespace tributary::programs
