// SPDX-License-Identifier: Apache-2.0
// The cost of a timer scan over 10 million live records, per record. "all_referenced" is the steady
// state of a busy store: every record was looked up since the last scan. "1%_idle" is a scan that
// finds stragglers. Setting the flags between scans is not timed, because each scan uses a copy.
// Baseline: a scan of one flag byte for each record.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/prng.h"
#include "memory/ref_bits.h"

namespace tributary::memory {
namespace {

constexpr uint32_t kRecords = 10'000'000;

/// Returns bits with all slots live; one in `idle_one_in` has its REF flag clear (0: none).
RefBits bits_with(uint32_t idle_one_in) {
  RefBits bits(kRecords);
  Prng prng(1);
  for (uint32_t slot = 0; slot < kRecords; slot++) {
    bits.mark_live(slot);
    if (idle_one_in != 0 && prng.below(idle_one_in) == 0) bits.test_and_clear(slot);
  }
  return bits;
}

void report(benchmark::State& state, uint64_t idle) {
  state.counters["idle_per_scan"] =
      static_cast<double>(idle) / static_cast<double>(state.iterations());
  // Prints seconds a record, scaled (p = picoseconds).
  state.counters["per_record"] = benchmark::Counter(
      kRecords, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void scan(benchmark::State& state, uint32_t idle_one_in) {
  const RefBits before = bits_with(idle_one_in);
  uint64_t idle = 0;
  RefBits bits = before;
  for (auto _ : state) {
    state.PauseTiming();
    bits = before;
    state.ResumeTiming();
    bits.scan_idle(0, kRecords, [&](uint32_t) { idle++; });
    benchmark::ClobberMemory();
  }
  report(state, idle);
}
BENCHMARK_CAPTURE(scan, all_referenced, 0);
BENCHMARK_CAPTURE(scan, one_percent_idle, 100);

void scan_flag_bytes(benchmark::State& state) {
  struct Flags {
    bool live, ref;
  };
  std::vector<Flags> flags(kRecords);
  uint64_t idle = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (Flags& flag : flags) flag = {true, true};
    state.ResumeTiming();
    for (Flags& flag : flags) {
      if (flag.live && !flag.ref) idle++;
      flag.ref = false;
    }
    benchmark::ClobberMemory();
  }
  report(state, idle);
}
BENCHMARK(scan_flag_bytes);

}  // namespace
}  // namespace tributary::memory
