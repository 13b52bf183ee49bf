// SPDX-License-Identifier: Apache-2.0
// Method:  Sends the same random packets to two beds, one of which has no reply left for strangers.
//          The short way for a flood of forgeries must count them as the usual way does.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/apps/trio_ml/bed.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

constexpr uint32_t kGradientsMax = 8;

JobConfig job() { return {.id = 1, .sources = 2, .block_cnt_max = 8, .block_grad_max = 8}; }

/// Returns a contribution of a stranger who knows everything but the key.
Bytes forgery(uint64_t key, uint32_t block_id, const Values& gradients) {
  return Member{.source = 0, .key = key}.contribution_bytes(block_id, gradients);
}

/// Lets the bed send all the resets that it has left.
void spend_replies(Bed& bed) {
  uint64_t withheld = 0;
  for (uint64_t key = 1; withheld == 0; key++) {
    bed.deliver(forgery(key, 0, {1}), stranger());
    withheld = bed.counted(Outcome::kReplyWithheld);
  }
  bed.take();
}

TEST(IgnoredForgery, IsCountedAndChangesNothing) {
  Bed bed(job());
  const auto members = join_all(bed);
  spend_replies(bed);
  const Counts before = bed.counts();
  const uint64_t dropped = bed.core().machine_counters().dropped;
  bed.deliver(forgery(members[0].key + 1, 0, {5, 6}), stranger());
  bed.deliver(forgery(members[0].key + 1, 0, {5, 6}), worker(0));
  EXPECT_EQ(bed.counted_since(before), (Counts{{"reply_withheld", 2}, {"wrong_key", 2}}));
  EXPECT_EQ(bed.core().machine_counters().dropped, dropped + 2);
  EXPECT_TRUE(bed.take().empty());
  EXPECT_EQ(bed.job().record.block_curr_cnt, 0U);

  for (const Member& member : members) {
    bed.deliver(member.contribution_bytes(0, {5, 6}), worker(member.source));
  }
  EXPECT_EQ(bed.take_result(0).gradients, (Values{10, 12}));
}

TEST(IgnoredForgery, ResetsFollowOnceThereAreRepliesLeft) {
  Bed bed(job());
  static_cast<void>(join_all(bed));
  spend_replies(bed);
  bed.advance(milliseconds(1));
  bed.deliver(forgery(1, 0, {1}), stranger());
  const auto replies = bed.take();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].message.extension.type, MessageType::kReset);
}

/// Changes bytes of the head, and sometimes the length.
void damage(Bytes& bytes, Prng& prng) {
  for (uint32_t i = prng.below(3); i > 0; i--) {
    bytes[prng.below(32)] = static_cast<std::byte>(prng.any_u32());
  }
  if (prng.chance(0.2)) bytes.resize(prng.below(static_cast<uint32_t>(bytes.size()) + 8));
}

/// Sends the same packets to two beds and compares their counts, except those of replies.
void compare_ways(Prng& prng) {
  Bed usual(job());
  Bed flooded(job());
  const auto members = join_all(usual);
  ASSERT_EQ(join_all(flooded)[0].key, members[0].key);
  spend_replies(flooded);
  const Counts usual_before = usual.counts();
  const Counts flooded_before = flooded.counts();
  // Fewer than the replies that a bed has, so that `usual` does not run out of them.
  for (uint32_t i = 0; i < 100; i++) {
    const Values gradients(prng.below(kGradientsMax + 2), 1);
    Bytes bytes = forgery(prng.any_u64(), prng.below(8), gradients);
    damage(bytes, prng);
    const Endpoint from = prng.chance(0.5) ? stranger() : worker(0);
    usual.deliver(bytes, from);
    flooded.deliver(bytes, from);
    Counts expected = usual.counted_since(usual_before);
    Counts actual = flooded.counted_since(flooded_before);
    for (Counts* counts : {&expected, &actual}) {
      for (const char* reply : {"reset_sent", "reply_withheld", "cookie_sent", "notice_sent"}) {
        counts->erase(reply);
      }
    }
    ASSERT_EQ(actual, expected) << "packet " << i;
  }
}

TEST(IgnoredForgery, ReasonsAreThoseOfTheUsualWay) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 50 && !HasFatalFailure(); round++) compare_ways(prng);
}

}  // namespace
}  // namespace tributary::trio_ml
