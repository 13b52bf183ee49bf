// SPDX-License-Identifier: Apache-2.0
/// @file
/// The optimiser: Adam with bias correction, over one flat vector.
///
/// Source:  Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm 1.
/// Exact:   Equal gradients give equal bits on every machine.
/// Threads: One object, one thread.
/// Tests:   tests/lab/training/adam_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tributary::lab {

class Adam {
 public:
  struct Config {
    float rate = 2.0e-3F;     ///< Step size.
    float decay1 = 0.9F;      ///< Decay of the mean. Source: the paper's default.
    float decay2 = 0.999F;    ///< Decay of the mean square. Source: the paper's default.
    float epsilon = 1.0e-8F;  ///< Source: the paper's default.
  };

  Adam(const Config& config, uint32_t parameter_count);

  /// Takes one step along `gradients`. Both have shape [parameter_count].
  void update(std::span<const float> gradients, std::span<float> parameters);

 private:
  const Config config_;
  double decay1_power_ = 1;         ///< decay1 to the power of the steps so far.
  double decay2_power_ = 1;         ///< The same of decay2.
  std::vector<float> mean_;         ///< Shape [parameter_count].
  std::vector<float> mean_square_;  ///< Shape [parameter_count].
};

}  // namespace tributary::lab
