// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes a whole program from its state, the code of one packet and, if it has timers, the code of
/// a timer thread. Programs that send packets of their own are ProgramInstances like those of this
/// folder.
///
/// Threads: As the machine that runs it.
/// Errors:  create() of the state returns one line.
/// Tests:   tests/programs/packet_program_test.cc
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "memory/shared_memory.h"
#include "microcode/machine.h"
#include "programs/capture_program.h"
#include "programs/capture_run.h"
#include "programs/program_instance.h"
#include "timers/periodic_timers.h"

namespace tributary::programs {

/// Makes the state of a program. Programs without timers leave `start` out.
template <class C>
concept CreatesState = requires(memory::SharedMemory& memory, const KeyValues& settings,
                                Instant start) {
  requires requires {
    { C::create(memory, settings) } -> std::same_as<Result<std::unique_ptr<C>>>;
  } || requires {
    { C::create(memory, settings, start) } -> std::same_as<Result<std::unique_ptr<C>>>;
  };
};

/// A program with timer threads: visit(m, state, slice) is the coroutine of one, for any machine.
/// It runs whenever one of `timers` is due; the slice names its part of the records.
template <class C>
concept HasTimers = requires(C& state, engine::LiveMachine& m, const timers::TimerSlice& slice) {
  { (state.timers) } -> std::same_as<timers::PeriodicTimers&>;
  { C::visit(m, state, slice) } -> std::same_as<microcode::Thread>;
};

/// Concepts for classes that have a member of a name, in whatever shape: a name that two bases have
/// is ambiguous. A final class counts as one without the member.
namespace member {
struct Names {
  int details;
  int outcomes;
  int timers;
  int visit;
};
template <class C>
struct AndNames : C, Names {};
template <class C>
concept Details = !std::is_final_v<C> && !requires {
  &AndNames<C>::details;
};
template <class C>
concept Outcomes = !std::is_final_v<C> && !requires {
  &AndNames<C>::outcomes;
};
template <class C>
concept Timers = !std::is_final_v<C> && !requires {
  &AndNames<C>::timers;
};
template <class C>
concept Visit = !std::is_final_v<C> && !requires {
  &AndNames<C>::visit;
};
}  // namespace member

/// These are false for a class that has an optional member in a shape that nobody would call.
template <class C>
concept HasGoodDetails = !member::Details<C> || requires(const C& code) {
  { code.details() } -> std::convertible_to<nlohmann::ordered_json>;
};
template <class C>
concept HasGoodOutcomes = !member::Outcomes<C> || requires(const C& code) {
  { code.outcomes() } -> std::convertible_to<std::vector<OutcomeCount>>;
};
template <class C>
concept HasGoodTimers = !(member::Timers<C> || member::Visit<C>) || HasTimers<C>;

/// A class with the state of a program:
/// - kName and kSummary for help and errors, and kKeys, its settings;
/// - create(memory, settings) makes the state; threads share the parts that lie in `memory`. A
///   program with timers has create(memory, settings, start), the time before the first packet;
/// - process(m, state) is the coroutine of one packet, for any machine;
/// - timers and visit(), both optional: see HasTimers;
/// - outcomes() and details(), both optional, add to the report: counters of packets, and a JSON
///   object whose keys join those of the report;
/// - kCoresMax, optional, is the largest number of cores on live traffic. Each core has a state of
///   its own, which sees only the packets of this core.
template <class C>
concept PacketCode = CreatesState<C> && requires(C& state, engine::LiveMachine& m) {
  { C::kName } -> std::convertible_to<std::string_view>;
  { C::kSummary } -> std::convertible_to<std::string_view>;
  { C::kKeys } -> std::convertible_to<std::span<const KeySpec>>;
  { C::process(m, state) } -> std::same_as<microcode::Thread>;
};

/// The ProgramInstance of a PacketCode.
template <PacketCode Code>
class PacketProgram {
  static_assert(HasGoodDetails<Code>,
                "details() must be public and: nlohmann::ordered_json details() const");
  static_assert(HasGoodOutcomes<Code>,
                "outcomes() must be public and: "
                "std::vector<tributary::programs::OutcomeCount> outcomes() const");
  static_assert(
      HasGoodTimers<Code>,
      "a program with timers must have both, and both public: "
      "tributary::timers::PeriodicTimers timers; and template <microcode::Machine M> "
      "static microcode::Thread visit(M& m, STATE& state, timers::TimerSlice slice); give "
      "members for other purposes other names");

