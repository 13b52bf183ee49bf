// SPDX-License-Identifier: Apache-2.0
// Method: two buckets by hand, then random workloads against a simulation that carries one packet
// of the most urgent ready bucket in each step.
#include "lab/workload/iteration_time.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

constexpr auto us = [](int64_t count) { return microseconds(count); };

TEST(IterationTime, TwoBucketsByHand) {
  // Backward 20: bucket 0 is ready at 10 and bucket 1 at 20. Forward 40: 20 of bucket 1, then 20 of
  // bucket 0.
  const Workload workload{
      .forward = us(40), .backward = us(20), .buckets = {{1, us(10)}, {1, us(20)}}};
  // Bucket 0 takes 100 and bucket 1 takes 5. In arrival order all sums are there at 10 + 105; 40
  // follow. By priority, bucket 1 takes 20 to 25 and bucket 0 the rest up to 115. The forward pass
  // of bucket 1 is over at 45, that of bucket 0 follows the last sum: 115 + 20.
  EXPECT_EQ(waiting_iteration(workload, std::array{us(100), us(5)}), us(155));
  EXPECT_EQ(least_iteration(workload, std::array{us(100), us(5)}), us(135));
  // Bucket 0 takes 15: all sums are there at 30. By priority, bucket 1 takes 20 to 25, and bucket 0
  // the rest up to 30. The forward pass begins at 25 and has no gap: 25 + 40.
  EXPECT_EQ(waiting_iteration(workload, std::array{us(15), us(5)}), us(70));
  EXPECT_EQ(least_iteration(workload, std::array{us(15), us(5)}), us(65));
  // Without communication, computation remains.
  EXPECT_EQ(waiting_iteration(workload, std::array{us(0), us(0)}), us(60));
  EXPECT_EQ(least_iteration(workload, std::array{us(0), us(0)}), us(60));
}

/// Returns the iteration time if each microsecond carries a part of the last or of the first bucket
/// that is ready.
int64_t simulated(const Workload& workload, const std::vector<int64_t>& transfers,
                  bool by_priority) {
  std::vector<int64_t> left = transfers;
  std::vector<int64_t> sum_at(left.size());
  for (int64_t now = 0, busy = 1; busy > 0; now++) {
    busy = 0;
    size_t chosen = left.size();
    for (size_t k = 0; k < left.size(); k++) {
      busy += left[k];
      if (left[k] == 0) continue;
      const bool ready = workload.buckets[k].ready_at <= us(now);
      if (ready && (by_priority || chosen == left.size())) chosen = k;
    }
    if (chosen < left.size() && --left[chosen] == 0) sum_at[chosen] = now + 1;
  }
  const std::vector<Duration> ends = workload.forward_ends();
  Duration now = workload.backward;
  Duration reached;
  if (!by_priority) {
    for (const int64_t at : sum_at) now = std::max(now, us(at));
  }
  for (size_t k = left.size(); k-- > 0;) {
    now = std::max(now, us(sum_at[k])) + (ends[k] - reached);
    reached = ends[k];
  }
  return in_nanoseconds(now) / 1000;
}

TEST(IterationTime, RandomWorkloadsMatchTheSimulation) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 500; step++) {
    const int64_t count = 1 + prng.below(6);
    Workload workload;
    workload.forward = us(count * prng.below(40));
    workload.backward = us(count * (1 + prng.below(40)));
    std::vector<int64_t> transfers;
    std::vector<Duration> times;
    for (int64_t k = 0; k < count; k++) {
      workload.buckets.push_back({1, workload.backward / count * (k + 1)});
      transfers.push_back(1 + prng.below(60));
      times.push_back(us(transfers.back()));
    }
    ASSERT_EQ(waiting_iteration(workload, times), us(simulated(workload, transfers, false)));
    ASSERT_EQ(least_iteration(workload, times), us(simulated(workload, transfers, true)));
  }
}

}  // namespace
}  // namespace tributary::lab
