// SPDX-License-Identifier: Apache-2.0
// Method: lists that differ in one thing.
#include "plan/plan_digest.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tributary::plan {
namespace {

using List = std::vector<WeightedAggregator>;

TEST(PlanDigest, EqualListsAreEqualAndOthersDiffer) {
  const List list{{"10.0.0.1:12000", 1}, {"10.0.0.2:12000", 2}};
  EXPECT_EQ(plan_digest(list), plan_digest(List(list)));
  const std::vector<List> others{list,
                                 {},
                                 {{"", 0}},
                                 {{"10.0.0.1:12000", 1}},
                                 {{"10.0.0.1:12000", 1}, {"10.0.0.2:12000", 3}},
                                 {{"10.0.0.1:12000", 1}, {"10.0.0.2:12000", 2U << 24}},
                                 {{"10.0.0.1:12000", 1}, {"10.0.0.2:12001", 2}},
                                 {{"10.0.0.2:12000", 2}, {"10.0.0.1:12000", 1}},
                                 {{"10.0.0.1:1200", 1}, {"010.0.0.2:12000", 2}}};
  std::set<uint64_t> digests;
  for (const List& other : others) digests.insert(plan_digest(other));
  EXPECT_EQ(digests.size(), others.size());
}

TEST(PlanDigest, ValueIsTheSameOnEveryMachine) {
  // Computed by a few lines of Python.
  EXPECT_EQ(plan_digest(List{{"10.0.0.1:12000", 258}}), 0xa691720be7324453ULL);
}

}  // namespace
}  // namespace tributary::plan
