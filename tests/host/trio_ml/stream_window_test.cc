// SPDX-License-Identifier: Apache-2.0
// Method: the positions of small tensors worked by hand, then refusals. Last, random results
// against a model that is a list of flags, and small tensors with exponents against one that takes
// positions in order.
#include "host/trio_ml/stream_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::host {
namespace {

/// Returns a transfer of `tensor`.
Transfer integers(std::vector<int32_t>& tensor) {
  Transfer transfer;
  transfer.integers = tensor;
  return transfer;
}

/// Returns a transfer of `tensor` with exponents.
Transfer floats(std::vector<float>& tensor) {
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = wire::ElementFormat::kBlockExponent;
  return transfer;
}

TEST(StreamWindow, PositionsOfATensorWorkedByHand) {
  std::vector<int32_t> tensor(10);  // Blocks of 4, 4 and 2.
  Transfer transfer = integers(tensor);
  StreamWindow stream;
  stream.open(/*window=*/2, /*gradients=*/4);
  stream.submit(transfer);
  EXPECT_EQ(transfer.outcome.blocks, 3U);
  EXPECT_EQ(stream.progress().submitted, 3U);

  ASSERT_TRUE(stream.can_send());
  EXPECT_EQ(stream.take_next(Instant(milliseconds(5))), 0U);
  EXPECT_EQ(stream.first_sent_at(0), Instant(milliseconds(5)));
  EXPECT_EQ(stream.take_next(Instant()), 1U);
  EXPECT_FALSE(stream.can_send());  // The window is full.

  EXPECT_EQ(stream.finish(1), nullptr);  // Not the oldest: the window stays.
  EXPECT_TRUE(stream.is_done(1));
  EXPECT_EQ(stream.base(), 0U);
  EXPECT_FALSE(stream.can_send());
  EXPECT_EQ(stream.finish(0), nullptr);
  EXPECT_EQ(stream.base(), 2U);
  ASSERT_TRUE(stream.can_send());
  EXPECT_EQ(stream.take_next(Instant()), 2U);
  const StreamWindow::Contents last = stream.contents(2);
  EXPECT_EQ(last.lane_count, 2U);
  EXPECT_EQ(last.gradient_block, 2U);
  EXPECT_FALSE(last.has_exponent);
  EXPECT_EQ(stream.finish(2), &transfer);
  EXPECT_TRUE(stream.idle());
  EXPECT_FALSE(stream.can_send());
}

TEST(StreamWindow, ExponentsTravelOneWindowAhead) {
  std::vector<float> tensor(6);  // Blocks of 2, 2 and 2.
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = wire::ElementFormat::kBlockExponent;
  StreamWindow stream;
  stream.open(/*window=*/2, /*gradients=*/2);
  stream.submit(transfer);
  EXPECT_EQ(stream.progress().submitted, 5U);  // 3 blocks and a lead of 2.

  stream.take_next(Instant());
  stream.take_next(Instant());
  const StreamWindow::Contents first = stream.contents(0);
  EXPECT_TRUE(first.has_exponent);
  EXPECT_EQ(first.exponent_block, 0U);
  EXPECT_EQ(first.lane_count, 0U);
  stream.set_exponent(0, 9, /*degraded=*/false);
  EXPECT_EQ(StreamWindow::exponent(transfer, 0).exponent, 9);
  EXPECT_EQ(stream.finish(0), nullptr);

  ASSERT_TRUE(stream.can_send());
  stream.take_next(Instant());
  const StreamWindow::Contents middle = stream.contents(2);
  EXPECT_TRUE(middle.has_exponent);
  EXPECT_EQ(middle.exponent_block, 2U);
  EXPECT_EQ(middle.lane_count, 2U);
  EXPECT_EQ(middle.gradient_block, 0U);
}

TEST(StreamWindow, GradientsWaitForTheirExponent) {
  std::vector<float> tensor(1);
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = wire::ElementFormat::kBlockExponent;
  StreamWindow stream;
  stream.open(/*window=*/4, /*gradients=*/2);
  stream.submit(transfer);  // Position 0 has the exponent, position 1 the gradients.
  stream.take_next(Instant());
  EXPECT_FALSE(stream.can_send());  // The window is open, but the exponent is not agreed.
  EXPECT_EQ(stream.finish(0), nullptr);
  EXPECT_TRUE(stream.can_send());
}

// Positions 0, 2 and 4 have the exponents, 1, 3 and 5 the gradients.
TEST(StreamWindow, SmallTensorsDoNotWaitForEachOther) {
  std::vector<float> tensor(1);
  std::array<Transfer, 3> transfers{floats(tensor), floats(tensor), floats(tensor)};
  StreamWindow stream;
  stream.open(/*window=*/8, /*gradients=*/2);
  for (Transfer& transfer : transfers) stream.submit(transfer);
  for (const uint64_t exponent : {0U, 2U, 4U}) {
    ASSERT_TRUE(stream.can_send());
    EXPECT_EQ(stream.take_next(Instant(microseconds(exponent))), exponent);
  }
  EXPECT_FALSE(stream.can_send());
  EXPECT_FALSE(stream.position_of(1).has_value());  // Not sent: a result cannot be read.
  EXPECT_EQ(stream.position_of(2), 2U);

  EXPECT_EQ(stream.finish(4), nullptr);
  ASSERT_TRUE(stream.has_ready());
  EXPECT_EQ(stream.take_next(Instant(microseconds(9))), 5U);
  EXPECT_EQ(stream.first_sent_at(5), Instant(microseconds(9)));
  EXPECT_EQ(stream.finish(5), &transfers[2]);
  EXPECT_EQ(stream.finish(0), nullptr);
  EXPECT_EQ(stream.base(), 1U);
  EXPECT_EQ(stream.first_sent_at(1), Instant());  // With its exponent.
  EXPECT_EQ(stream.take_next(Instant(microseconds(11))), 1U);
  EXPECT_FALSE(stream.can_send());
  EXPECT_EQ(stream.finish(1), &transfers[0]);
  EXPECT_EQ(stream.base(), 2U);
}

TEST(StreamWindow, PostponedGradientsCountInTheWindow) {
  std::vector<float> tensor(1);
  std::array<Transfer, 3> transfers{floats(tensor), floats(tensor), floats(tensor)};
  StreamWindow stream;
  stream.open(/*window=*/8, /*gradients=*/2);
  stream.limit(3);
  for (Transfer& transfer : transfers) stream.submit(transfer);
  EXPECT_EQ(stream.take_next(Instant()), 0U);
  EXPECT_EQ(stream.take_next(Instant()), 2U);
  EXPECT_FALSE(stream.can_send());
  stream.limit(4);  // Position 3 lacks its exponent, too.
  EXPECT_FALSE(stream.can_send());
  stream.limit(5);
  EXPECT_EQ(stream.take_next(Instant()), 4U);
  stream.end_all(Status::kClosed, "closed");
}

TEST(StreamWindow, ExponentOfADegradedRoundHasHeadroom) {
  std::vector<float> tensor(1);
  Transfer transfer = floats(tensor);
  StreamWindow stream;
  stream.open(/*window=*/4, /*gradients=*/2);
  stream.submit(transfer);
  stream.take_next(Instant());
  stream.set_exponent(0, -20, /*degraded=*/true);
  EXPECT_EQ(StreamWindow::exponent(transfer, 0).exponent, -20 + kDegradedHeadroom);
  EXPECT_EQ(StreamWindow::exponent(transfer, 0).stated, -20);
}

// Window 4, three blocks: positions 0 to 2 carry the exponents, 3 to 5 the gradients.
TEST(StreamWindow, BlockOfZerosInADegradedRoundFollowsTheTensorsLargestExponent) {
  std::vector<float> tensor(6);
  Transfer transfer = floats(tensor);
  StreamWindow stream;
  stream.open(/*window=*/4, /*gradients=*/2);
  stream.submit(transfer);
  for (uint32_t i = 0; i < 3; i++) stream.take_next(Instant());
  stream.set_exponent(2, kNoExponent, /*degraded=*/true);
  EXPECT_EQ(stream.finish(2), nullptr);
  stream.set_exponent(0, -20, /*degraded=*/false);
  EXPECT_EQ(stream.finish(0), nullptr);
  stream.take_next(Instant());  // The gradients of block 0.
  stream.set_exponent(1, -30, /*degraded=*/true);
  EXPECT_EQ(stream.finish(1), nullptr);
  EXPECT_EQ(StreamWindow::exponent(transfer, 2).exponent, -20 + kDegradedHeadroom);
  EXPECT_EQ(StreamWindow::exponent(transfer, 2).stated, kNoExponent);
}

TEST(StreamWindow, GradientsWaitForTheExponentsOfEarlierBlocks) {
  std::vector<float> tensor(4);
  Transfer transfer = floats(tensor);
  StreamWindow stream;
  stream.open(/*window=*/8, /*gradients=*/2);
  stream.submit(transfer);
  for (uint32_t i = 0; i < 2; i++) stream.take_next(Instant());
  stream.set_exponent(1, kNoExponent, /*degraded=*/true);
  EXPECT_EQ(stream.finish(1), nullptr);
  stream.set_exponent(0, 5, /*degraded=*/false);
  EXPECT_FALSE(stream.can_send());  // Position 0 is not done.
  EXPECT_EQ(stream.finish(0), nullptr);
  ASSERT_TRUE(stream.can_send());
  stream.take_next(Instant());
  EXPECT_TRUE(stream.can_send());
  EXPECT_EQ(StreamWindow::exponent(transfer, 1).exponent, 5 + kDegradedHeadroom);
}

TEST(StreamWindow, FirstBlockFollowsTheTensorBefore) {
  std::vector<float> tensor(1);
  Transfer zeros = floats(tensor);
  Transfer before = floats(tensor);
  Transfer transfer = floats(tensor);
  StreamWindow stream;
  stream.open(/*window=*/4, /*gradients=*/2);
  const auto run = [&stream](Transfer& whole, uint64_t position, int8_t stated, bool degraded) {
    stream.submit(whole);
    stream.take_next(Instant());
    stream.set_exponent(position, stated, degraded);
    EXPECT_EQ(stream.finish(position), nullptr);
    stream.take_next(Instant());
    EXPECT_EQ(stream.finish(position + 1), &whole);
  };
  run(zeros, 0, kNoExponent, /*degraded=*/true);
  EXPECT_EQ(StreamWindow::exponent(zeros, 0).exponent, kDegradedHeadroom);  // Nothing is known.
  run(before, 2, -40, /*degraded=*/false);
  run(zeros, 4, kNoExponent, /*degraded=*/false);  // Says nothing about sizes.
  run(transfer, 6, kNoExponent, /*degraded=*/true);
  EXPECT_EQ(StreamWindow::exponent(transfer, 0).exponent, -40 + kDegradedHeadroom);
}

TEST(StreamWindow, TransfersWaitForTheWindow) {
  std::vector<int32_t> tensor(1);
  Transfer transfer = integers(tensor);
  StreamWindow stream;
  stream.submit(transfer);
  EXPECT_FALSE(stream.is_open());
  EXPECT_FALSE(stream.can_send());
  EXPECT_FALSE(stream.idle());
  stream.open(4, 4);
  EXPECT_TRUE(stream.can_send());
}

TEST(StreamWindow, PositionsGoInGroups) {
  std::vector<int32_t> tensor(20);
  Transfer transfer = integers(tensor);
  StreamWindow stream;
  stream.open(/*window=*/12, /*gradients=*/1);
  stream.gather(5);  // A quarter of the window is less: 3.
  stream.submit(transfer);
  const auto send_all = [&stream] {
    uint32_t count = 0;
    for (; stream.can_send(); count++) stream.take_next(Instant());
    return count;
  };
  EXPECT_EQ(send_all(), 12U);
  for (uint64_t done = 0; done < 2; done++) {
    EXPECT_EQ(stream.finish(done), nullptr);
    EXPECT_FALSE(stream.can_send()) << done;
  }
  EXPECT_EQ(stream.finish(2), nullptr);
  EXPECT_EQ(send_all(), 3U);
  stream.limit(4);  // 12 are in flight.
  for (uint64_t done = 3; done < 12; done++) EXPECT_EQ(stream.finish(done), nullptr);
  EXPECT_EQ(send_all(), 1U);  // A quarter of 4.
  stream.limit(12);
  EXPECT_EQ(send_all(), 4U);  // All that are left.
}

TEST(StreamWindow, ALaterTransferMayBeDoneFirst) {
  std::vector<int32_t> tensor(1);
  Transfer first = integers(tensor);
  Transfer second = integers(tensor);
  StreamWindow stream;
  stream.open(4, 4);
  stream.submit(first);
  stream.submit(second);
  stream.take_next(Instant());
  stream.take_next(Instant());
  EXPECT_EQ(stream.contents(0).gen_id, 0);
  EXPECT_EQ(stream.contents(1).gen_id, 1);
  EXPECT_EQ(stream.finish(1), &second);
  EXPECT_FALSE(stream.idle());
  EXPECT_EQ(stream.finish(0), &first);
  EXPECT_TRUE(stream.idle());
}

TEST(StreamWindow, OnlyPositionsInFlightHaveABlockId) {
  std::vector<int32_t> tensor(16);
  Transfer transfer = integers(tensor);
  StreamWindow stream;
  stream.open(4, 4);
  stream.submit(transfer);
  EXPECT_FALSE(stream.position_of(0).has_value());
  stream.take_next(Instant());
  stream.take_next(Instant());
  EXPECT_EQ(stream.position_of(1), 1U);
  EXPECT_FALSE(stream.position_of(2).has_value());
  EXPECT_EQ(stream.finish(0), nullptr);
  EXPECT_FALSE(stream.position_of(0).has_value());  // Behind the window.
}

TEST(StreamWindow, AnEndReachesEveryTransfer) {
  std::vector<int32_t> tensor(1);
  Transfer first = integers(tensor);
  Transfer second = integers(tensor);
  StreamWindow stream;
  stream.submit(first);
  stream.submit(second);
  stream.end_all(Status::kClosed, "closed");
  for (const Transfer* transfer : {&first, &second}) {
    EXPECT_TRUE(transfer->done);
    EXPECT_EQ(transfer->outcome.status, Status::kClosed);
    EXPECT_EQ(transfer->outcome.text, "closed");
  }
  EXPECT_TRUE(stream.idle());
}

TEST(StreamWindow, ProgressFollowsResultsThatWereNotSentFor) {
  StreamWindow stream;
  stream.open(4, 4);
  stream.hear_result(7);
  stream.hear_result(3);  // Older.
  EXPECT_EQ(stream.progress().submitted, 0U);
  EXPECT_EQ(stream.progress().heard, 8U);
}

TEST(StreamWindow, RandomResultsMatchAListOfFlags) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  constexpr uint64_t kWindow = 5;  // Not a power of two.
  constexpr uint64_t kPositions = 2000;
  std::vector<int32_t> tensor(kPositions * 3);
  Transfer transfer = integers(tensor);
  StreamWindow stream;
  stream.open(kWindow, 3);
  stream.submit(transfer);

