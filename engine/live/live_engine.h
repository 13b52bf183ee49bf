// SPDX-License-Identifier: Apache-2.0
/// @file
/// The live packet forwarding engine: n polling cores over one port, started and stopped together.
///
/// Model:   Each core owns one queue of the port and one program with its own state. A packet that
///          arrives at another core's queue is handed over to its owner.
/// Threads: start(), stop(), inspect() and visit() belong to the owner's thread, or to one thread
///          at a time; each core runs a thread.
/// Errors:  None after construction; counters record lost packets.
/// Tests:   tests/engine/live/live_engine_test.cc
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/running_program.h"
#include "engine/live/cpu_limiter.h"
#include "engine/live/live_core.h"
#include "engine/port.h"

namespace tributary::engine {

struct LiveEngineConfig {
  /// Time that a core polls after the last packet before it sleeps. 0: it sleeps at once;
  /// use 0 when workers share the machine's cores.
  Duration spin = Duration();
  /// Longest sleep. If a wake-up is lost, stop(), inspect() and visit() wait at most this long.
  Duration sleep_max = milliseconds(100);
  uint32_t cpu_percent = 100;  ///< Share of a CPU that each core may use, 1 … 100.
  /// Core i runs on cpus[i modulo the size]. Empty: on any CPU.
  std::vector<int> cpus = {};
};

/// Largest packet that can be handed over between cores.
inline constexpr uint32_t kMailboxBytes = 16'640;  // A header, 4095 gradients, and some room.

template <LiveProgram P>
class LiveEngine {
 public:
  using Core = LiveCore<P>;
  /// Looks at a core, given with its index. @return whether to look again after its next burst.
  using Visitor = std::function<bool(Core&, uint32_t)>;

  /// @param port     Must outlive the engine.
  /// @param programs One for each queue of the port.
  LiveEngine(Port& port, std::vector<P> programs, const LiveEngineConfig& config)
      : config_(config) {
    TRIB_ASSERT(programs.size() == port.queue_count());
    const auto core_count = static_cast<uint32_t>(programs.size());
    if (core_count > 1) {
      for (uint32_t i = 0; i < core_count; i++) {
        mailboxes_.push_back(std::make_unique<Mailbox>(kMailboxBytes, core_count, port.queue(i)));
      }
    }
    for (uint32_t i = 0; i < core_count; i++) {
      cores_.push_back(
          std::make_unique<Slot>(i, port.queue(i), std::move(programs[i]), mailboxes_));
    }
  }
  ~LiveEngine() { stop(); }
  LiveEngine(const LiveEngine&) = delete;
  LiveEngine& operator=(const LiveEngine&) = delete;

  void start() {
    for (auto& slot : cores_) {
      slot->is_running.store(true, std::memory_order_relaxed);  // The thread's start publishes it.
      slot->thread = std::thread([this, &slot = *slot] { loop(slot); });
    }
  }

  /// Ends each core's loop after its current burst. Idempotent.
  void stop() {
    stopping_.store(true, std::memory_order_release);
    for (auto& slot : cores_) slot->core.queue().wake();
    for (auto& slot : cores_) {
      if (slot->thread.joinable()) slot->thread.join();
    }
  }

  /// Calls `inspector` once for each core. A running core calls it in its own thread, between two
  /// bursts; for a stopped engine this thread calls it. Returns after the last call. The core takes
  /// no lock: the caller alone waits.
  void inspect(const std::function<void(Core&)>& inspector) {
    const Visitor once = [&inspector](Core& core, uint32_t) {
      inspector(core);
      return false;
    };
    for (auto& slot : cores_) {
      ask(*slot, once);
      await(*slot, once);
    }
  }

  /// Calls the visitor like inspect(), in all cores at once, and after each burst until the
  /// visitor returns false. A caller on a loaded machine waits for a CPU once, not once for each
  /// call.
  void visit(const Visitor& visitor) {
    begin_visit(visitor);
    end_visit(visitor);
  }
  /// The halves of visit(), so that a caller can visit several engines at the same time. `visitor`
  /// must live until end_visit() returns, and no other visit may begin before.
  void begin_visit(const Visitor& visitor) {
    for (auto& slot : cores_) ask(*slot, visitor);
  }
  void end_visit(const Visitor& visitor) {
    for (auto& slot : cores_) await(*slot, visitor);
  }

