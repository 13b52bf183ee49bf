// SPDX-License-Identifier: Apache-2.0
// Method: both ends of a session in each mode: what one seals the other opens, and nothing else.
#include "auth/session_seal.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace tributary::auth {
namespace {

using Bytes = std::vector<std::byte>;
constexpr uint8_t kJob = 3;
constexpr Salt kSalt{.high = 1, .low = 2};

JobAuth auth_of(Mode mode, uint64_t seed = 1) { return {mode, key_of_seed(seed)}; }

class SessionSeal : public ::testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    if (GetParam() == Mode::kFull && !Gmac::is_available()) {
      GTEST_SKIP() << "built without libipsec-mb";
    }
    member_.start(kSalt);
    aggregator_.start(kSalt);
  }
  [[nodiscard]] static uint32_t seal_size() { return seal_bytes(GetParam()); }
  /// A head of 32 bytes and room for its seal.
  [[nodiscard]] static Bytes head(uint32_t seal_size) {
    return Bytes(32 + seal_size, std::byte{7});
  }

  MemberEnd member_{auth_of(GetParam()), kJob, 0};
  AggregatorEnd aggregator_{auth_of(GetParam()), kJob, 0, 4, 1};
  Bytes lanes_ = Bytes(64, std::byte{1});
};

INSTANTIATE_TEST_SUITE_P(Modes, SessionSeal, ::testing::Values(Mode::kHeader, Mode::kFull),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

TEST_P(SessionSeal, OpensWhatTheOtherEndSealed) {
  Bytes up = head(seal_size());
  member_.seal(2, up, lanes_);
  EXPECT_EQ(aggregator_.open(2, up, lanes_), OpenStatus::kOpened);
  Bytes down = head(seal_size());
  aggregator_.seal(down, lanes_);
  EXPECT_EQ(member_.open(down, lanes_), OpenStatus::kOpened);
}

TEST_P(SessionSeal, RefusesASecondCopy) {
  Bytes message = head(seal_size());
  member_.seal(2, message, lanes_);
  EXPECT_EQ(aggregator_.open(2, message, lanes_), OpenStatus::kOpened);
  EXPECT_EQ(aggregator_.open(2, message, lanes_), OpenStatus::kReplayed);
  // The same message, sealed once more, is another packet.
  member_.seal(2, message, lanes_);
  EXPECT_EQ(aggregator_.open(2, message, lanes_), OpenStatus::kOpened);
}

TEST_P(SessionSeal, DetectsEveryFlippedBitOfTheHead) {
  Bytes message = head(seal_size());
  member_.seal(2, message, lanes_);
  for (uint32_t bit = 0; bit < message.size() * 8; bit++) {
    Bytes flipped = message;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_EQ(aggregator_.open(2, flipped, lanes_), OpenStatus::kForged) << "bit " << bit;
  }
  EXPECT_EQ(aggregator_.open(2, message, lanes_), OpenStatus::kOpened);
}

TEST_P(SessionSeal, OnlyFullCoversTheGradients) {
  Bytes message = head(seal_size());
  member_.seal(2, message, lanes_);
  lanes_[63] ^= std::byte{1};
  const auto expected = GetParam() == Mode::kFull ? OpenStatus::kForged : OpenStatus::kOpened;
  EXPECT_EQ(aggregator_.open(2, message, lanes_), expected);
}

TEST_P(SessionSeal, KeysDependOnSecretJobSaltAndDirection) {
  Bytes message = head(seal_size());
  member_.seal(2, message, lanes_);
  const auto refused_by = [&](const JobAuth& auth, uint8_t job, const Salt& salt) {
    AggregatorEnd other(auth, job, 0, 4, 1);
    other.start(salt);
    return other.open(2, message, lanes_) == OpenStatus::kForged;
  };
  EXPECT_FALSE(refused_by(auth_of(GetParam()), kJob, kSalt));
  EXPECT_TRUE(refused_by(auth_of(GetParam(), 2), kJob, kSalt));
  EXPECT_TRUE(refused_by(auth_of(GetParam()), kJob + 1, kSalt));
  EXPECT_TRUE(refused_by(auth_of(GetParam()), kJob, {.high = 1, .low = 3}));
  // A member's own message, reflected to it.
  EXPECT_EQ(member_.open(message, lanes_), OpenStatus::kForged);
}

TEST_P(SessionSeal, OpensNothingBeforeTheSession) {
  AggregatorEnd fresh(auth_of(GetParam()), kJob, 0, 4, 1);
  Bytes message = head(seal_size());
  member_.seal(2, message, lanes_);
  EXPECT_EQ(fresh.open(2, message, lanes_), OpenStatus::kForged);
}

// Cores of an aggregator count separately, and share the key.
TEST_P(SessionSeal, LanesDoNotDisturbEachOther) {
  AggregatorEnd other_core(auth_of(GetParam()), kJob, 5, 4, 1);
  other_core.start(kSalt);
  for (uint32_t i = 0; i < 3000; i++) {
    Bytes message = head(seal_size());
    aggregator_.seal(message, lanes_);
    ASSERT_EQ(member_.open(message, lanes_), OpenStatus::kOpened);
    if (i % 1000 != 0) continue;
    other_core.seal(message, lanes_);
    ASSERT_EQ(member_.open(message, lanes_), OpenStatus::kOpened);
    ASSERT_EQ(member_.open(message, lanes_), OpenStatus::kReplayed);
  }
  // A worker has one lane: a message that names another is refused.
  MemberEnd strange(auth_of(GetParam()), kJob, 1);
  strange.start(kSalt);
  Bytes message = head(seal_size());
  strange.seal(2, message, lanes_);
  EXPECT_EQ(aggregator_.open(2, message, lanes_), OpenStatus::kReplayed);
}

TEST_P(SessionSeal, JoinsAndResetsHaveKeysOfTheirOwn) {
  Bytes join = head(seal_bytes(Mode::kHeader));
  member_.seal_join(join);
  EXPECT_TRUE(aggregator_.opens_join(join));
  EXPECT_FALSE(member_.opens_join_reply(join));
  Bytes reply = head(seal_bytes(Mode::kHeader));
  aggregator_.seal_join_reply(reply);
  EXPECT_TRUE(member_.opens_join_reply(reply));
  EXPECT_FALSE(member_.opens_reset(reply));
  Bytes reset = head(seal_bytes(Mode::kHeader));
  aggregator_.seal_reset(reset);
  EXPECT_TRUE(member_.opens_reset(reset));
  reset[0] ^= std::byte{1};
  EXPECT_FALSE(member_.opens_reset(reset));
  // A restarted aggregator has other sessions, but the same secret.
  AggregatorEnd restarted(auth_of(GetParam()), kJob, 0, 4, 1);
  restarted.seal_reset(reset);
  EXPECT_TRUE(member_.opens_reset(reset));
}

}  // namespace
}  // namespace tributary::auth