  std::vector<bool> done(kPositions);
  uint64_t oldest = 0;
  uint64_t sent = 0;
  while (oldest < kPositions) {
    ASSERT_EQ(stream.can_send(), sent < kPositions && sent < oldest + kWindow);
    if (stream.can_send() && prng.chance(0.5)) {
      ASSERT_EQ(stream.take_next(Instant()), sent++);
      continue;
    }
    if (sent == oldest) continue;
    const uint64_t position = oldest + prng.below(static_cast<uint32_t>(sent - oldest));
    ASSERT_EQ(stream.position_of(static_cast<uint32_t>(position)), position);
    ASSERT_EQ(stream.is_done(position), done[position]) << "position " << position;
    if (done[position]) continue;
    done[position] = true;
    const Transfer* last = stream.finish(position);
    while (oldest < sent && done[oldest]) oldest++;
    ASSERT_EQ(stream.base(), oldest);
    ASSERT_EQ(last != nullptr, oldest == kPositions);
  }
}

/// The simplest model of exponents: it sees the results in the order of positions.
class ExponentsInOrder {
 public:
  void open_tensor() {
    if (max_ != kNoExponent) max_before_ = max_;
    max_ = kNoExponent;
  }
  int8_t next(int8_t stated, bool degraded) {
    const int8_t reference = max_ != kNoExponent ? max_ : max_before_;
    max_ = std::max(max_, stated);
    return degraded ? degraded_exponent(stated, reference) : stated;
  }

