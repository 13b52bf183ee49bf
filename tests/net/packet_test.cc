// SPDX-License-Identifier: Apache-2.0
// Method: shared holds by hand, then many holders at random against a count for each packet.
#include "net/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/net/net_bed.h"
#include "tests/support/seed.h"

namespace tributary::net {
namespace {

constexpr std::array<std::byte, 3> kBytes{std::byte{1}, std::byte{2}, std::byte{3}};

TEST(Packet, LastHolderReturnsThePacket) {
  PacketPool pool;
  PacketRef a = pool.make(host_address(0), host_address(1), 3, kBytes);
  EXPECT_FALSE(a.shared());
  PacketRef b = a;
  EXPECT_TRUE(a.shared());
  EXPECT_EQ(&*a, &*b);
  EXPECT_EQ(pool.held_count(), 1u);
  a = PacketRef();
  EXPECT_FALSE(b.shared());
  const uint64_t released = b.release();
  EXPECT_FALSE(static_cast<bool>(b));
  EXPECT_EQ(pool.held_count(), 1u);
  b = PacketRef::adopt(released);
  EXPECT_EQ(b->stored.size(), 3u);
  b = PacketRef();
  EXPECT_EQ(pool.held_count(), 0u);
}

TEST(Packet, ReusedPacketIsReset) {
  PacketPool pool;
  const Packet* before = nullptr;
  {
    PacketRef first = pool.make(host_address(0), host_address(1), 3, kBytes);
    first->congestion_experienced = true;
    before = &*first;
  }
  const PacketRef second = pool.make(host_address(2), host_address(3), 9, {});
  EXPECT_EQ(&*second, before);
  EXPECT_FALSE(second->congestion_experienced);
  EXPECT_TRUE(second->stored.empty());
  EXPECT_TRUE(second->elided());
  EXPECT_EQ(second->source, host_address(2));
}

TEST(Packet, CopyIsIndependent) {
  PacketPool pool;
  PacketRef first = pool.make(host_address(0), host_address(1), 5, kBytes);
  first->congestion_experienced = true;
  const PacketRef copy = pool.copy(*first);
  copy->stored[0] = std::byte{9};
  EXPECT_EQ(first->stored[0], std::byte{1});
  EXPECT_EQ(copy->size_bytes, 5u);
  EXPECT_TRUE(copy->congestion_experienced);
  EXPECT_EQ(pool.held_count(), 2u);
}

TEST(Packet, RandomHoldersMatchAReferenceCount) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  PacketPool pool;
  std::vector<std::pair<PacketRef, uint32_t>> held;  // With the number that its size encodes.
  uint32_t made = 0;
  for (uint32_t step = 0; step < 20'000; step++) {
    const uint32_t choice = prng.below(5);
    if (choice < 2 || held.empty()) {
      held.emplace_back(pool.make(host_address(0), host_address(1), made, {}), made);
      made++;
    } else if (choice == 2) {
      held.push_back(held[prng.below(static_cast<uint32_t>(held.size()))]);
    } else {
      std::swap(held[prng.below(static_cast<uint32_t>(held.size()))], held.back());
      held.pop_back();
    }
    if (step % 500 == 0) {
      std::vector<uint32_t> numbers;
      for (const auto& [packet, number] : held) {
        ASSERT_EQ(packet->size_bytes, number);
        numbers.push_back(number);
      }
      std::sort(numbers.begin(), numbers.end());
      numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
      ASSERT_EQ(pool.held_count(), numbers.size());
    }
  }
}

}  // namespace
}  // namespace tributary::net
