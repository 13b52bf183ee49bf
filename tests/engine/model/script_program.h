// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet program made of a test's steps: the packet's first byte selects its thread's script.
/// Also a PFE with this program, whose sink records the packets that left, with times.
///
/// Threads: One.
/// Memory:  For tests: it allocates freely.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/event_core.h"
#include "engine/model/pfe.h"
#include "memory/shared_memory.h"

namespace tributary::testing {

inline constexpr microcode::Instruction kStepInstruction{"step", {.register_reads = 1}};

struct Step {
  enum class Kind : uint8_t {
    kInstruction,  ///< `count` instructions.
    kWait,         ///< A synchronous XTXN.
    kPost,         ///< An XTXN without reply.
    kOverlap,      ///< An asynchronous XTXN, `count` instructions, then its reply.
    kNote,         ///< Records the time.
    kSend,         ///< Sends `count` bytes of shared memory at `target`.
    kAdd,          ///< Adds `count` gradients from the packet's second word on to `target`.
    kFinish,       ///< Converts `count` lanes to a payload.
    kForward,
    kDrop,
  };
  Kind kind = Kind::kNote;
  uint32_t count = 1;
  microcode::XtxnKind xtxn = microcode::XtxnKind::kRead;
  void* target = nullptr;
  uint32_t size_bytes = 8;
};

struct Note {
  uint8_t script;
  Instant at;
};

struct Scripts {
  std::map<uint8_t, std::vector<Step>> steps;
  std::vector<Step> timer_steps;
  Instant timer_due = Instant::never();
  uint32_t timer_threads = 1;
  std::vector<Note> notes;
};

/// The script number in the notes of a timer's thread.
inline constexpr uint8_t kTimerScript = 255;

template <microcode::Machine M>
microcode::Thread run_script(M& m, Scripts& scripts, uint8_t script,
                             const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    const microcode::Xtxn xtxn{step.xtxn, step.target, step.size_bytes};
    switch (step.kind) {
      case Step::Kind::kInstruction:
        for (uint32_t i = 0; i < step.count; i++) m.instruction(kStepInstruction);
        break;
      case Step::Kind::kWait:
        co_await m.issue(xtxn, [] {});
        break;
      case Step::Kind::kPost:
        m.post(xtxn, [] {});
        break;
      case Step::Kind::kOverlap: {
        auto reply = m.issue(xtxn, [] { return 7; });
        for (uint32_t i = 0; i < step.count; i++) m.instruction(kStepInstruction);
        TRIB_ASSERT(co_await reply == 7);
        break;
      }
      case Step::Kind::kNote:
        scripts.notes.push_back({script, m.now()});
        break;
      case Step::Kind::kSend: {
        const Endpoint to = Endpoint::ipv4(0x0a0000ff, script);
        m.send({static_cast<const std::byte*>(step.target), step.count},
               std::span<const Endpoint>(&to, 1));
        break;
      }
      case Step::Kind::kAdd:
        co_await m.accumulate(static_cast<int32_t*>(step.target), 4, step.count,
                              microcode::Accumulate::kAdd);
        break;
      case Step::Kind::kFinish:
        co_await m.finish_lanes(static_cast<int32_t*>(step.target), step.count);
        break;
      case Step::Kind::kForward:
        m.forward();
        break;
      case Step::Kind::kDrop:
        m.drop(0);
        break;
    }
  }
}

class ScriptProgram {
 public:
  explicit ScriptProgram(Scripts& scripts) : scripts_(&scripts) {}
  void begin_burst() {}
  template <microcode::Machine M>
  void process(M& m) {
    const auto script = std::to_integer<uint8_t>(microcode::PacketHead(m.head()).bytes()[0]);
    run_script(m, *scripts_, script, scripts_->steps.at(script));
  }
  template <microcode::Machine M>
  void run_timers(M& m, Instant now) {
    if (now < scripts_->timer_due) return;
    scripts_->timer_due = Instant::never();
    for (uint32_t i = 0; i < scripts_->timer_threads; i++) {
      run_script(m, *scripts_, kTimerScript, scripts_->timer_steps);
    }
  }
  [[nodiscard]] Instant next_due() const { return scripts_->timer_due; }

 private:
  Scripts* scripts_;
};

/// Returns small, even parameters: a packet's program begins when the packet arrives.
inline engine::Parameters small_machine(engine::Fidelity fidelity) {
  engine::Parameters parameters;
  parameters.fidelity = fidelity;
  parameters.ppe_count = 2;
  parameters.threads_each = 2;
  parameters.instruction_cycles = 10;
  parameters.header_instructions = 0;
  parameters.header_bytes = 42;
  parameters.rmw_engine_count = 4;
  parameters.ingress_latency = Duration();
  parameters.tail_read_latency = nanoseconds(500);
  parameters.packet_buffer_packets = 64;
  return parameters;
}

class ScriptBed final : public engine::PfeSink {
 public:
  struct Left {
    Instant at;
    uint32_t size_bytes;
    std::vector<std::byte> stored;
    Endpoint to;
  };

  explicit ScriptBed(const engine::Parameters& parameters, Scripts script_table = {})
      : scripts(std::move(script_table)),
        memory(*memory::SharedMemory::create({})),
        pfe_(core, parameters, memory, ScriptProgram(scripts), *this) {}

  /// Lets a packet arrive at the present time; its first byte is `script`.
  void arrive(uint8_t script, uint32_t size_bytes = 64, uint32_t source = 1, uint32_t train = 1) {
    std::vector<std::byte> bytes(size_bytes);
    bytes[0] = std::byte{script};
    pfe_.arrive(bytes, size_bytes, Endpoint::ipv4(source, 1), train);
  }
  /// Runs until no event is left.
  void run() {
    while (core.run_next()) {
    }
  }
  template <class T>
  T* allocate(memory::Range range, uint32_t count = 16) {
    return memory.at_as<T>(*memory.allocate(range, count * sizeof(T), 64));
  }
  [[nodiscard]] engine::Pfe<ScriptProgram>& pfe() { return pfe_; }
  /// Returns the time of note `index`, in nanoseconds since the start.
  [[nodiscard]] int64_t note_ns(size_t index) const {
    return in_nanoseconds(scripts.notes.at(index).at.since_start());
  }

  EventCore core;
  Scripts scripts;
  memory::SharedMemory memory;
  std::vector<Left> left;

 private:
  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations) override {
    left.push_back({core.now(), size_bytes, {stored.begin(), stored.end()}, destinations[0]});
  }

  engine::Pfe<ScriptProgram> pfe_;
};

}  // namespace tributary::testing
