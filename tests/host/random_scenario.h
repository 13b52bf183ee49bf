// SPDX-License-Identifier: Apache-2.0
/// @file
/// A scenario drawn from a seed: everything that may be combined, small enough to run in
/// milliseconds.
///
/// Tests:   used by tests/host/virtual_network_test.cc
#pragma once

#include <algorithm>
#include <bit>

#include "tests/host/net_scenario.h"

namespace tributary::testing {

namespace detail {

/// Small numbers as often as large ones: 1 … max.
inline uint32_t log_uniform(Prng& prng, uint32_t max) {
  const uint32_t bits = prng.below(static_cast<uint32_t>(std::bit_width(max)));
  return std::min(max, (1U << bits) + prng.below(1U << bits));
}

/// A rate that is often zero, else uniform up to `max`.
inline double rate(Prng& prng, double max) { return prng.chance(0.3) ? 0.0 : max * prng.unit(); }

}  // namespace detail

inline ScenarioConfig random_scenario(uint64_t seed) {
  Prng prng(seed);
  ScenarioConfig config;
  config.seed = seed;
  config.faults = {.loss = detail::rate(prng, 0.3),
                   .corrupt = detail::rate(prng, 0.02),
                   .duplicate = detail::rate(prng, 0.2),
                   .reorder = detail::rate(prng, 0.3),
                   .delay = microseconds(5 + prng.below(200))};
  config.job.block_cnt_max = 4U << prng.below(5);
  config.job.block_grad_max = 32;
  config.job.history = 1 + prng.below(3);
  config.job.mitigation = prng.chance(0.5);
  config.job.timeout = milliseconds(10 + prng.below(30));
  config.world = 2 + prng.below(5);
  if (prng.chance(0.3)) {
    const uint32_t left = 1 + prng.below(config.world - 1);
    config.leaves = {left, config.world - left};
  }
  config.gradients = detail::log_uniform(prng, 32);
  config.window = 4 + prng.below(61);
  config.in_flight = 1 + prng.below(3);
  config.pauses = prng.chance(0.5) ? 0 : 1 + prng.below(3);
  config.garbage = prng.chance(0.3);
  const uint32_t collectives = 1 + prng.below(5);
  for (uint32_t i = 0; i < collectives; i++) {
    config.work.push_back({.element_count = detail::log_uniform(prng, 2000),
                           .format = static_cast<microcode::ElementFormat>(prng.below(3)),
                           .op = prng.chance(0.5) ? host::ReduceOp::kSum : host::ReduceOp::kMean});
  }
  return config;
}

}  // namespace tributary::testing
