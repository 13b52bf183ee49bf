// SPDX-License-Identifier: Apache-2.0
#include "bench/chaos/attackers.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/seed.h"

namespace tributary::chaos {
namespace {

TEST(ForgedMessage, IsWellFormedSoThatOnlyItsKeysAreWrong) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (const auth::Mode mode : {auth::Mode::kNone, auth::Mode::kHeader, auth::Mode::kFull}) {
    const AttackConfig config{.server = {}, .workers = 3, .auth = mode, .network = {}};
    std::set<wire::MessageType> types;
    for (uint32_t i = 0; i < 2000; i++) {
      const auto bytes = forged_message(prng, config, /*upward=*/i % 2 == 0);
      wire::Message message;
      ASSERT_EQ(decode_message(bytes, static_cast<uint32_t>(bytes.size()), message),
                wire::DecodeStatus::kOk);
      EXPECT_LT(message.header.src_id, 3U);
      if (!message.header.extended) continue;
      types.insert(message.extension.type);
      EXPECT_EQ(wire::seal_mode(message.extension.flags), mode);
    }
    EXPECT_EQ(types.size(), wire::kMessageTypeLast + 1U) << "all types occur";
  }
}

}  // namespace
}  // namespace tributary::chaos
