// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs packets through a packet program on the suspending machine, each as a thread of its own, and
/// serves the threads' XTXNs in a random order. Installed, for programs outside this tree.
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

/// Runs all packets to their end.
/// @param seed Chooses the order of the XTXNs. The same seed gives the same order.
/// @return the forwarded packets, in the order in which the program forwarded them.
template <programs::PacketCode Code>
std::vector<Frame> run_interleaved(programs::PacketProgram<Code>& program,
                                   std::span<const Frame> packets, uint64_t seed) {
  Prng prng(seed);
  StepMachine machine({.seed = prng.any_u64()});
  auto app = program.app();
  for (const Frame& packet : packets) {
    machine.start(
        packet, Endpoint(), [&app](StepMachine& m) { app.process(m); },
        engine::PacketLayer::kFrame);
    // Between two packets, some of the threads get ahead.
    uint32_t steps = prng.below(6);
    while (steps > 0 || !machine.has_free_thread()) {
      (void)machine.step();
      steps -= steps > 0 ? 1 : 0;
    }
  }
  machine.run();
  return machine.forwarded();
}

}  // namespace tributary::testing
