// SPDX-License-Identifier: Apache-2.0
#include "lab/report/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/assert.h"

namespace tributary::lab {

Sample sample_of(std::span<const double> values) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto is_finite = [](double value) { return std::isfinite(value); };
  Sample sample{static_cast<uint32_t>(values.size()), kNan, kNan, kNan, kNan, kNan};
  if (values.empty() || !std::all_of(values.begin(), values.end(), is_finite)) return sample;
  const auto count = static_cast<double>(values.size());
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  sample.low = *low;
  sample.high = *high;
  // The mean of equal values is exact, without the rounding of their sum.
  sample.mean = *low == *high ? *low : std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - sample.mean) * (value - sample.mean);
  sample.deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  sample.standard_error = sample.deviation / std::sqrt(count);
  return sample;
}

Sample sample_of_ratio(std::span<const double> numerators, std::span<const double> denominators) {
  const size_t count = std::max(numerators.size(), denominators.size());
  const auto repeat = [count](std::span<const double> values, size_t i) {
    TRIB_ASSERT(values.size() == count || values.size() == 1);
    return values[values.size() == 1 ? 0 : i];
  };
  std::vector<double> ratios;
  for (size_t i = 0; i < count; i++) {
    ratios.push_back(repeat(numerators, i) / repeat(denominators, i));
  }
  return sample_of(ratios);
}

}  // namespace tributary::lab
