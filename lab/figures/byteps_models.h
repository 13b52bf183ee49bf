// SPDX-License-Identifier: Apache-2.0
/// @file
/// The networks that the BytePS paper trains: gradients, computation on a V100, and the times at
/// which gradients are ready. The paper's text has none of them.
///
/// Model:   Nothing is calibrated: each number has a source of its own (byteps_models.cc). The
///          forward pass takes a third of the computation, as in lab/workload/ddp_workload.h.
/// Units:   Bytes, milliseconds.
/// Threads: Pure functions.
/// Tests:   tests/lab/figures/byteps_figures_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "lab/scenario.h"

namespace tributary::lab {

/// Computation on a V100 over that on a P100. Assumed: the ratio of their peak rates of 32-bit
/// operations, 9.3 to 14.0 (PCIe) and 10.6 to 15.7 TFLOPS (SXM2) in NVIDIA's datasheets.
inline constexpr double kV100OverP100 = 1 / 1.5;

struct BytepsModel {
  const char* name;
  Model kind;
  Duration forward;
  Duration backward;
  /// For kCustom: bytes of gradients that are ready after each equal part of the backward pass.
  std::vector<uint64_t> bucket_bytes;
  uint32_t train;  ///< Packets that one simulated packet represents.

  [[nodiscard]] Duration computation() const { return forward + backward; }
};

/// UGATIT, 2 images for each GPU (§7.2).
[[nodiscard]] BytepsModel ugatit_model();
/// ResNet-50, 128 images for each GPU.
[[nodiscard]] BytepsModel resnet50_model();
/// VGG-16, 32 images for each GPU.
[[nodiscard]] BytepsModel vgg16_model();
/// BERT-large, 64 sequences of 128 tokens for each GPU, gradients in 16 bits.
[[nodiscard]] BytepsModel bert_large_model();

/// Gives a scenario a network's gradients and computation.
void train_model(Scenario& scenario, const BytepsModel& model);

}  // namespace tributary::lab
