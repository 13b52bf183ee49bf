// SPDX-License-Identifier: Apache-2.0
#include "lab/report/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tributary::lab {

Sample sample_of(std::span<const double> values) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto is_finite = [](double value) { return std::isfinite(value); };
  Sample sample{static_cast<uint32_t>(values.size()), kNan, kNan, kNan, kNan, kNan};
  if (values.empty() || !std::all_of(values.begin(), values.end(), is_finite)) return sample;
  const auto count = static_cast<double>(values.size());
  sample.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - sample.mean) * (value - sample.mean);
  sample.deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  sample.standard_error = sample.deviation / std::sqrt(count);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  sample.low = *low;
  sample.high = *high;
  return sample;
}

}  // namespace tributary::lab
