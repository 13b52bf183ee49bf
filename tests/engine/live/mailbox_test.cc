// SPDX-License-Identifier: Apache-2.0
// Method: one packet, then the visibility of posts, then a full mailbox, then several posters and
// one owner in threads.
#include "engine/live/mailbox.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/byte_order.h"
#include "engine/port.h"
#include "io/memory/in_memory_port.h"

namespace tributary::engine {
namespace {

constexpr uint32_t kBufferBytes = 64;
constexpr uint32_t kCores = 3;

using Bytes = std::vector<std::byte>;

Packet packet_of(Bytes& bytes) {
  return {.data = bytes.data(),
          .size = static_cast<uint32_t>(bytes.size()),
          .layer = PacketLayer::kUdpPayload,
          .source = Endpoint::ipv4(1, 2)};
}

class MailboxTest : public ::testing::Test {
 protected:
  io::InMemoryPort port_{{}};
  Mailbox mailbox_{kBufferBytes, kCores, port_.queue(0)};
  std::array<Packet, kBurstPackets> burst_;
};

TEST_F(MailboxTest, CopiesThePacket) {
  Bytes bytes(20, std::byte{7});
  ASSERT_TRUE(mailbox_.post(1, packet_of(bytes)));
  bytes.assign(20, std::byte{0});
  mailbox_.deliver(1);
  ASSERT_EQ(mailbox_.take(burst_), 1U);
  EXPECT_EQ(burst_[0].size, 20U);
  EXPECT_EQ(burst_[0].source, Endpoint::ipv4(1, 2));
  EXPECT_EQ(burst_[0].layer, PacketLayer::kUdpPayload);
  EXPECT_EQ(burst_[0].data[19], std::byte{7});
  EXPECT_EQ(mailbox_.take(burst_), 0U);
}

TEST_F(MailboxTest, OwnerSeesABurstWhenItIsDelivered) {
  Bytes bytes(8);
  for (uint32_t i = 0; i < 3; i++) ASSERT_TRUE(mailbox_.post(1, packet_of(bytes)));
  ASSERT_TRUE(mailbox_.post(2, packet_of(bytes)));
  EXPECT_EQ(mailbox_.take(burst_), 0U);
  mailbox_.deliver(1);
  EXPECT_EQ(mailbox_.take(burst_), 3U);  // Without core 2's undelivered packet.
  mailbox_.deliver(2);
  EXPECT_EQ(mailbox_.take(burst_), 1U);
  mailbox_.deliver(2);
  EXPECT_EQ(mailbox_.take(burst_), 0U);  // No packet twice.
}

TEST_F(MailboxTest, RefusesAnOversizedPacket) {
  Bytes largest(kBufferBytes);
  EXPECT_TRUE(mailbox_.post(1, packet_of(largest)));
  Bytes larger(kBufferBytes + 1);
  EXPECT_FALSE(mailbox_.post(1, packet_of(larger)));
  mailbox_.deliver(1);
  EXPECT_EQ(mailbox_.take(burst_), 1U);
}

TEST_F(MailboxTest, FullLaneRefusesUntilTakenPacketsAreFreed) {
  Bytes bytes(8);
  for (uint32_t i = 0; i < Mailbox::kLaneBuffers; i++)
    ASSERT_TRUE(mailbox_.post(1, packet_of(bytes)));
  EXPECT_FALSE(mailbox_.post(1, packet_of(bytes)));
  mailbox_.deliver(1);
  ASSERT_EQ(mailbox_.take(burst_), burst_.size());
  EXPECT_FALSE(mailbox_.post(1, packet_of(bytes)));  // Taken, but not freed.
  mailbox_.free_taken();
  for (uint32_t i = 0; i < burst_.size(); i++) EXPECT_TRUE(mailbox_.post(1, packet_of(bytes)));
  EXPECT_FALSE(mailbox_.post(1, packet_of(bytes)));
}

TEST_F(MailboxTest, BusyLaneDoesNotBlockOthers) {
  Bytes first(8, std::byte{1});
  Bytes second(8, std::byte{2});
  ASSERT_TRUE(mailbox_.post(2, packet_of(second)));
  mailbox_.deliver(2);
  bool seen = false;
  for (uint32_t round = 0; round < kCores; round++) {  // Lanes take turns.
    while (mailbox_.post(1, packet_of(first))) {
    }
    mailbox_.deliver(1);
    const uint32_t taken = mailbox_.take(burst_);
    for (uint32_t i = 0; i < taken; i++) seen |= burst_[i].data[0] == std::byte{2};
    mailbox_.free_taken();
  }
  EXPECT_TRUE(seen);
}

// Each poster numbers its packets. The owner sees every accepted packet, unchanged and in the
// poster's order.
TEST_F(MailboxTest, OneOwnerReceivesFromManyPosters) {
  constexpr uint32_t kPosters = kCores;
  constexpr uint32_t kPackets = 20'000;
  std::atomic<uint32_t> running{kPosters};
  std::array<uint32_t, kPosters> accepted{};
  std::vector<std::thread> posters;
  for (uint32_t poster = 0; poster < kPosters; poster++) {
    posters.emplace_back([&, poster] {
      Bytes bytes(kBufferBytes);
      for (uint32_t i = 0; i < kPackets; i++) {
        store_be<uint32_t>(bytes.data(), poster);
        store_be<uint32_t>(bytes.data() + 4, i);
        store_be<uint32_t>(bytes.data() + kBufferBytes - 4, i);
        accepted[poster] += mailbox_.post(poster, packet_of(bytes)) ? 1 : 0;
        if (i % (poster + 1) == 0) mailbox_.deliver(poster);  // Bursts of one, two, three.
      }
      mailbox_.deliver(poster);
      running--;
    });
  }
  std::array<uint32_t, kPosters> seen{};
  std::array<int64_t, kPosters> last{-1, -1, -1};
  for (bool over = false; !over;) {
    over = running.load() == 0;
    while (const uint32_t taken = mailbox_.take(burst_)) {
      for (uint32_t i = 0; i < taken; i++) {
        const auto poster = load_be<uint32_t>(burst_[i].data);
        const auto number = load_be<uint32_t>(burst_[i].data + 4);
        ASSERT_LT(poster, kPosters);
        ASSERT_EQ(load_be<uint32_t>(burst_[i].data + kBufferBytes - 4), number);
        ASSERT_GT(int64_t{number}, last[poster]);
        last[poster] = number;
        seen[poster]++;
      }
      mailbox_.free_taken();
    }
  }
  for (std::thread& poster : posters) poster.join();
  EXPECT_EQ(seen, accepted);
}

}  // namespace
}  // namespace tributary::engine
