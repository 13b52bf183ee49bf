// SPDX-License-Identifier: Apache-2.0
// Method: a program whose timer threads take longer than their period, over short captures on the
// modelled machine. The number of visits bounds the run.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>

#include "memory/xtxn.h"
#include "programs/packet_program.h"
#include "tests/programs/captures.h"
#include "tests/support/scratch_directory.h"
#include "timers/periodic_timers.h"

namespace tributary::programs {
namespace {

constexpr microcode::Instruction kCount{"count", {.register_reads = 1}};

/// Has two timer threads that are due more often than they end.
struct SlowTimers {
  static inline std::atomic<bool>* stop = nullptr;  ///< Not null: the third visit sets it.
  static constexpr std::string_view kName = "slow-timers";
  static constexpr std::string_view kSummary = "Visits its word for longer than its period";
  static constexpr std::array kKeys{KeySpec{.name = "unused",
                                            .type = KeyType::kUint,
                                            .help = "None",
                                            .default_text = "1",
                                            .min = 1,
                                            .max = 1}};
  static Result<std::unique_ptr<SlowTimers>> create(memory::SharedMemory& memory, const KeyValues&,
                                                    Instant start) {
    const auto made = timers::PeriodicTimers::create(
        {.thread_count = 2, .period = microseconds(2), .record_count = 2}, start);
    if (!made) return tl::unexpected(made.error());
    const auto word = memory.allocate(memory::Range::kSram, sizeof(uint64_t), sizeof(uint64_t));
    if (!word) return tl::unexpected(word.error());
    auto state = std::make_unique<SlowTimers>(*made);
    state->count = memory.at_as<uint64_t>(*word);
    return state;
  }
  explicit SlowTimers(const timers::PeriodicTimers& made) : timers(made) {}

  template <microcode::Machine M>
  static microcode::Thread process(M& m, SlowTimers&) {
    m.instruction(kCount);
    m.forward();
    co_return;
  }
  template <microcode::Machine M>
  static microcode::Thread visit(M& m, SlowTimers& state, timers::TimerSlice) {
    state.visits++;
    if (stop != nullptr && state.visits == 3) *stop = true;
    for (uint32_t i = 0; i < 200; i++) {
      m.instruction(kCount);
      co_await memory::xtxn_fetch_and_add(m, *state.count, uint64_t{1});
    }
  }
  [[nodiscard]] nlohmann::ordered_json details() const { return {{"visits", visits}}; }

  timers::PeriodicTimers timers;
  uint64_t* count = nullptr;
  uint64_t visits = 0;
};

// Two timer threads with a period of 2 us take more than 1 us each, so one is always at work or
// waits. The run would never be idle if timers went on.
TEST(OverlappingTimers, EndWithThePackets) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in, {{1'000, testing::ipv4_frame(60)},
                              {3'000, testing::ipv4_frame(60)},
                              {5'000, testing::ipv4_frame(60)}});
  const CaptureProgram program = capture_program_of<SlowTimers>();
  RunRequest request{.in = in};
  request.model = engine::Parameters();
  const auto end = program.run(*program.settings().read({}, ""), request);
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->problem);
  EXPECT_EQ(end->report.output.forwarded, 3U);
  EXPECT_GE(end->report.model->pfe.timer_threads, 2U);
  EXPECT_LE(end->report.details["visits"], 4);  // At 1, 2, 3 and 4 us, if none is late.
}

TEST(OverlappingTimers, StopInAGap) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  testing::write_capture(in,
                         {{1'000, testing::ipv4_frame(60)}, {20'000'000, testing::ipv4_frame(60)}});
  const CaptureProgram program = capture_program_of<SlowTimers>();
  std::atomic<bool> stop{false};
  SlowTimers::stop = &stop;
  RunRequest request{.in = in, .stop = &stop};
  request.model = engine::Parameters();
  const auto end = program.run(*program.settings().read({}, ""), request);
  SlowTimers::stop = nullptr;
  ASSERT_TRUE(end);
  EXPECT_TRUE(stop);
  EXPECT_EQ(end->report.output.forwarded, end->report.input.packets);
  EXPECT_LT(end->report.details["visits"], 10);  // Of 20,000 in 20 ms.
}

}  // namespace
}  // namespace tributary::programs
