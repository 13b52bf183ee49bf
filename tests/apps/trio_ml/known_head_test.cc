// SPDX-License-Identifier: Apache-2.0
// Method: heads that differ in one bit, by hand. Then random messages, good and broken, go to two
// cores. The port of one delivers payloads, so it uses known heads. The port of the other delivers
// frames, so it never does. Both must count and send the same.
#include "apps/trio_ml/known_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/apps/trio_ml/bed.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;
using Kind = KnownHead::Kind;

constexpr uint32_t kHeadBytes = wire::TrioMlHeader::kBytes + wire::kExtensionBytes;
const Values kGradients{1, 2, 3, 4, 5, 6};

Bytes extended_bytes(uint32_t block_id) {
  const Member member{.source = 1, .key = 99};
  return member.contribution_bytes(block_id, kGradients);
}

Kind matched(const KnownHead& known, const Bytes& bytes) {
  return known.match(bytes.data(), static_cast<uint32_t>(bytes.size()));
}

KnownHead known_of(const Bytes& bytes, bool extended) {
  KnownHead known;
  known.remember(bytes.data(), static_cast<uint32_t>(bytes.size()), extended);
  return known;
}

TEST(KnownHead, EmptyHeadMatchesNothing) {
  EXPECT_EQ(matched(KnownHead(), plain_bytes(1, 5, 100, kGradients)), Kind::kNone);
  EXPECT_EQ(matched(KnownHead(), Bytes(kHeadBytes)), Kind::kNone);
}

TEST(KnownHead, MatchesTheHeadOfAnyBlock) {
  const KnownHead plain_head = known_of(plain_bytes(1, 5, 100, kGradients), false);
  const KnownHead extended_head = known_of(extended_bytes(5), true);
  for (const uint32_t block_id : {0U, 6U, 0xffffffffU}) {
    EXPECT_EQ(matched(plain_head, plain_bytes(1, block_id, 100, kGradients)), Kind::kPlain);
    EXPECT_EQ(matched(extended_head, extended_bytes(block_id)), Kind::kExtended);
  }
}

/// The known head does not cover bytes 0 to 4: job and block.
TEST(KnownHead, AnyOtherChangedBitDoesNotMatch) {
  const Bytes good = extended_bytes(5);
  const KnownHead known = known_of(good, true);
  for (uint32_t bit = 5 * 8; bit < kHeadBytes * 8; bit++) {
    Bytes other = good;
    other[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_EQ(matched(known, other), Kind::kNone) << "bit " << bit;
  }
}

TEST(KnownHead, AnotherLengthDoesNotMatch) {
  const Bytes good = plain_bytes(1, 5, 100, kGradients);
  const KnownHead known = known_of(good, false);
  for (const size_t size : {good.size() - 4, good.size() + 4}) {
    Bytes other = good;
    other.resize(size);
    EXPECT_EQ(matched(known, other), Kind::kNone);
  }
}

/// Two cores with the same job: one receives payloads, the other frames.
class Pair {
 public:
  explicit Pair(const JobConfig& job)
      : payloads_(job, PacketLayer::kUdpPayload), frames_(job, PacketLayer::kFrame) {}

  std::vector<Member> join() {
    std::vector<Member> members = join_all(payloads_);
    const std::vector<Member> same = join_all(frames_);
    EXPECT_EQ(members[0].key, same[0].key);
    return members;
  }
  /// Advances the time, so that incomplete blocks age out.
  void deliver(const Bytes& bytes, const Endpoint& from) {
    payloads_.advance(kBetween);
    frames_.advance(kBetween);
    payloads_.deliver(bytes, from);
    frames_.deliver(bytes, from);
    ASSERT_EQ(payloads_.counts(), frames_.counts());
    const std::vector<Reply> replies = payloads_.take();
    const std::vector<Reply> expected = frames_.take();
    ASSERT_EQ(replies.size(), expected.size());
    for (size_t i = 0; i < replies.size(); i++) {
      ASSERT_EQ(replies[i].bytes, expected[i].bytes);
      ASSERT_EQ(replies[i].to, expected[i].to);
    }
  }
  [[nodiscard]] uint64_t counted(Outcome outcome) const { return payloads_.counted(outcome); }

 private:
  static constexpr Duration kBetween = microseconds(500);
  Bed payloads_;
  Bed frames_;
};

/// One in four has a defect: a bit of its head, its length, or its sender.
void deliver_maybe_broken(Pair& pair, Prng& prng, Bytes bytes, uint32_t source) {
  Endpoint from = worker(source);
  switch (prng.below(12)) {
    case 0: {
      // Not in block or generation: one far ahead would make all others stale.
      constexpr std::array<uint8_t, 7> kBytes{0, 5, 6, 7, 10, 11, 12};
      const uint32_t pick = prng.below(kHeadBytes - 5);
      const uint32_t at = pick < kBytes.size() ? kBytes[pick] : pick + 5;
      bytes[std::min<size_t>(at, bytes.size() - 1)] ^= std::byte{1} << prng.below(8);
      break;
    }
    case 1:
      bytes.resize(prng.below(static_cast<uint32_t>(2 * bytes.size())));
      break;
    case 2:
      from = prng.below(2) == 0 ? stranger() : worker(source + 1);
      break;
    default:
      break;
  }
  pair.deliver(bytes, from);
}

constexpr uint32_t kSources = 3;
constexpr uint32_t kSteps = 20'000;

class KnownHeadWalk : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static JobConfig job() {
    return {.id = 1,
            .sources = kSources,
            .block_cnt_max = 4,
            .block_grad_max = 8,
            .mitigation = true,
            .timeout = milliseconds(10),
            .pin = GetParam()};
  }
};

