// SPDX-License-Identifier: Apache-2.0
/// @file
/// The machine of a race and its state during the race. A virtual machine's cores may share a cache
/// in one minute and not in the next, and other programs may run.
///
/// Units:   Nanoseconds and seconds, as the names say.
/// Threads: measure_handoff() starts two threads and ends them.
/// Errors:  None; a value that cannot be read is empty or 0.
/// Tests:   tests/bench/race/machine_test.cc
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tributary::race {

struct Machine {
  std::string processor;  ///< The name in /proc/cpuinfo.
  uint32_t cores = 0;     ///< CPUs that this process may use.
  std::string kernel;
  double load = 0;  ///< Load average of the last minute.
};
[[nodiscard]] Machine observe_machine();

/// Returns the first "model name" in the text of /proc/cpuinfo.
[[nodiscard]] std::string processor_in(const std::string& cpuinfo);

/// Measures the time of a cache line's one-way transfer between the first two CPUs that this
/// process may use. Returns the median in nanoseconds; 0 with one CPU. Takes a few milliseconds.
[[nodiscard]] double measure_handoff();

/// Returns a process's CPU time so far in seconds; 0 if it has ended.
[[nodiscard]] double cpu_seconds_of(pid_t pid);

/// CPU time of the kernel's own packet-processing threads (ksoftirqd).
class PacketThreads {
 public:
  PacketThreads();
  /// Returns the sum over all of them since the machine's start, in seconds.
  [[nodiscard]] double cpu_seconds() const;

 private:
  std::vector<std::string> paths_;
};

}  // namespace tributary::race
