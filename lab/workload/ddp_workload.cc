// SPDX-License-Identifier: Apache-2.0
#include "lab/workload/ddp_workload.h"

namespace tributary::lab {
namespace {

constexpr uint64_t kElementBytes = 4;
__extension__ using Wide = unsigned __int128;

/// total * part / whole, without leaving 64 bits.
Duration share(Duration total, uint64_t part, uint64_t whole) {
  if (whole == 0) return total;
  const auto ticks = static_cast<Wide>(total.ticks()) * part / whole;
  return Duration::from_ticks(static_cast<int64_t>(ticks));
}

Workload custom(const ModelSettings& model) {
  Workload workload{.forward = model.forward, .backward = model.backward, .buckets = {}};
  const uint64_t count = model.bucket_bytes.size();
  for (uint64_t i = 0; i < count; i++) {
    workload.buckets.push_back(
        {.elements = (model.bucket_bytes[i] + kElementBytes - 1) / kElementBytes,
         .ready_at = share(model.backward, i + 1, count)});
  }
  return workload;
}

}  // namespace

uint64_t Workload::elements() const {
  uint64_t sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.elements;
  return sum;
}

Duration compute_time(const DnnShape& shape) {
  const DnnShape& reference = dnn_shape(Model::kResnet50);
  return share(seconds(1), shape.batch * shape.multiply_adds(),
               kResnet50ImagesPerSecond * reference.multiply_adds());
}

Workload ddp_workload(const DnnShape& shape) {
  const Duration computed = compute_time(shape);
  Workload workload;
  workload.forward = computed / (1 + kBackwardPerForward);
  workload.backward = computed - workload.forward;
  const uint64_t work = shape.multiply_adds();
  uint64_t done = 0;
  uint64_t filled = 0;
  uint64_t cap_bytes = kDdpFirstBucketBytes;
  for (size_t i = shape.tensors.size(); i-- > 0;) {
    done += shape.tensors[i].multiply_adds;
    filled += shape.tensors[i].elements;
    if (filled * kElementBytes < cap_bytes && i > 0) continue;
    workload.buckets.push_back(
        {.elements = filled, .ready_at = share(workload.backward, done, work)});
    filled = 0;
    cap_bytes = kDdpBucketBytes;
  }
  return workload;
}

Workload workload_of(const Scenario& scenario) {
  const ModelSettings& model = scenario.model;
  Workload workload;
  if (model.kind != Model::kCustom) {
    workload = ddp_workload(dnn_shape(model.kind));
    if (model.backward != Duration()) {
      for (Bucket& bucket : workload.buckets) {
        bucket.ready_at = share(model.backward, static_cast<uint64_t>(bucket.ready_at.ticks()),
                                static_cast<uint64_t>(workload.backward.ticks()));
      }
      workload.backward = model.backward;
    }
    if (model.forward != Duration()) workload.forward = model.forward;
  } else {
    workload = custom(model);
  }
  for (Bucket& bucket : workload.buckets) {
    bucket.elements = (bucket.elements + scenario.train - 1) / scenario.train;
  }
  return workload;
}

}  // namespace tributary::lab