 private:
  int8_t max_ = kNoExponent;
  int8_t max_before_ = kNoExponent;
};

// Tensors of 1 to 6 blocks, with a window of 5.
TEST(StreamWindow, RandomSmallTensorsMatchOnesInOrder) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  constexpr uint64_t kWindow = 5;
  constexpr uint32_t kTensors = 300;
  struct Position {
    uint32_t tensor;
    uint64_t lead;
    bool has_exponent;
    bool has_gradients;
    int8_t stated = kNoExponent;
    bool degraded = false;
    bool sent = false;
    bool done = false;
  };
  std::vector<Position> positions;
  std::vector<std::vector<float>> tensors;
  for (uint32_t i = 0; i < kTensors; i++) {
    const uint64_t blocks = 1 + prng.below(6);
    tensors.emplace_back(blocks);
    const uint64_t lead = std::min(blocks, kWindow);
    for (uint64_t p = 0; p < blocks + lead; p++) {
      positions.push_back({i, lead, p < blocks, p >= lead,
                           prng.chance(0.3) ? kNoExponent : static_cast<int8_t>(prng.below(40)),
                           prng.chance(0.3)});
    }
  }
  StreamWindow stream;
  stream.open(kWindow, /*gradients=*/1);
  std::vector<Transfer> transfers(kTensors);
  for (uint32_t i = 0; i < kTensors; i++) {
    transfers[i] = floats(tensors[i]);
    stream.submit(transfers[i]);
  }

  uint64_t oldest = 0;
  const auto may_go = [&](uint64_t p) {
    if (positions[p].sent || p >= oldest + kWindow) return false;
    if (!positions[p].has_gradients || p < positions[p].lead + oldest) return true;
    const Position& source = positions[p - positions[p].lead];
    return source.done && !(source.degraded && source.stated == kNoExponent);
  };
  const auto any_may_go = [&] {
    for (uint64_t p = oldest; p < std::min(oldest + kWindow, positions.size()); p++) {
      if (may_go(p)) return true;
    }
    return false;
  };
  while (oldest < positions.size()) {
    ASSERT_EQ(stream.can_send(), any_may_go()) << "base " << oldest;
    if (stream.can_send() && prng.chance(0.5)) {
      const uint64_t p = stream.take_next(Instant());
      ASSERT_TRUE(may_go(p)) << p;
      positions[p].sent = true;
      continue;
    }
    const uint64_t p = oldest + prng.below(kWindow);
    if (p >= positions.size()) continue;
    ASSERT_EQ(stream.position_of(static_cast<uint32_t>(p)).has_value(), positions[p].sent) << p;
    if (!positions[p].sent || positions[p].done) continue;
    if (positions[p].has_exponent) {
      stream.set_exponent(p, positions[p].stated, positions[p].degraded);
    }
    positions[p].done = true;
    (void)stream.finish(p);
    while (oldest < positions.size() && positions[oldest].done) oldest++;
    ASSERT_EQ(stream.base(), oldest);
  }
  EXPECT_TRUE(stream.idle());

  ExponentsInOrder model;
  uint64_t p = 0;
  for (uint32_t i = 0; i < kTensors; i++) {
    model.open_tensor();
    for (uint64_t block = 0; block < tensors[i].size(); block++, p++) {
      const int8_t expected = model.next(positions[p].stated, positions[p].degraded);
      ASSERT_EQ(StreamWindow::exponent(transfers[i], block).exponent, expected)
          << "tensor " << i << ", block " << block;
    }
    p += positions[p - 1].lead;
  }
}

}  // namespace
}  // namespace tributary::host
