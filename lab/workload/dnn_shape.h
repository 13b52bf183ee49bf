// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parameters of well-known networks: each tensor, in PyTorch's order of registration, with its
/// multiply-adds. Built from the networks' structure, so bucket sizes and the order of gradients
/// follow from rules, not tables.
///
/// Units:   Elements (float32) and multiply-adds of one forward pass of one image of 224 x 224.
/// Source:  The networks' papers (ResNet: He et al. 2016; VGG: Simonyan, Zisserman 2015; DenseNet:
///          Huang et al. 2017; MobileNetV2: Sandler et al. 2018) with torchvision's order of
///          layers.
/// Tests:   tests/lab/workload/dnn_shape_test.cc (parameter counts are torchvision's)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/scenario.h"

namespace tributary::lab {

struct DnnTensor {
  uint64_t elements;
  uint64_t multiply_adds;  ///< Work of the layer that a weight belongs to; 0 for biases and norms.
};

struct DnnShape {
  Model id;
  std::string name;
  std::string description;  ///< One line.
  uint32_t batch;           ///< Images an iteration and worker.
  std::vector<DnnTensor> tensors;

  [[nodiscard]] uint64_t elements() const;
  [[nodiscard]] uint64_t multiply_adds() const;
};

/// Returns a row for each Model but kCustom, in their order. The first call builds them. Any thread
/// may call it.
[[nodiscard]] const std::vector<DnnShape>& dnn_shapes();
/// @param model Not kCustom.
[[nodiscard]] const DnnShape& dnn_shape(Model model);

}  // namespace tributary::lab
