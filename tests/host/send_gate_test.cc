// SPDX-License-Identifier: Apache-2.0
// Method: hand-made sequences of channels at the gate.
#include "host/send_gate.h"

#include <gtest/gtest.h>

namespace tributary::host {
namespace {

TEST(SendGate, HoldsLessUrgentChannelsOnly) {
  SendGate gate;
  for (uint32_t priority = 0; priority < kPrioritiesMax; priority++) {
    EXPECT_TRUE(gate.is_open(priority));
  }
  gate.enter(1);
  EXPECT_TRUE(gate.is_open(0));
  EXPECT_TRUE(gate.is_open(1));
  EXPECT_FALSE(gate.is_open(2));
  EXPECT_FALSE(gate.is_open(3));
}

TEST(SendGate, OpensWhenTheLastChannelOfAPriorityHasLeft) {
  SendGate gate;
  gate.enter(0);
  gate.enter(0);
  EXPECT_FALSE(gate.leave(0));
  EXPECT_FALSE(gate.is_open(1));
  EXPECT_TRUE(gate.leave(0));
  EXPECT_TRUE(gate.is_open(1));
}

}  // namespace
}  // namespace tributary::host
