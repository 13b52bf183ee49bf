// SPDX-License-Identifier: Apache-2.0
// Method: bucket sizes against those observed with PyTorch's DDP, then times by hand.
#include "lab/workload/ddp_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace tributary::lab {
namespace {

constexpr double kMib = 1 << 20;

std::vector<double> bucket_mib(Model model) {
  std::vector<double> sizes;
  for (const Bucket& bucket : ddp_workload(dnn_shape(model)).buckets) {
    sizes.push_back(static_cast<double>(bucket.elements) * 4 / kMib);
  }
  return sizes;
}

auto near(std::vector<double> expected) {
  return ::testing::Pointwise(::testing::DoubleNear(0.06), std::move(expected));
}

TEST(DdpWorkload, BucketsMatchDdp) {
  // Observed with PyTorch 1.13 from the second iteration on, in MiB.
  EXPECT_THAT(bucket_mib(Model::kResnet18), near({1.96, 27.5, 15.1}));
  EXPECT_THAT(bucket_mib(Model::kResnet50), near({7.8, 30.0, 25.0, 25.3, 9.3}));
  EXPECT_THAT(bucket_mib(Model::kVgg11), near({15.6, 64.0, 392.0, 27.0, 8.2}));
  EXPECT_THAT(bucket_mib(Model::kMobilenetV2), near({4.9, 8.5}));
  // Not observed, but by the same rule: three connected layers, then convolutions.
  EXPECT_THAT(bucket_mib(Model::kVgg16), near({15.6, 64.0, 392.0, 27.0, 27.0, 2.1}));
}

TEST(DdpWorkload, BucketsCoverTheModelInOrderOfReadiness) {
  for (const DnnShape& shape : dnn_shapes()) {
    const Workload workload = ddp_workload(shape);
    EXPECT_EQ(workload.elements(), shape.elements());
    Duration before;
    for (const Bucket& bucket : workload.buckets) {
      EXPECT_GE(bucket.ready_at, before);
      before = bucket.ready_at;
    }
    EXPECT_EQ(workload.buckets.back().ready_at, workload.backward);
    EXPECT_EQ(workload.forward + workload.backward, compute_time(shape));
  }
}

TEST(DdpWorkload, ComputeTimeScalesFromOneMeasurement) {
  // 64 images at 940 a second take 68.085 ms; VGG11 has 7.609 / 4.089 of the multiply-adds and
  // twice the images: 68.085 x 2 x 1.861 = 253.4 ms.
  EXPECT_NEAR(in_seconds(compute_time(dnn_shape(Model::kResnet50))), 0.068085, 1e-6);
  EXPECT_NEAR(in_seconds(compute_time(dnn_shape(Model::kVgg11))), 0.2534, 1e-4);
}

TEST(DdpWorkload, Vgg11HasItsLargestBucketEarly) {
  // Nearly all parameters are in the layers that the backward pass begins with: 103 + 17 + 4 of
  // 7,609 million multiply-adds, 1.6 %.
  const Workload workload = ddp_workload(dnn_shape(Model::kVgg11));
  const double share = in_seconds(workload.buckets[2].ready_at) / in_seconds(workload.backward);
  EXPECT_NEAR(share, 0.016, 0.001);
}

TEST(DdpWorkload, ScenarioMayOverrideTimesAndTrains) {
  Scenario scenario;
  scenario.model.forward = milliseconds(10);
  scenario.model.backward = milliseconds(100);
  scenario.train = 32;
  const Workload workload = workload_of(scenario);
  EXPECT_EQ(workload.forward, milliseconds(10));
  EXPECT_EQ(workload.buckets.back().ready_at, milliseconds(100));
  // The first bucket: 2,049,000 elements, a thirty-second of them, rounded up.
  EXPECT_EQ(workload.buckets[0].elements, 64'032U);
}

TEST(DdpWorkload, CustomBucketsBecomeReadyEvenly) {
  Scenario scenario;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {4, 5, 4000, 1},
                    .forward = microseconds(1),
                    .backward = microseconds(8)};
  const Workload workload = workload_of(scenario);
  ASSERT_EQ(workload.buckets.size(), 4U);
  EXPECT_EQ(workload.buckets[1].elements, 2U);  // 5 bytes need two elements.
  EXPECT_EQ(workload.buckets[1].ready_at, microseconds(4));
  EXPECT_EQ(workload.buckets[3].ready_at, microseconds(8));
}

TEST(DdpWorkload, ForwardPassMirrorsTheBackwardPass) {
  Workload workload{
      .forward = microseconds(30),
      .backward = microseconds(60),
      .buckets = {{1, microseconds(10)}, {1, microseconds(40)}, {1, microseconds(60)}}};
  // The last third of the backward pass is the first third of the forward pass.
  EXPECT_THAT(workload.forward_ends(),
              ::testing::ElementsAre(microseconds(30), microseconds(25), microseconds(10)));
  // Without a backward pass, buckets have equal parts.
  workload.backward = Duration();
  EXPECT_THAT(workload.forward_ends(),
              ::testing::ElementsAre(microseconds(30), microseconds(20), microseconds(10)));
}

TEST(DdpWorkload, PartsBesideComputationMatchHandWorkedTimes) {
  Scenario scenario;
  // 100 Mbit each: 10 ms at 10 Gbit/s.
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {12'500'000, 12'500'000},
                    .forward = milliseconds(30),
                    .backward = milliseconds(60)};
  const Workload plain = workload_of(scenario);
  ASSERT_EQ(plain.buckets.size(), 2U);
  EXPECT_EQ(plain.buckets[0].ready_at, milliseconds(30));

  scenario.model.input = milliseconds(5);
  scenario.model.staging_gbps = 10;
  const Workload staged = workload_of(scenario);
  EXPECT_EQ(staged.forward, milliseconds(30 + 5 + 10));
  EXPECT_EQ(staged.buckets[0].ready_at, milliseconds(40));
  EXPECT_EQ(staged.buckets[1].ready_at, milliseconds(70));
  EXPECT_EQ(staged.backward, milliseconds(70));

  scenario.model.overlap_backward = false;
  const Workload synchronous = workload_of(scenario);
  EXPECT_EQ(synchronous.buckets[0].ready_at, milliseconds(70));
  EXPECT_EQ(synchronous.buckets[1].ready_at, milliseconds(80));
}

}  // namespace
}  // namespace tributary::lab
