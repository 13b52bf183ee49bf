// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes a whole program from its state and the code of one packet. The program has no timers, and
/// sends no packets of its own; programs that do are ProgramInstances like those of this folder.
///
/// Threads: As the machine that runs it.
/// Errors:  create() of the state returns one line.
/// Tests:   tests/programs/packet_program_test.cc
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "memory/shared_memory.h"
#include "microcode/machine.h"
#include "programs/capture_program.h"
#include "programs/capture_run.h"
#include "programs/program_instance.h"

namespace tributary::programs {

/// A class with the state of a program:
/// - kName and kSummary for help and errors, and kKeys, its settings;
/// - create(memory, settings) makes the state; threads share the parts that lie in `memory`;
/// - process(m, state) is the coroutine of one packet, for any machine;
/// - outcomes() and details(), both optional, add to the report: counters of packets, and a JSON
///   object whose keys join those of the report.
template <class C>
concept PacketCode = requires(C& state, engine::LiveMachine& m, memory::SharedMemory& memory,
                              const KeyValues& settings) {
  { C::kName } -> std::convertible_to<std::string_view>;
  { C::kSummary } -> std::convertible_to<std::string_view>;
  { C::kKeys } -> std::convertible_to<std::span<const KeySpec>>;
  { C::create(memory, settings) } -> std::same_as<Result<std::unique_ptr<C>>>;
  { C::process(m, state) } -> std::same_as<microcode::Thread>;
};

/// The ProgramInstance of a PacketCode.
template <PacketCode Code>
class PacketProgram {
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
    static void run_timers(M&, Instant) {}
    [[nodiscard]] static Instant next_due() { return Instant::never(); }
    /// Any core may process any packet.
    [[nodiscard]] static uint32_t owner(std::span<const std::byte>, bool, uint32_t) { return 0; }

   private:
    Code* state_;
  };
  static constexpr io::Steering kSteering = io::Steering::kByFlow;

  static const KeyTable& settings() {
    static const KeyTable kTable(std::string(Code::kName), Code::kKeys);
    return kTable;
  }
  static Result<std::unique_ptr<PacketProgram>> create(const KeyValues& settings,
                                                       const InstanceTerms&) {
    auto memory = memory::SharedMemory::create({});
    if (!memory) return tl::unexpected(memory.error());
    std::unique_ptr<PacketProgram> program(new PacketProgram(*std::move(memory)));
    auto state = Code::create(program->memory_, settings);
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
      return state_->details();
    } else {
      return nlohmann::ordered_json::object();
    }
  }

 private:
  explicit PacketProgram(memory::SharedMemory memory) : memory_(std::move(memory)) {}

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
