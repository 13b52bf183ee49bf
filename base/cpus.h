// SPDX-License-Identifier: Apache-2.0
/// @file
/// CPUs of this machine: their lists as text, a thread's place, slices and CPU time.
///
/// Shapes:  A list is "0-2,5": numbers and ranges in any order, each CPU once.
/// Threads: Any; the functions concern the calling thread.
/// Errors:  parse_cpus() returns one line with the text and the numbers allowed.
/// Tests:   tests/base/cpus_test.cc
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tributary {

/// Returns the numbers of the CPUs on which this thread may run.
[[nodiscard]] std::vector<int> cpus_allowed();

/// Reads a list of CPUs. @param allowed The numbers that may occur in it.
[[nodiscard]] Result<std::vector<int>> parse_cpus(std::string_view list,
                                                  std::span<const int> allowed);

/// Lets this thread, and the threads and processes that it starts later, run on these CPUs only.
/// @param cpus Some of cpus_allowed(); not empty.
void pin_to_cpus(std::span<const int> cpus);
/// Pins this thread to one CPU. Threads that must run at the same time need this: for the first
/// milliseconds Linux may keep both on one CPU.
inline void pin_to_cpu(int cpu) { pin_to_cpus({&cpu, 1}); }

/// Asks Linux for short time slices, so that this thread runs soon after it has woken although
/// other threads are busy. For threads that work briefly and seldom. Needs no privilege; has no
/// effect before Linux 6.12 or under a real-time policy.
void take_short_slices();

/// Returns this thread's CPU time. Other programs' work does not count.
[[nodiscard]] Duration thread_cpu_time();

}  // namespace tributary
