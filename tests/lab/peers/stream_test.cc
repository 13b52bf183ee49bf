// SPDX-License-Identifier: Apache-2.0
// Method: acknowledgements and timeouts by hand; then both books against each other over a channel
// that drops, duplicates and reorders, where every position must be used once and in order.
#include "lab/peers/stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

Instant at_us(int64_t us) { return Instant(microseconds(us)); }

Ack ack_below(uint64_t below, uint64_t limit, uint64_t beyond = 0) {
  Ack ack{.below = below, .limit = limit};
  ack.words = beyond != 0 ? 1 : 0;
  ack.beyond[0] = beyond;
  return ack;
}

TEST(SendWindow, WindowAndLimitBoundPacketsInFlight) {
  SendWindow book(4);
  for (uint64_t i = 0; i < 4; i++) EXPECT_EQ(book.send_new(at_us(0)), i);
  EXPECT_FALSE(book.may_send_new());
  // Two have arrived; the receiver has used none, so its limit stays.
  EXPECT_TRUE(book.on_ack(ack_below(2, 4), at_us(1)));
  EXPECT_FALSE(book.may_send_new());
  EXPECT_FALSE(
      book.held_by_limit());  // An acknowledgement of packets in flight may raise the limit.
  EXPECT_TRUE(book.on_ack(ack_below(4, 4), at_us(1)));
  EXPECT_TRUE(book.held_by_limit());
  EXPECT_TRUE(book.on_ack(ack_below(4, 5), at_us(2)));
  EXPECT_TRUE(book.may_send_new());
  EXPECT_EQ(book.send_new(at_us(2)), 4U);
}

TEST(SendWindow, ThreeLaterPacketsProveALoss) {
  SendWindow book(16);
  for (int i = 0; i < 6; i++) book.send_new(at_us(i));
  // 1 and 2 have arrived, 0 has not: two later ones are not enough.
  EXPECT_TRUE(book.on_ack(ack_below(0, 16, 0b110), at_us(10)));
  EXPECT_FALSE(book.next_repair(at_us(10)));
  EXPECT_TRUE(book.on_ack(ack_below(0, 16, 0b1110), at_us(11)));
  EXPECT_EQ(book.next_repair(at_us(11)), 0U);
  EXPECT_FALSE(book.next_repair(at_us(11)));
  EXPECT_EQ(book.repairs(), 1U);
  // Retransmitted as the 7th: earlier packets say nothing about the retransmission.
  EXPECT_TRUE(book.on_ack(ack_below(0, 16, 0b111110), at_us(12)));
  EXPECT_FALSE(book.next_repair(at_us(12)));
  for (int i = 0; i < 3; i++) book.send_new(at_us(13));
  EXPECT_TRUE(book.on_ack(ack_below(0, 16, 0b111111110), at_us(20)));
  EXPECT_EQ(book.next_repair(at_us(20)), 0U);
}

TEST(SendWindow, TimeOutDetectsLossOfTheLastPackets) {
  SendWindow book(16);
  EXPECT_EQ(book.next_deadline(), Instant::never());
  book.send_new(at_us(0));
  book.send_new(at_us(5));
  const Instant due = book.next_deadline();
  EXPECT_EQ(due, at_us(0) + host::RttEstimator::kInitial);
  book.on_time(due);
  EXPECT_EQ(book.next_repair(due), 0U);
  EXPECT_FALSE(book.next_repair(due));  // The second is due 5 us later.
  book.on_time(due + microseconds(5));
  EXPECT_EQ(book.next_repair(due + microseconds(5)), 1U);
  // The next wait is twice as long.
  book.on_time(due + host::RttEstimator::kInitial + microseconds(10));
  EXPECT_FALSE(book.next_repair(due + host::RttEstimator::kInitial + microseconds(10)));
  EXPECT_TRUE(book.on_ack(ack_below(2, 16), due + milliseconds(30)));
  EXPECT_EQ(book.next_deadline(), Instant::never());
}

