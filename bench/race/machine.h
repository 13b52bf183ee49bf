// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a race ran on, and how it was while it ran: a virtual machine's cores may share a cache in
/// one minute and not in the next, and other programs may be running.
///
/// Units:   Nanoseconds and seconds, as the names say.
/// Threads: measure_handoff() starts two and ends them.
/// Errors:  None; what cannot be read is empty or 0.
/// Tests:   tests/bench/race/machine_test.cc
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tributary::race {

struct Machine {
  std::string processor;  ///< As /proc/cpuinfo calls it.
  uint32_t cores = 0;     ///< That this process may use.
  std::string kernel;
  double load = 0;  ///< Processes that ran or wanted to, mean over the last minute.
};
[[nodiscard]] Machine look_at_machine();

/// The first "model name" of /proc/cpuinfo's text.
[[nodiscard]] std::string processor_in(const std::string& cpuinfo);

/// One way of a cache line between the first two cores that this process may use, the median of
/// many, in nanoseconds; 0 with one core. Takes a few milliseconds.
[[nodiscard]] double measure_handoff();

/// CPU time of a process so far, in seconds; 0 if it has gone.
[[nodiscard]] double cpu_seconds_of(pid_t pid);

/// CPU time of the kernel's threads that process packets when nobody else does (ksoftirqd).
class PacketThreads {
 public:
  PacketThreads();
  /// Of all of them since the machine's start, in seconds.
  [[nodiscard]] double cpu_seconds() const;

 private:
  std::vector<std::string> paths_;
};

}  // namespace tributary::race
