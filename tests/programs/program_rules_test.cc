// SPDX-License-Identifier: Apache-2.0
// Method: one program breaks one rule for each value of its setting. Every machine that can see the
// mistake stops with the program, the rule and the line.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "memory/xtxn.h"
#include "programs/packet_program.h"
#include "tests/programs/captures.h"
#include "tests/programs/interleaved_run.h"
#include "tests/support/scratch_directory.h"

namespace tributary::programs {
namespace {

using microcode::Xtxn, microcode::XtxnKind;

constexpr microcode::Instruction kBegin{"begin", {.lmem_reads = 2, .lmem_writes = 2}};

enum Mistake : uint32_t {
  kNone,
  kForwardTwice,
  kReadPastHead,
  kWritePastHead,
  kPopTooMuch,
  kPushTooMuch,
  kReadTooMuchTail,
  kWritePastTail,
  kHugeXtxn,
  kEmptyXtxn,
  kNoTarget,
  kForgottenAwait,
  kForgottenCall,
  kThrow,
  kThrowInService,
  kRecurse,
  kForwardInVisit,
};

struct Breaker {
  static constexpr std::string_view kName = "breaker";
  static constexpr std::string_view kSummary = "Breaks a rule";
  static constexpr std::array kKeys{KeySpec{.name = "mistake",
                                            .type = KeyType::kUint,
                                            .help = "The rule",
                                            .default_text = "0",
                                            .min = 0,
                                            .max = 100}};
  static Result<std::unique_ptr<Breaker>> create(memory::SharedMemory&, const KeyValues& settings,
                                                 Instant start) {
    return timers::PeriodicTimers::create(
               {.thread_count = 1, .period = milliseconds(1), .record_count = 1}, start)
        .map([&](const timers::PeriodicTimers& made) {
          auto state = std::make_unique<Breaker>(made);
          state->mistake = static_cast<Mistake>(settings.uint("mistake"));
          return state;
        });
  }
  explicit Breaker(const timers::PeriodicTimers& made) : timers(made) {}

