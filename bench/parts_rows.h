// SPDX-License-Identifier: Apache-2.0
/// @file
/// How the rows of the parts' benchmark are measured, and those rows that have a file of their own.
///
/// Method:  parts_bench.h.
/// Tests:   tests/bench/parts_bench_test.cc (small)
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/measure.h"
#include "bench/parts_bench.h"
#include "bench/replay_engine.h"
#include "bench/replay_load.h"

namespace tributary::bench {

/// Of a packet, where the engine is measured.
inline constexpr uint32_t kGradients = 256;

/// Measures `part` and `baseline` in turn; each returns its rate in the row's unit.
template <class Part, class Baseline>
void measure_pairs(PartsBenchRow& row, uint32_t repetitions, Part&& part, Baseline&& baseline) {
  std::vector<double> rates, baseline_rates, ratios;
  part();  // Warm-up.
  baseline();
  for (uint32_t i = 0; i < repetitions; i++) {
    rates.push_back(part());
    baseline_rates.push_back(baseline());
    ratios.push_back(rates.back() / baseline_rates.back());
  }
  row.rate = median(rates);
  row.baseline_rate = median(baseline_rates);
  row.ratio = median(ratios);
  row.ratio_min = *std::min_element(ratios.begin(), ratios.end());
  row.ratio_max = *std::max_element(ratios.begin(), ratios.end());
}

/// Runs `once` until `wanted` things are done, `each` at a time. @return millions a second.
template <class F>
[[nodiscard]] double millions_per_s(uint64_t wanted, uint64_t each, F&& once) {
  uint64_t done = 0;
  const double begin_s = thread_cpu_s();
  for (; done < wanted; done += each) once();
  return static_cast<double>(done) / (thread_cpu_s() - begin_s) * 1e-6;
}

/// Millions of packets a second through `engine`, generation after generation.
[[nodiscard]] inline double aggregate(ReplayEngine& engine, const ReplayLoad& load,
                                      uint64_t packets, uint16_t& gen_id) {
  return millions_per_s(packets, load.packets().size(), [&] { engine.run(++gen_id); });
}

// cores_bench.cc: what two cores do at once beside what each does alone.
/// The engine.
[[nodiscard]] PartsBenchRow cores_row(const PartsBenchConfig& config);
/// The engine's vector loops over the same packets and nothing else: the machine's own limit where
/// bytes are moved.
[[nodiscard]] PartsBenchRow cores_vectors_row(const PartsBenchConfig& config);
/// Additions in registers: below 1 the two cores are no two cores, or not always ours.
[[nodiscard]] PartsBenchRow cores_registers_row(const PartsBenchConfig& config);

}  // namespace tributary::bench
