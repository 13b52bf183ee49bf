// SPDX-License-Identifier: Apache-2.0
// Method: each part of the identity changes the number, and nothing else does.
#include "server/aggregator_id.h"

#include <gtest/gtest.h>

#include <set>

namespace tributary::server {
namespace {

TEST(AggregatorId, DependsOnMachineNameAndAddress) {
  const Endpoint here = Endpoint::ipv4(0x0a000001, 12000);
  const std::set<uint64_t> numbers{aggregator_id("abc", "box", here),
                                   aggregator_id("abd", "box", here),
                                   aggregator_id("abc", "bow", here),
                                   aggregator_id("ab", "cbox", here),
                                   aggregator_id("abc", "box", Endpoint::ipv4(0x0a000001, 12001)),
                                   aggregator_id("abc", "box", Endpoint::ipv4(0x0a000002, 12000))};
  EXPECT_EQ(numbers.size(), 6U);
  EXPECT_EQ(aggregator_id("abc", "box", here), aggregator_id("abc", "box", here));
}

TEST(AggregatorId, IsTheSameAfterARestart) {
  const Endpoint here = Endpoint::ipv4(0x0a000001, 12000);
  EXPECT_EQ(aggregator_id(here), aggregator_id(here));
}

}  // namespace
}  // namespace tributary::server
