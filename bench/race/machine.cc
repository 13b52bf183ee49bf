// SPDX-License-Identifier: Apache-2.0
#include "bench/race/machine.h"

#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "bench/measure.h"

namespace tributary::race {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kHandoffSamples = 21;
constexpr uint32_t kHandoffsEach = 2'000;  ///< Round trips; about 0.2 ms near, 0.6 ms far.
constexpr size_t kApartBytes = 128;        ///< Two cache lines, because some processors fetch
                                           ///< pairs.

/// A number that two threads pass to each other.
struct alignas(kApartBytes) Ball {
  std::atomic<uint64_t> turns{0};
};

/// Passes the ball back whenever `turns` has `parity`, until `end`. An occasional yield lets the
/// other thread run if both share one core.
void play(Ball& ball, uint64_t parity, uint64_t end) {
  uint32_t idle = 0;
  for (uint64_t turns; (turns = ball.turns.load(std::memory_order_acquire)) < end;) {
    if (turns % 2 == parity) {
      // Pairs with the other thread's acquire above.
      ball.turns.store(turns + 1, std::memory_order_release);
      idle = 0;
    } else if (++idle % 10'000 == 0) {
      std::this_thread::yield();
    }
  }
}

}  // namespace

std::string processor_in(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

Machine observe_machine() {
  Machine machine;
  machine.processor = processor_in(bench::text_of("/proc/cpuinfo"));
  machine.cores = static_cast<uint32_t>(cpus_allowed().size());
  utsname names{};
  if (uname(&names) == 0) machine.kernel = names.release;
  std::istringstream(bench::text_of("/proc/loadavg")) >> machine.load;
  return machine;
}

double measure_handoff() {
  const std::vector<int> cores = cpus_allowed();
  if (cores.size() < 2) return 0;
  constexpr uint64_t kEnd = uint64_t{2} * kHandoffsEach * kHandoffSamples;
  Ball ball;
  std::thread other([&] {
    pin_to_cpu(cores[1]);
    play(ball, 1, kEnd);
  });
  std::vector<double> samples;
  std::thread self([&] {
    pin_to_cpu(cores[0]);
    for (uint64_t i = 1; i <= kHandoffSamples; i++) {
      const auto begin = std::chrono::steady_clock::now();
      play(ball, 0, uint64_t{2} * kHandoffsEach * i);
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      samples.push_back(took.count() / (2.0 * kHandoffsEach));
    }
  });
  self.join();
  other.join();
  std::nth_element(samples.begin(), samples.begin() + kHandoffSamples / 2, samples.end());
  return samples[kHandoffSamples / 2];
}

double cpu_seconds_of(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

PacketThreads::PacketThreads() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    if (!bench::text_of(entry.path() / "comm").starts_with("ksoftirqd/")) continue;
    paths_.push_back(entry.path() / "schedstat");
  }
}

double PacketThreads::cpu_seconds() const {
  double sum_ns = 0;
  for (const std::string& path : paths_) {
    double running_ns = 0;  // The first number. Source: Linux, sched-stats.rst.
    std::istringstream(bench::text_of(path)) >> running_ns;
    sum_ns += running_ns;
  }
  return sum_ns * 1e-9;
}

}  // namespace tributary::race
