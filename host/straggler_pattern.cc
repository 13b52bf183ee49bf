// SPDX-License-Identifier: Apache-2.0
#include "host/straggler_pattern.h"

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

}  // namespace tributary::host
