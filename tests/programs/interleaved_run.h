// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs packets through a packet program on the suspending machine, each as a thread of its own,
/// and serves the threads' XTXNs in a random order. Installed, for programs outside this tree.
///
/// Threads: One.
/// Tests:   tests/programs/packet_program_test.cc
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "programs/packet_program.h"
#include "tests/engine/step_machine.h"

namespace tributary::testing {

using Frame = std::vector<std::byte>;

/// Makes a program. @param settings "key=value,key=value"; empty for the defaults.
template <programs::PacketCode Code>
[[nodiscard]] Result<std::unique_ptr<programs::PacketProgram<Code>>> make_program(
    std::string_view settings = "") {
  const KeyTable& table = programs::PacketProgram<Code>::settings();
  const auto values = settings.empty() ? table.read({}, "") : table.parse(settings);
  if (!values) return tl::unexpected(values.error());
  return programs::PacketProgram<Code>::create(*values, {});
}

/// The times of an interleaved run. Without them time stands still, and no timer thread runs.
struct InterleavedTimes {
  Duration between_packets = {};  ///< From one packet's arrival to the next.
  Duration at_end = {};           ///< After the last packet's thread has ended.
};

namespace detail {

/// Moves the machine's time and starts the timer threads that are due, among the packets' threads.
template <class App>
void advance(StepMachine& machine, App& app, Instant to) {
  /// Threads that packets keep while the timers' begin; those take at most the rest.
  constexpr uint32_t kPacketThreadsMax = 128;
  while (app.next_due() <= to) {
    const Instant due = app.next_due();
    while (machine.threads_active() > kPacketThreadsMax) (void)machine.step();
    machine.set_now(due);
    machine.start_timer([&](StepMachine& m) { app.run_timers(m, due); });
  }
  machine.set_now(to);
}

}  // namespace detail

/// Runs all packets to their end. Timer threads run at their times, which begin anew at 0 in each
/// call; at most 128 of them may be due at once.
/// @param seed Chooses the order of the XTXNs. The same seed gives the same order.
/// @return the forwarded packets, in the order in which the program forwarded them.
template <programs::PacketCode Code>
std::vector<Frame> run_interleaved(programs::PacketProgram<Code>& program,
                                   std::span<const Frame> packets, uint64_t seed,
                                   const InterleavedTimes& times = {}) {
  Prng prng(seed);
  StepMachine machine({.seed = prng.any_u64()});
  machine.access_meter().set_program(std::string(Code::kName));
  auto app = program.app();
  const bool is_timed = times.between_packets > Duration() || times.at_end > Duration();
  Instant now;
  for (const Frame& packet : packets) {
    now = now + times.between_packets;
    if (is_timed) detail::advance(machine, app, now);
    while (!machine.has_free_thread()) (void)machine.step();
    machine.start(
        packet, Endpoint(), [&app](StepMachine& m) { app.process(m); },
        engine::PacketLayer::kFrame);
    // Between two packets, some of the threads get ahead.
    uint32_t steps = prng.below(6);
    for (; steps > 0; steps--) (void)machine.step();
  }
  machine.run();
  if (is_timed) {
    detail::advance(machine, app, now + times.at_end);
    machine.run();
  }
  return machine.forwarded();
}

}  // namespace tributary::testing
