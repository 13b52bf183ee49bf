// SPDX-License-Identifier: Apache-2.0
/// @file
/// One polling core of the live engine: the loop that runs a program on packets and timers.
///
///   receive a burst -> hand over packets of other cores -> prefetch for some packets, run a thread
///   for each of them, and so on -> run due timers -> send
///
/// Threads: run_once() belongs to one thread. It takes the time as an argument, so tests run a
///          core in virtual time over an in-memory port.
/// Tests:   tests/engine/live/live_core_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <memory>
#include <span>

#include "engine/live/live_machine.h"
#include "engine/live/mailbox.h"
#include "engine/port.h"

namespace tributary::engine {

/// The program that a core runs. `owner` returns which of core_count cores owns a packet. A frame
/// begins with its Ethernet header, any other packet with its UDP payload.
template <class P>
concept LiveProgram = requires(P p, LiveMachine& m, Instant now, std::span<const std::byte> bytes) {
  p.begin_burst();
  p.process(m);
  p.run_timers(m, now);
  { p.next_due() } -> std::same_as<Instant>;
  { P::owner(bytes, /*is_frame=*/true, uint32_t{1}) } -> std::same_as<uint32_t>;
};

/// A program that prefetches. Before the core processes up to kPrefetchPackets packets of a burst,
/// it passes them to prefetch(), so that their latencies overlap.
template <class P>
concept PrefetchingProgram = requires(P p, std::span<const Packet> burst) {
  { P::kPrefetchPackets } -> std::convertible_to<uint32_t>;
  p.prefetch(burst);
};

struct CoreCounters {
  uint64_t bursts = 0;
  uint64_t packets = 0;        ///< Processed here.
  uint64_t handed_over = 0;    ///< Passed to the core that owns them.
  uint64_t handover_full = 0;  ///< Dropped: the owner's mailbox was full.
  uint64_t waits = 0;          ///< Times the core went to sleep.
  uint64_t pauses = 0;         ///< Times the core paused because it had used its share of the CPU.
};

template <LiveProgram P>
class LiveCore {
 public:
  /// @param mailboxes One for each core, this core's at [index]; empty for a single core.
  LiveCore(uint32_t index, PortQueue& queue, P program,
           std::span<const std::unique_ptr<Mailbox>> mailboxes)
      : index_(index),
        queue_(queue),
        program_(std::move(program)),
        mailboxes_(mailboxes),
        machine_(queue) {}

  /// Runs one round of the loop. @return packets processed.
  uint32_t run_once(Instant now) {
    machine_.begin_burst(now);
    program_.begin_burst();
    const uint32_t received = queue_.receive(burst_);
    uint32_t processed = process(mailboxes_.size() > 1 ? keep_own(received) : received);
    if (mailboxes_.size() > 1) processed += process_mail();
    machine_.end_packets();
    run_timers(now, received);
    machine_.flush();
    // Free them last: a forwarded packet is sent from the mailbox buffer that holds it.
    if (mailboxes_.size() > 1) mailboxes_[index_]->free_taken();
    counters_.bursts++;
    counters_.packets += processed;
    return processed;
  }

  /// Lets the program send its final packets, such as notices to members. Call it after the last
  /// round.
  void stop(Instant now) {
    if constexpr (requires { program_.stop(machine_); }) {
      machine_.begin_burst(now);
      program_.stop(machine_);
      machine_.flush();
    }
  }

  /// Runs a command of an operator, `command(program, machine)`, as a burst of its own: its
  /// packets leave before this returns. Call it between two rounds, as from LiveEngine::inspect().
  template <class F>
  void run_command(Instant now, F&& command) {
    machine_.begin_burst(now);
    command(program_, machine_);
    machine_.flush();
  }

  /// Returns how long the core may sleep if nothing arrives, at most `longest`.
  [[nodiscard]] Duration idle_time(Instant now, Duration longest) const {
    const Instant due = program_.next_due();
    if (due <= now) return Duration();
    return std::min(longest, due - now);
  }
  void wait(Duration at_most) {
    counters_.waits++;
    queue_.wait(at_most);
  }

  void count_pause() { counters_.pauses++; }

  [[nodiscard]] P& program() { return program_; }
  [[nodiscard]] PortQueue& queue() { return queue_; }
  [[nodiscard]] const CoreCounters& counters() const { return counters_; }
  [[nodiscard]] const MachineCounters& machine_counters() const { return machine_.counters(); }

 private:
  /// While full bursts arrive, timers run only once in this many bursts. Packets that have arrived
  /// but are not read yet must not look late.
  static constexpr uint32_t kTimersWaitBursts = 16;

  /// Runs a thread for each of the first `count` packets of the burst.
  /// noinline: keeps one copy of this loop. flatten: inlines the program into it, so that a
  /// thread's state stays in registers; a program marks its rare paths noinline.
  [[gnu::noinline, gnu::flatten]] uint32_t process(uint32_t count) {
    if constexpr (PrefetchingProgram<P>) {
      for (uint32_t begin = 0; begin < count; begin += P::kPrefetchPackets) {
        const uint32_t end = std::min(begin + P::kPrefetchPackets, count);
        program_.prefetch(std::span<const Packet>(burst_).subspan(begin, end - begin));
        process_range(begin, end);
      }
    } else {
      process_range(0, count);
    }
    return count;
  }
  void process_range(uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) {
      machine_.begin_packet(burst_[i]);
      program_.process(machine_);
    }
  }

  /// Hands over packets that other cores own and moves the rest to the front of the burst.
  /// @return how many are left.
  uint32_t keep_own(uint32_t received) {
    uint32_t own = 0;
    for (uint32_t i = 0; i < received; i++) {
      if (hand_over(burst_[i])) continue;
      if (own != i) burst_[own] = burst_[i];
      own++;
    }
    return own;
  }

  bool hand_over(const Packet& packet) {
    const auto core_count = static_cast<uint32_t>(mailboxes_.size());
    const uint32_t owner =
        P::owner(packet.bytes(), packet.layer == PacketLayer::kFrame, core_count);
    if (owner == index_) return false;
    if (mailboxes_[owner]->post(index_, packet)) {
      counters_.handed_over++;
      owners_to_wake_ |= uint64_t{1} << owner;
    } else {
      counters_.handover_full++;
    }
    return true;
  }

  uint32_t process_mail() {
    for (; owners_to_wake_ != 0; owners_to_wake_ &= owners_to_wake_ - 1) {
      mailboxes_[static_cast<uint32_t>(std::countr_zero(owners_to_wake_))]->deliver(index_);
    }
    return process(mailboxes_[index_]->take(burst_));
  }

  void run_timers(Instant now, uint32_t received) {
    full_bursts_ = received == burst_.size() ? full_bursts_ + 1 : 0;
    if (full_bursts_ != 0 && full_bursts_ % kTimersWaitBursts != 0) return;
    program_.run_timers(machine_, now);
    machine_.check_no_end();
  }

  const uint32_t index_;
  PortQueue& queue_;
  P program_;
  std::span<const std::unique_ptr<Mailbox>> mailboxes_;
  LiveMachine machine_;
  std::array<Packet, kBurstPackets> burst_{};
  uint32_t full_bursts_ = 0;
  uint64_t owners_to_wake_ = 0;  ///< Bit i: core i has mail from this burst. At most 64 cores.
  CoreCounters counters_;
};

}  // namespace tributary::engine
