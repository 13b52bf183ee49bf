// SPDX-License-Identifier: Apache-2.0
/// @file
/// One iteration of data-parallel training: its computation time, and the times at which PyTorch's
/// DistributedDataParallel (DDP) has buckets of gradients ready.
///
/// Model:   DDP fills buckets with whole tensors, the last layer's first, and closes a bucket at
///          its cap: 1 MiB for the first, 25 MiB for the others. It reduces a full bucket while the
///          backward pass continues. A bucket is ready when the pass has gone through its layers;
///          multiply-adds set the time within the pass. DDP's first iteration, one bucket, is left
///          out. See compute_time() for the times.
/// Source:  Caps and rule: PyTorch's documentation of DDP. Sizes agree with observed ones for
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
  /// Returns when the forward pass reaches the end of each bucket's layers, from its beginning. It
  /// goes through the buckets from the last one to the first. A bucket's layers have the same share
  /// of either pass, because both cost a multiple of the same multiply-adds. Shape [buckets].
  [[nodiscard]] std::vector<Duration> forward_ends() const;
};

/// Images a second of one worker for ResNet50. Assumed: about NVIDIA's published figure for
/// ResNet50 training in PyTorch with TF32 on one A100 (940 images/s). The paper's servers have one
/// A100 each (Trio paper §6.1). Its text gives no iteration times.
inline constexpr uint64_t kResnet50ImagesPerSecond = 940;
/// The backward pass computes gradients of weights and of inputs, each as costly as the forward
/// pass. Assumed, as is usual.
inline constexpr int64_t kBackwardPerForward = 2;

/// Returns the forward and backward computation of one iteration. Other networks run at ResNet50's
/// rate of multiply-adds. Assumed: their layers use the GPU as well as ResNet50's do.
[[nodiscard]] Duration compute_time(const DnnShape& shape);

/// Returns the workload of a network.
[[nodiscard]] Workload ddp_workload(const DnnShape& shape);

/// Returns the workload of a scenario. With a train of k a simulated element represents k: buckets
/// are divided by k, rounded up. The input pipeline counts to the forward pass. With staging, a
/// bucket is ready when it has been copied to the host, one bucket after the other, and the copy of
/// the last bucket's sum back to the GPU counts to the next forward pass; those of the others
/// overlap with communication. @pre The scenario passed check().
[[nodiscard]] Workload workload_of(const Scenario& scenario);

}  // namespace tributary::lab
