// SPDX-License-Identifier: Apache-2.0
#include "engine/model/packet_store.h"

#include <gtest/gtest.h>

#include <vector>

namespace tributary::engine {
namespace {

TEST(PacketStore, StoresShortAndLongPacketsSeparately) {
  PacketStore store(2, 1000);
  const std::vector<std::byte> head(kHeadBytes, std::byte{1});
  const std::vector<std::byte> whole(kHeadBytes + 1, std::byte{2});
  const auto a = store.store(head);
  const auto b = store.store(whole);
  const auto c = store.store(whole);
  ASSERT_TRUE(a && b && c);
  EXPECT_FALSE(store.store(whole).has_value());  // Two slots for long packets …
  EXPECT_TRUE(store.store(head).has_value());    // … and two for short ones.
  EXPECT_EQ(store.count(), 4U);
  EXPECT_EQ(store.bytes(*a).size(), kHeadBytes);
  EXPECT_EQ(store.bytes(*b)[kHeadBytes], std::byte{2});
  store.release(*b);
  EXPECT_EQ(store.count(), 3U);
  EXPECT_TRUE(store.store(whole).has_value());
  EXPECT_EQ(store.bytes(*c)[0], std::byte{2});
}

}  // namespace
}  // namespace tributary::engine
