// SPDX-License-Identifier: Apache-2.0
/// @file
/// The filter as a program for an engine: runs the thread of each packet. It has no timers.
///
/// Threads: Belongs to one core, like its FilterState.
/// Tests:   tests/apps/filter/filter_test.cc, tests/programs/program_test.cc
#pragma once

#include <span>

#include "apps/filter/filter.h"

namespace tributary::filter {

class App {
 public:
  /// The name of the program in errors.
  static constexpr const char* kName = "filter";

  explicit App(FilterState& state) : state_(&state) {}

  static void begin_burst() {}
  template <microcode::Machine M>
  void process(M& m) {
    if constexpr (M::kSuspends) {
      filter_packet(m, *state_);
    } else {
      run_filter(m, *state_);  // No XTXN waits, so the live machine needs no coroutine.
    }
  }
  template <microcode::Machine M>
  static void run_timers(M&, Instant) {}
  [[nodiscard]] static Instant next_due() { return Instant::never(); }
  /// Any core may filter any packet.
  [[nodiscard]] static uint32_t owner(std::span<const std::byte>, bool, uint32_t) { return 0; }

 private:
  FilterState* state_;
};

}  // namespace tributary::filter
