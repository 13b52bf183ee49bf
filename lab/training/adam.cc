// SPDX-License-Identifier: Apache-2.0
#include "lab/training/adam.h"

#include <cmath>

#include "base/assert.h"

namespace tributary::lab {

Adam::Adam(const Config& config, uint32_t parameter_count)
    : config_(config), mean_(parameter_count), mean_square_(parameter_count) {}

void Adam::update(std::span<const float> gradients, std::span<float> parameters) {
  TRIB_ASSERT(gradients.size() == mean_.size() && parameters.size() == mean_.size());
  // Both means start at 0; dividing by 1 - decay^steps removes that bias.
  decay1_power_ *= double{config_.decay1};
  decay2_power_ *= double{config_.decay2};
  const auto rate = static_cast<float>(config_.rate / (1.0 - decay1_power_));
  const auto square_factor = static_cast<float>(1.0 / (1.0 - decay2_power_));
  for (size_t i = 0; i < mean_.size(); i++) {
    const float gradient = gradients[i];
    mean_[i] = config_.decay1 * mean_[i] + (1.0F - config_.decay1) * gradient;
    mean_square_[i] =
        config_.decay2 * mean_square_[i] + (1.0F - config_.decay2) * gradient * gradient;
    parameters[i] -=
        rate * mean_[i] / (std::sqrt(mean_square_[i] * square_factor) + config_.epsilon);
  }
}

}  // namespace tributary::lab
