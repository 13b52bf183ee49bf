// SPDX-License-Identifier: Apache-2.0
#include "host/straggler_pattern.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/prng.h"

namespace tributary::host {

SlowWorkerPattern::SlowWorkerPattern(double probability, Duration typical_iteration, uint64_t seed)
    : probability_(probability),
      typical_iteration_(typical_iteration),
      // Mixed once, so that neighbouring seeds do not share generators below.
      seed_(Prng(seed).any_u64()) {
  TRIB_ASSERT(probability >= 0 && probability <= 1);
  TRIB_ASSERT(typical_iteration >= Duration());
}

Duration SlowWorkerPattern::delay_at(uint64_t delay_point) const {
  Prng prng(Prng(seed_ ^ delay_point).any_u64());
  if (!prng.chance(probability_)) return Duration();
  const double factor = kDelayFactorMin + (kDelayFactorMax - kDelayFactorMin) * prng.unit();
  return Duration::from_ticks(
      static_cast<int64_t>(static_cast<double>(typical_iteration_.ticks()) * factor));
}

OneSlowWorkerPattern::OneSlowWorkerPattern(double probability, Duration typical_iteration,
                                           uint32_t workers, uint64_t seed)
    : delays_(probability, typical_iteration, seed),
      workers_(workers),
      choice_seed_(Prng(~seed).any_u64()) {
  TRIB_ASSERT(workers > 0);
}

Duration OneSlowWorkerPattern::delay_at(uint32_t worker, uint64_t delay_point) const {
  Prng choice(Prng(choice_seed_ ^ delay_point).any_u64());
  return choice.below(workers_) == worker ? delays_.delay_at(delay_point) : Duration();
}

HeavyTailPattern::HeavyTailPattern(double p99_over_p50, uint64_t seed)
    : ratio_(p99_over_p50), seed_(Prng(seed).any_u64()) {
  TRIB_ASSERT(p99_over_p50 >= 1);
}

double HeavyTailPattern::factor_at(uint64_t iteration) const {
  constexpr double kMedian = 1.4142135623730951;  // 1 / sqrt(1 - 0.5)
  constexpr double kP99 = 10;                     // 1 / sqrt(1 - 0.99)
  constexpr double kLeastRest = 0.0001;
  Prng prng(Prng(seed_ ^ iteration).any_u64());
  const double rest = std::max(1 - prng.unit(), kLeastRest);
  // A square root has the same bits everywhere (IEEE 754), unlike pow().
  const double factor = 1 + (ratio_ - 1) * (1 / std::sqrt(rest) - kMedian) / (kP99 - kMedian);
  return std::max(factor, kTailFactorMin);
}

}  // namespace tributary::host
