// SPDX-License-Identifier: Apache-2.0
/// @file
/// The live packet forwarding engine: n polling cores over one port, started and stopped together.
///
/// Model:   Each core owns one queue of the port and one program with its own state. A packet that
///          arrives at another core's queue is handed over to its owner.
/// Threads: start(), stop() and inspect() belong to the owner's thread, or to one thread at a time;
///          each core runs a thread.
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
#include "engine/live/cpu_limiter.h"
#include "engine/live/live_core.h"
#include "engine/port.h"

namespace tributary::engine {

struct LiveEngineConfig {
  /// How long a core keeps polling after the last packet before it sleeps. 0: it sleeps at once;
  /// use 0 when workers share the machine's cores.
  Duration spin = Duration();
  /// Longest sleep. If a wake-up is lost, stop() and inspect() wait at most this long.
  Duration sleep_max = milliseconds(100);
  uint32_t cpu_percent = 100;  ///< Share of a CPU that each core may use, 1 … 100.
  /// Core i runs on the i-th of these CPUs, and starts over behind the last. Empty: on any.
  std::vector<int> cpus = {};
};

/// Largest packet that can be handed over between cores.
inline constexpr uint32_t kMailboxBytes = 16'640;  // A header, 4095 gradients, and some room.

template <LiveProgram P>
class LiveEngine {
 public:
  using Core = LiveCore<P>;

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
    for (auto& slot : cores_) {
      if (!slot->thread.joinable()) {
        inspector(slot->core);
        continue;
      }
      // Release: pairs with the acquire in loop(), after which the core sees `inspector`.
      slot->inspector.store(&inspector, std::memory_order_release);
      slot->core.queue().wake();
      // Acquire: pairs with the release in run_inspector(); shows what the inspector has written.
      slot->inspector.wait(&inspector, std::memory_order_acquire);
    }
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
    /// Null: nobody inspects this core.
    std::atomic<const std::function<void(Core&)>*> inspector{nullptr};
  };

  void loop(Slot& slot) {
    if (!config_.cpus.empty()) pin_to_cpu(config_.cpus[slot.index % config_.cpus.size()]);
    Instant busy_at = monotonic_now();
    CpuLimiter limiter(config_.cpu_percent, busy_at, thread_cpu_time());
    // Acquire: pairs with stop().
    while (!stopping_.load(std::memory_order_acquire)) {
      const Instant now = monotonic_now();
      if (slot.core.run_once(now) > 0) {
        busy_at = now;
      } else if (now - busy_at >= config_.spin) {
        slot.core.wait(slot.core.idle_time(now, config_.sleep_max));
      }
      if (limiter.is_due(now)) pause(slot, limiter.pause(now, thread_cpu_time()));
      if (const auto* inspector = slot.inspector.load(std::memory_order_acquire)) [[unlikely]]
        run_inspector(slot, *inspector);
    }
    slot.core.stop(monotonic_now());
  }

  static void pause(Slot& slot, Duration length) {
    if (length <= Duration()) return;
    slot.core.count_pause();
    std::this_thread::sleep_for(std::chrono::nanoseconds(in_nanoseconds(length)));
  }

  static void run_inspector(Slot& slot, const std::function<void(Core&)>& inspector) {
    inspector(slot.core);
    slot.inspector.store(nullptr, std::memory_order_release);
    slot.inspector.notify_one();
  }

  const LiveEngineConfig config_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<Slot>> cores_;
  std::atomic<bool> stopping_{false};
};

}  // namespace tributary::engine
