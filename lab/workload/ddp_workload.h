// SPDX-License-Identifier: Apache-2.0
/// @file
/// What one iteration of data-parallel training asks of a worker: how long it computes, and which
/// buckets of gradients become ready when, as PyTorch's DistributedDataParallel (DDP) does it.
///
/// Model:   DDP fills buckets with whole tensors in the order in which gradients become ready (the
///          last layer's first) and closes a bucket that has reached its cap: 1 MiB for the first,
///          25 MiB for the others. A bucket is all-reduced as soon as it is full, while the
///          backward pass goes on. (DDP's very first iteration, one bucket of everything, is left
///          out: it says nothing about the others.)
///          A bucket is ready when the backward pass has gone through all its layers; time within
///          the pass goes by the layers' multiply-adds.
///          Computation is scaled from one published figure by multiply-adds, see compute_time().
/// Units:   float32 elements; times as Duration.
/// Source:  Caps and rule: PyTorch's documentation of DDP; sizes agree with those observed for
///          ResNet18, ResNet50, VGG11 and MobileNetV2.
/// Tests:   tests/lab/workload/ddp_workload_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "lab/scenario.h"
#include "lab/workload/dnn_shape.h"

namespace tributary::lab {

inline constexpr uint64_t kDdpFirstBucketBytes = uint64_t{1} << 20;
inline constexpr uint64_t kDdpBucketBytes = uint64_t{25} << 20;

struct Bucket {
  uint64_t elements;
  Duration ready_at;  ///< From the beginning of the backward pass.
};

struct Workload {
  Duration forward;
  Duration backward;
  std::vector<Bucket> buckets;  ///< In the order in which they become ready.

  [[nodiscard]] uint64_t elements() const;
};

/// Images a second of one worker for ResNet50. Assumed: about what NVIDIA publishes for ResNet50
/// training in PyTorch with TF32 on one A100 (940 images/s); the paper's servers have one A100 each
/// (Trio paper §6.1), its text gives no iteration times.
inline constexpr uint64_t kResnet50ImagesPerSecond = 940;
/// The backward pass computes gradients of weights and of inputs, each as costly as the forward
/// pass. Assumed, as is usual.
inline constexpr int64_t kBackwardPerForward = 2;

/// Forward and backward computation of one iteration. The other networks run at ResNet50's rate of
/// multiply-adds. Assumed: their layers use the GPU as well as ResNet50's do.
[[nodiscard]] Duration compute_time(const DnnShape& shape);

/// The workload of a network.
[[nodiscard]] Workload ddp_workload(const DnnShape& shape);

/// The workload a scenario asks for. With train k a simulated element stands for k: buckets are
/// divided by k, rounded up. @pre The scenario passed check().
[[nodiscard]] Workload workload_of(const Scenario& scenario);

}  // namespace tributary::lab
