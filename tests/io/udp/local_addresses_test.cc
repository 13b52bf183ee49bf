// SPDX-License-Identifier: Apache-2.0
// Method: indexes by hand, a full table, then threads that add the same addresses.
#include "io/udp/local_addresses.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace tributary::io {
namespace {

Endpoint address(uint32_t number) { return Endpoint::ipv4(0x0a000000 + number, 0); }

TEST(LocalAddresses, GivesEachAddressOneIndexFromOne) {
  LocalAddresses table;
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.index_of(address(7)), 1);
  EXPECT_EQ(table.index_of(address(8)), 2);
  EXPECT_EQ(table.index_of(address(7)), 1);
  ASSERT_NE(table.find(2), nullptr);
  EXPECT_EQ(*table.find(2), address(8));
  EXPECT_EQ(table.find(3), nullptr);
}

TEST(LocalAddresses, FullTableGivesZeroAndKeepsItsAddresses) {
  LocalAddresses table;
  for (uint32_t i = 0; i < LocalAddresses::kAddressesMax; i++) {
    EXPECT_EQ(table.index_of(address(i)), i + 1);
  }
  EXPECT_EQ(table.index_of(address(1000)), 0);
  EXPECT_EQ(table.index_of(address(5)), 6);
  EXPECT_EQ(*table.find(6), address(5));
}

TEST(LocalAddresses, ThreadsAgreeOnTheIndexes) {
  constexpr uint32_t kThreads = 4;
  LocalAddresses table;
  std::array<std::vector<uint16_t>, kThreads> given;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; t++) {
    threads.emplace_back([&table, &mine = given[t]] {
      for (uint32_t i = 0; i < 100; i++) {
        mine.push_back(table.index_of(address(i)));
        if (mine.back() == 0) continue;
        EXPECT_EQ(*table.find(mine.back()), address(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint32_t known = 0;
  for (uint32_t i = 0; i < 100; i++) {
    const uint16_t index = table.index_of(address(i));
    if (index != 0) known++;
    for (const auto& indexes : given) EXPECT_TRUE(indexes[i] == index) << i;
  }
  EXPECT_EQ(known, LocalAddresses::kAddressesMax);
}

}  // namespace
}  // namespace tributary::io
