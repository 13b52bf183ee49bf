// SPDX-License-Identifier: Apache-2.0
// Method: small models of cards that support some rules and not others. Each must steer every block
// to its owner's queue, with senders that know the ports and with senders that do not.
#include "io/dpdk/steering_rules.h"

#include <gtest/gtest.h>

#include "wire/trio_ml.h"

namespace tributary::io {
namespace {

constexpr uint16_t kPort = 12000;
constexpr uint32_t kQueues = 4;

struct Card {
  bool sees_payload = false;
  uint32_t rules_max = 0;
  std::vector<SteeringRule> made;

  BlockSteering steer(uint16_t udp_port = kPort, uint32_t queues = kQueues) {
    return io::steer(udp_port, queues, [this](std::span<const SteeringRule> rules) {
      if (rules.size() > rules_max) return false;
      for (const SteeringRule& rule : rules) {
        if (rule.mask != 0 && !sees_payload) return false;
      }
      made.assign(rules.begin(), rules.end());
      return true;
    });
  }
  /// Returns the queue of a packet; kQueues if no rule matches.
  [[nodiscard]] uint32_t queue_of(uint16_t udp_port, uint32_t block_id) const {
    uint32_t queue = kQueues;
    for (const SteeringRule& rule : made) {
      if (rule.udp_port != udp_port || (block_id & rule.mask) != rule.value) continue;
      EXPECT_EQ(queue, kQueues) << "two rules for one packet";
      queue = rule.queue;
    }
    return queue;
  }
};

TEST(SteeringRules, SteeringByBlockNeedsNoHelpFromSenders) {
  Card card{.sees_payload = true, .rules_max = 4, .made = {}};
  ASSERT_EQ(card.steer(), BlockSteering::kByBlock);
  for (uint32_t block = 0; block < 5000; block++) {
    ASSERT_EQ(card.queue_of(kPort, block), wire::owner_of(block, kQueues)) << block;
  }
  EXPECT_EQ(card.queue_of(kPort + 1, 0), kQueues);
}

TEST(SteeringRules, SteeringByPortFollowsTheSendersPorts) {
  Card card{.sees_payload = false, .rules_max = 4, .made = {}};
  ASSERT_EQ(card.steer(), BlockSteering::kByPort);
  for (uint32_t block = 0; block < 5000; block++) {
    const uint32_t owner = wire::owner_of(block, kQueues);
    ASSERT_EQ(card.queue_of(static_cast<uint16_t>(kPort + owner), block), owner) << block;
    ASSERT_EQ(card.queue_of(kPort, block), 0U) << block;  // From a sender that does not know.
  }
}

TEST(SteeringRules, DoesNotSteerIfCardOrPortsAreInsufficient) {
  Card few{.sees_payload = true, .rules_max = 3, .made = {}};
  EXPECT_EQ(few.steer(), BlockSteering::kNone);
  Card card{.sees_payload = false, .rules_max = 100, .made = {}};
  EXPECT_EQ(card.steer(65'533), BlockSteering::kNone);  // The fourth port would be 65,536.
  EXPECT_EQ(card.steer(65'532), BlockSteering::kByPort);
  EXPECT_EQ(card.steer(kPort, 1), BlockSteering::kNone);
  EXPECT_EQ(card.steer(kPort, 3), BlockSteering::kNone);
}

}  // namespace
}  // namespace tributary::io