  template <microcode::Machine M>
  static microcode::Subroutine<void, M> recurse(M& m, Breaker& state, uint32_t depth) {
    if (depth > 0) co_await recurse(m, state, depth - 1);
    co_await memory::xtxn_fetch_and_add(m, state.word, uint64_t{1});
  }
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Breaker& state) {
    m.instruction(kBegin);
    std::array<std::byte, 65> chunk{};
    switch (state.mistake) {
      case kForwardTwice:
        m.forward();
        break;
      case kReadPastHead:
        static_cast<void>(m.head().read(m.head().size() - 1, 2));
        break;
      case kWritePastHead:
        m.write_head(m.head().size() - 1, std::span(chunk).first(2));
        break;
      case kPopTooMuch:
        m.pop_head(m.head().size() + 1);
        break;
      case kPushTooMuch:
        m.push_head(chunk);
        break;
      case kReadTooMuchTail:
        co_await m.read_tail(0, chunk);
        break;
      case kWritePastTail:
        co_await m.write_tail(100'000, std::span(chunk).first(2));
        break;
      case kHugeXtxn:
        co_await m.issue(Xtxn{XtxnKind::kRead, &state.word, 2049}, [] {});
        break;
      case kEmptyXtxn:
        m.post(Xtxn{XtxnKind::kWrite, &state.word, 0}, [] {});
        break;
      case kNoTarget:
        co_await m.issue(Xtxn{XtxnKind::kRead, nullptr, 8}, [] {});
        break;
      case kForgottenAwait:
        static_cast<void>(m.issue(Xtxn{XtxnKind::kRead, &state.word, 8}, [] {}));
        break;
      case kForgottenCall:
        static_cast<void>(recurse(m, state, 0));
        break;
      case kThrow:
        throw std::runtime_error("thrown in process");
      case kThrowInService:
        co_await m.issue(Xtxn{XtxnKind::kRead, &state.word, 8},
                         [&state] { throw_if(state.word == 0); });
        break;
      case kRecurse:
        co_await recurse(m, state, 9);
        break;
      default:
        break;
    }
    m.forward();
  }
  template <microcode::Machine M>
  static microcode::Thread visit(M& m, Breaker& state, timers::TimerSlice) {
    if (state.mistake == kForwardInVisit) m.forward();
    co_return;
  }
  static void throw_if(bool wanted) {
    if (wanted) throw std::runtime_error("thrown in a service");
  }

  timers::PeriodicTimers timers;
  Mistake mistake = kNone;
  uint64_t word = 0;
};

const std::string kPlace = "bug in program 'breaker' at .*program_rules_test.cc:[0-9]+";

class ProgramRulesDeathTest : public ::testing::Test {
 protected:
  ProgramRulesDeathTest() {
    testing::write_capture(
        in_, {{1'000, testing::ipv4_frame(300)}, {9'000'000, testing::ipv4_frame(300)}});
  }
  void run_over(Mistake mistake, std::optional<engine::Fidelity> fidelity) const {
    const CaptureProgram program = capture_program_of<Breaker>();
    RunRequest request{.in = in_};
    if (fidelity) {
      request.model = engine::Parameters();
      request.model->fidelity = *fidelity;
    }
    const auto settings = program.settings().parse("mistake=" + std::to_string(mistake));
    static_cast<void>(program.run(*settings, request));
  }
  void on_live(Mistake mistake, const std::string& error) const {
    EXPECT_DEATH(run_over(mistake, std::nullopt), error) << "live, mistake " << mistake;
  }
  void on_others(Mistake mistake, const std::string& error) const {
    EXPECT_DEATH(run_over(mistake, engine::Fidelity::kBurst), error) << "burst, " << mistake;
    EXPECT_DEATH(run_over(mistake, engine::Fidelity::kExact), error) << "exact, " << mistake;
    const auto interleaved = [&] {
      const auto program = testing::make_program<Breaker>("mistake=" + std::to_string(mistake));
      const std::vector<testing::Frame> frames(2, testing::ipv4_frame(300));
      testing::run_interleaved(**program, frames, 1, {.at_end = milliseconds(5)});
    };
    EXPECT_DEATH(interleaved(), error) << "suspending, " << mistake;
  }
  void everywhere(Mistake mistake, const std::string& error) const {
    on_live(mistake, error);
    on_others(mistake, error);
  }

 private:
  const testing::ScratchDirectory scratch_;
  const std::string in_ = scratch_.path() / "in.pcap";
};

TEST_F(ProgramRulesDeathTest, ARightProgramRuns) {
  run_over(kNone, std::nullopt);
  run_over(kNone, engine::Fidelity::kBurst);
  run_over(kNone, engine::Fidelity::kExact);
}

TEST_F(ProgramRulesDeathTest, HeadsAndTailsHaveEnds) {
  everywhere(kReadPastHead, kPlace + ".*: head\\(\\)\\.read\\(\\) reads bytes within the head");
  everywhere(kWritePastHead, kPlace + ".*: write_head\\(\\) changes bytes within the head");
  everywhere(kPopTooMuch, kPlace + ".*: pop_head\\(\\)");
  everywhere(kPushTooMuch, kPlace + ".*: push_head\\(\\)");
  everywhere(kReadTooMuchTail, kPlace + ".*: read_tail\\(\\)");
  everywhere(kWritePastTail, kPlace + ".*: write_tail\\(\\)");
}

TEST_F(ProgramRulesDeathTest, PacketsEndOnceInProcess) {
  on_others(kForwardTwice, kPlace + ", instruction 'begin': forward\\(\\) or drop\\(\\) ends");
  on_others(kForwardInVisit, kPlace + ": only process\\(\\) ends a packet");
  on_live(kForwardInVisit, "bug in program 'breaker': only process\\(\\) ends a packet");
}

TEST_F(ProgramRulesDeathTest, XtxnsHaveASizeAndATargetAndAreAwaited) {
  on_others(kHugeXtxn, kPlace + ".*: an XTXN reads or writes 1 to 2048 bytes");
  on_others(kEmptyXtxn, kPlace + ".*: an XTXN reads or writes 1 to 2048 bytes");
  on_others(kNoTarget, kPlace + ".*: an XTXN has a target");
  on_others(kForgottenAwait, "instruction 'begin' at .*: co_await every issued XTXN");
  on_others(kForgottenCall, "instruction 'begin' at .*: co_await every issued XTXN");
}

TEST_F(ProgramRulesDeathTest, ExceptionsStopTheProcess) {
  everywhere(kThrow, "thrown in process\n.*program 'breaker'.*: no exception leaves");
  everywhere(kThrowInService, "thrown in a service\n.*program 'breaker'.*: no exception leaves");
}

TEST_F(ProgramRulesDeathTest, CallsAreNotDeeperThanEight) {
  on_others(kRecurse, "program 'breaker', instruction 'begin' at .*: subroutines nest at most");
}

}  // namespace
}  // namespace tributary::programs