INSTANTIATE_TEST_SUITE_P(Addresses, KnownHeadWalk, ::testing::Bool(),
                         [](const auto& pin) { return pin.param ? "Pinned" : "Moving"; });

TEST_P(KnownHeadWalk, PlainMessagesBehaveTheSameOnBothPaths) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  Pair pair(job());
  for (uint32_t source = 0; source < kSources; source++) {  // So that each is pinned to its own.
    pair.deliver(plain_bytes(source, 0, 0, Values(3)), worker(source));
  }
  for (uint32_t step = 0; step < kSteps && !HasFatalFailure(); step++) {
    const uint32_t source = prng.below(kSources);
    // A generation has 100 blocks; about six contributions go to each of them.
    const uint32_t block = step / 6;
    const Values gradients(block % 8 == 0 ? 3 : 8, static_cast<int32_t>(step));
    deliver_maybe_broken(
        pair, prng, plain_bytes(source, block % 100, static_cast<uint16_t>(block / 100), gradients),
        source);
  }
  EXPECT_GT(pair.counted(Outcome::kAggregated), kSteps / 10);
  EXPECT_GT(pair.counted(Outcome::kBlockCompleted), kSteps / 100);
}

TEST_P(KnownHeadWalk, SessionMessagesBehaveTheSameOnBothPaths) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  Pair pair(job());
  const std::vector<Member> members = pair.join();
  for (const Member& member : members) {
    pair.deliver(member.contribution_bytes(0, Values(3)), worker(member.source));
  }
  for (uint32_t step = 0; step < kSteps && !HasFatalFailure(); step++) {
    const uint32_t source = prng.below(kSources);
    const uint32_t block = step / 6;
    const Values gradients(block % 8 == 0 ? 3 : 8, static_cast<int32_t>(step));
    deliver_maybe_broken(pair, prng, members[source].contribution_bytes(block, gradients), source);
  }
  EXPECT_GT(pair.counted(Outcome::kAggregated), kSteps / 10);
  EXPECT_GT(pair.counted(Outcome::kBlockCompleted), kSteps / 100);
}

}  // namespace
}  // namespace tributary::trio_ml
