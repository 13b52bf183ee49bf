// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures the rows of the parts benchmark, and declares the rows that have a file of their own.
///
/// Method:  See parts_bench.h.
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

/// Gradients in a packet when the engine is measured.
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

/// Runs `once`, which does `each` things, until `wanted` are done.
/// @return millions of things per second.
template <class F>
[[nodiscard]] double millions_per_s(uint64_t wanted, uint64_t each, F&& once) {
  uint64_t done = 0;
  const double begin_s = thread_cpu_s();
  for (; done < wanted; done += each) once();
  return static_cast<double>(done) / (thread_cpu_s() - begin_s) * 1e-6;
}

/// Runs generations through `engine` and returns millions of packets per second.
[[nodiscard]] inline double aggregate(ReplayEngine& engine, const ReplayLoad& load,
                                      uint64_t packets, uint16_t& gen_id) {
  return millions_per_s(packets, load.packets().size(), [&] { engine.run(++gen_id); });
}

// cores_bench.cc: two cores at once, compared with each alone. cores_row() measures the engine.
[[nodiscard]] PartsBenchRow cores_row(const PartsBenchConfig& config);
/// Measures only the engine's vector loops over the same packets: the machine's limit for moving
/// bytes.
[[nodiscard]] PartsBenchRow cores_vectors_row(const PartsBenchConfig& config);
/// Measures additions in registers. Below 1, the two CPUs are not two full cores or are shared.
[[nodiscard]] PartsBenchRow cores_registers_row(const PartsBenchConfig& config);

}  // namespace tributary::bench