TEST(SendWindow, RefusesImpossibleAcknowledgements) {
  SendWindow book(8);
  book.send_new(at_us(0));
  EXPECT_FALSE(book.on_ack(ack_below(2, 100), at_us(1)));
  Ack long_one = ack_below(0, 8);
  long_one.words = kAckWords + 1;
  EXPECT_FALSE(book.on_ack(long_one, at_us(1)));
  EXPECT_EQ(book.base(), 0U);
  // Bits beyond the sent positions are ignored.
  EXPECT_TRUE(book.on_ack(ack_below(0, 8, ~uint64_t{1}), at_us(1)));
  EXPECT_FALSE(book.next_repair(at_us(1)));
}

TEST(ReceiveWindow, DeliversInOrderAndAcknowledgesTheGap) {
  ReceiveWindow book(4);
  EXPECT_EQ(book.take(1), ReceiveWindow::Take::kNew);
  EXPECT_EQ(book.take(3), ReceiveWindow::Take::kNew);
  EXPECT_EQ(book.take(3), ReceiveWindow::Take::kDuplicate);
  EXPECT_EQ(book.take(4), ReceiveWindow::Take::kOutside);
  EXPECT_FALSE(book.has_next());
  EXPECT_TRUE(book.has_gap());
  EXPECT_EQ(book.ack().below, 0U);
  EXPECT_EQ(book.ack().limit, 4U);
  EXPECT_EQ(book.ack().words, 1U);
  EXPECT_EQ(book.ack().beyond[0], 0b1010U);
  EXPECT_EQ(book.take(0), ReceiveWindow::Take::kNew);
  EXPECT_EQ(book.ack().below, 2U);
  book.use_next();
  book.use_next();
  EXPECT_FALSE(book.has_next());
  EXPECT_EQ(book.ack().limit, 6U);
  EXPECT_EQ(book.take(1), ReceiveWindow::Take::kDuplicate);
  EXPECT_EQ(book.take(2), ReceiveWindow::Take::kNew);
  EXPECT_EQ(book.take(5), ReceiveWindow::Take::kNew);
  EXPECT_FALSE(book.is_full());
  EXPECT_EQ(book.take(4), ReceiveWindow::Take::kNew);
  EXPECT_TRUE(book.is_full());
  EXPECT_FALSE(book.has_gap());
}

// A packet is delivered, dropped, duplicated or delayed; the receiver uses packets in bursts.
TEST(Stream, EveryPositionArrivesOnceAndInOrderOverBadChannels) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (int round = 0; round < 20; round++) {
    const uint32_t window = 1 + prng.below(64);
    SendWindow send(window);
    ReceiveWindow receive(window);
    std::vector<uint64_t> data;
    std::vector<Ack> acks;
    uint64_t used = 0;
    const uint64_t wanted = 500;
    Instant now;
    const auto pass = [&](auto& channel, const auto& item) {
      if (prng.chance(0.2)) return;
      channel.insert(channel.begin() + prng.below(static_cast<uint32_t>(channel.size()) + 1), item);
      if (prng.chance(0.1)) channel.push_back(item);
    };
    for (uint32_t step = 0; used < wanted; step++) {
      ASSERT_LT(step, 200'000U) << "stuck at " << used;
      now = now + milliseconds(1);
      send.on_time(now);
      if (const auto repair = send.next_repair(now)) {
        ASSERT_GE(*repair, send.base());
        pass(data, *repair);
      } else if (send.next() < wanted && send.may_send_new()) {
        pass(data, send.send_new(now));
      }
      if (!data.empty() && prng.chance(0.7)) {
        (void)receive.take(data.back());
        data.pop_back();
        pass(acks, receive.ack());
      }
      if (prng.chance(0.5) && receive.has_next()) {
        ASSERT_EQ(receive.used(), used);
        receive.use_next();
        used++;
      }
      if (prng.chance(0.3)) pass(acks, receive.ack());  // The answer to a probe.
      if (!acks.empty()) {
        ASSERT_TRUE(send.on_ack(acks.back(), now));
        acks.pop_back();
        ASSERT_LE(send.base(), used + window);
      }
    }
    EXPECT_GE(send.next(), wanted);
  }
}

}  // namespace
}  // namespace tributary::lab