  /// Returns whether stop(), inspect() or visit() waits for a core. A signal handler may call it.
  [[nodiscard]] bool is_awaited() const noexcept {
    // Relaxed: the answer is a snapshot, and nothing is read because of it.
    for (const auto& slot : cores_) {
      if (!slot->is_running.load(std::memory_order_relaxed)) continue;
      if (stopping_.load(std::memory_order_relaxed)) return true;
      if (slot->visitor.load(std::memory_order_relaxed) != nullptr) return true;
    }
    return false;
  }

  [[nodiscard]] uint32_t core_count() const { return static_cast<uint32_t>(cores_.size()); }

 private:
  /// A core and its thread. 128-byte alignment keeps two cores from sharing a cache line.
  struct alignas(128) Slot {
    Slot(uint32_t number, PortQueue& queue, P program,
         std::span<const std::unique_ptr<Mailbox>> mailboxes)
        : index(number), core(number, queue, std::move(program), mailboxes) {}
    const uint32_t index;
    Core core;
    std::thread thread;
    /// Null: nobody visits this core.
    std::atomic<const Visitor*> visitor{nullptr};
    std::atomic<bool> is_running{false};  ///< From start() to the end of loop().
  };

  /// Passes the visitor to a running core; lets it visit any other at once.
  static void ask(Slot& slot, const Visitor& visitor) {
    if (!slot.thread.joinable()) {
      while (visitor(slot.core, slot.index)) {
      }
      return;
    }
    // Release: pairs with the acquire in loop(), after which the core sees `visitor`.
    slot.visitor.store(&visitor, std::memory_order_release);
    slot.core.queue().wake();
  }
  /// Waits for the last visit.
  static void await(Slot& slot, const Visitor& visitor) {
    // Acquire: pairs with the release in run_visitor(); shows the visitor's writes.
    slot.visitor.wait(&visitor, std::memory_order_acquire);
  }

  void loop(Slot& slot) {
    static constexpr RunningProgram kProgram = running_program_of<P>();
    const RunningProgramScope scope(kProgram);
    if (!config_.cpus.empty()) pin_to_cpu(config_.cpus[slot.index % config_.cpus.size()]);
    Instant busy_at = monotonic_now();
    CpuLimiter limiter(config_.cpu_percent, busy_at, thread_cpu_time());
    // Acquire: pairs with stop().
    while (!stopping_.load(std::memory_order_acquire)) {
      const Instant now = monotonic_now();
      if (slot.core.run_once(now) > 0) busy_at = now;
      if (const Visitor* visitor = slot.visitor.load(std::memory_order_acquire)) [[unlikely]] {
        run_visitor(slot, *visitor);  // It may come again, so the core does not sleep.
      } else if (busy_at != now && now - busy_at >= config_.spin) {
        slot.core.wait(slot.core.idle_time(now, config_.sleep_max));
      }
      if (limiter.is_due(now)) pause(slot, limiter.pause(now, thread_cpu_time()));
    }
    slot.core.stop(monotonic_now());
    slot.is_running.store(false,
                          std::memory_order_relaxed);  // For is_awaited(), which orders nothing.
  }

  static void pause(Slot& slot, Duration length) {
    if (length <= Duration()) return;
    slot.core.count_pause();
    std::this_thread::sleep_for(std::chrono::nanoseconds(in_nanoseconds(length)));
  }

  static void run_visitor(Slot& slot, const Visitor& visitor) {
    if (visitor(slot.core, slot.index)) return;
    slot.visitor.store(nullptr, std::memory_order_release);
    slot.visitor.notify_one();
  }

  const LiveEngineConfig config_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<Slot>> cores_;
  std::atomic<bool> stopping_{false};
};

}  // namespace tributary::engine
