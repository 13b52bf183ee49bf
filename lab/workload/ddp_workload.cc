// SPDX-License-Identifier: Apache-2.0
#include "lab/workload/ddp_workload.h"

#include <algorithm>

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

/// Delays each bucket by its copy to the host, and the forward pass by the last bucket's copy back.
void add_staging(Workload& workload, double gbps) {
  Duration free_at;
  Duration copy;
  for (Bucket& bucket : workload.buckets) {
    copy = from_seconds(static_cast<double>(bucket.elements) * kElementBytes * 8 / (gbps * 1e9));
    free_at = std::max(free_at, bucket.ready_at) + copy;
    bucket.ready_at = free_at;
  }
  workload.backward = std::max(workload.backward, free_at);
  workload.forward += copy;
}

}  // namespace

uint64_t Workload::elements() const {
  uint64_t sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.elements;
  return sum;
}

std::vector<Duration> Workload::forward_ends() const {
  std::vector<Duration> ends;
  for (size_t i = 0; i < buckets.size(); i++) {
    // The forward pass visits the layers in the opposite order: it ends bucket i's layers where the
    // backward pass begins them.
    const Duration ahead = i == 0 ? Duration() : buckets[i - 1].ready_at;
    ends.push_back(backward == Duration()
                       ? share(forward, buckets.size() - i, buckets.size())
                       : share(forward, static_cast<uint64_t>((backward - ahead).ticks()),
                               static_cast<uint64_t>(backward.ticks())));
  }
  return ends;
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
  if (!model.overlap_backward) {
    for (Bucket& bucket : workload.buckets) bucket.ready_at = workload.backward;
  }
  if (model.staging_gbps > 0) add_staging(workload, model.staging_gbps);
  workload.forward += model.input;
  for (Bucket& bucket : workload.buckets) {
    bucket.elements = (bucket.elements + scenario.train - 1) / scenario.train;
  }
  return workload;
}

}  // namespace tributary::lab