 public:
  /// Runs the thread of each packet, for any engine.
  class App {
   public:
    /// The name of the program in errors.
    static constexpr std::string_view kName = Code::kName;

    explicit App(Code& state) : state_(&state) {}

    static void begin_burst() {}
    template <microcode::Machine M>
    void process(M& m) {
      Code::process(m, *state_);
    }
    template <microcode::Machine M>
    void run_timers(M& m, Instant now) {
      if constexpr (HasTimers<Code>) {
        state_->timers.due(
            now, [&](const timers::TimerSlice& slice) { Code::visit(m, *state_, slice); });
      }
    }
    [[nodiscard]] Instant next_due() const {
      if constexpr (HasTimers<Code>) {
        return state_->timers.next_due();
      } else {
        return Instant::never();
      }
    }
    /// Any core may process any packet.
    [[nodiscard]] static uint32_t owner(std::span<const std::byte>, bool, uint32_t) { return 0; }

   private:
    Code* state_;
  };
  static constexpr io::Steering kSteering = io::Steering::kByFlow;
  static constexpr uint32_t kCoresMax = [] {
    if constexpr (requires { Code::kCoresMax; }) {
      static_assert(Code::kCoresMax >= 1, "kCoresMax must be at least 1");
      return uint32_t{Code::kCoresMax};
    } else {
      return UINT32_MAX;
    }
  }();

  static const KeyTable& settings() {
    static const KeyTable kTable(std::string(Code::kName), Code::kKeys);
    return kTable;
  }
  static Result<std::unique_ptr<PacketProgram>> create(const KeyValues& settings,
                                                       const InstanceTerms& terms) {
    auto memory = memory::SharedMemory::create({});
    if (!memory) return tl::unexpected(memory.error());
    std::unique_ptr<PacketProgram> program(new PacketProgram(*std::move(memory)));
    auto state = create_state(program->memory_, settings, terms.start);
    if (!state) return tl::unexpected(state.error());
    program->state_ = *std::move(state);
    return program;
  }

  App app() { return App(*state_); }
  memory::SharedMemory& memory() { return memory_; }
  [[nodiscard]] Code& state() { return *state_; }
  [[nodiscard]] std::vector<OutcomeCount> outcomes() const {
    if constexpr (requires(const Code& code) { code.outcomes(); }) {
      return state_->outcomes();
    } else {
      return {};
    }
  }
  [[nodiscard]] nlohmann::ordered_json details() const {
    if constexpr (requires(const Code& code) { code.details(); }) {
      nlohmann::ordered_json details = state_->details();
      TRIB_REQUIRE(details.is_object(), "details() must return a JSON object");
      return details;
    } else {
      return nlohmann::ordered_json::object();
    }
  }

 private:
  explicit PacketProgram(memory::SharedMemory memory) : memory_(std::move(memory)) {}
  static Result<std::unique_ptr<Code>> create_state(memory::SharedMemory& memory,
                                                    const KeyValues& settings, Instant start) {
    if constexpr (requires { Code::create(memory, settings, start); }) {
      return Code::create(memory, settings, start);
    } else {
      return Code::create(memory, settings);
    }
  }

  memory::SharedMemory memory_;
  std::unique_ptr<Code> state_;  ///< Refers to memory_.
};

/// Returns the program as a run over a capture sees it.
template <PacketCode Code>
[[nodiscard]] CaptureProgram capture_program_of() {
  return {.name = Code::kName,
          .summary = Code::kSummary,
          .has_flow_records = false,
          .settings = PacketProgram<Code>::settings,
          .run = run_program<PacketProgram<Code>>};
}

}  // namespace tributary::programs
