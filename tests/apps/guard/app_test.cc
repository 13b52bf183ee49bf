// SPDX-License-Identifier: Apache-2.0
// Method: owners of frames by hand, the time of the next timer, and the live core's concept.
#include "apps/guard/app.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/live/live_core.h"
#include "tests/apps/guard/bed.h"

namespace tributary::guard {
namespace {

static_assert(engine::LiveProgram<App>);

uint32_t owner(const BuiltFrame& frame, uint32_t cores) {
  return App::owner(frame.span(), true, cores);
}

TEST(GuardApp, OneDestinationHasOneOwner) {
  const uint32_t expected = owner(tcp_frame("192.0.2.1:1", "198.18.0.1:443", 2), 8);
  EXPECT_EQ(owner(tcp_frame("192.0.2.99:7", "198.18.0.1:80", 16), 8), expected);
  EXPECT_EQ(owner(udp_frame("192.0.2.99:7", "198.18.0.1:53"), 8), expected);
  std::set<uint32_t> owners;
  for (int i = 1; i < 100; i++) {
    const std::string to = "198.18.0." + std::to_string(i) + ":443";
    owners.insert(owner(tcp_frame("192.0.2.1:1", to.c_str(), 2), 8));
    const std::string to_ipv6 = "[2001:db8::" + std::to_string(i) + "]:443";
    EXPECT_LT(owner(tcp_frame("[2001:db8:1::1]:1", to_ipv6.c_str(), 2), 8), 8U);
  }
  EXPECT_EQ(owners.size(), 8U);
}

TEST(GuardApp, CoreZeroOwnsTheRest) {
  const BuiltFrame frame = tcp_frame("192.0.2.1:1", "198.18.0.1:443", 2);
  for (uint32_t size = 0; size < 34; size++) {
    EXPECT_EQ(App::owner(frame.span().first(size), true, 8), 0U);
  }
  EXPECT_EQ(App::owner(frame.span(), false, 8), 0U);
}

TEST(GuardApp, TimersAreDueInTurn) {
  Bed bed;
  // Ten threads with a period of 250 ms each.
  EXPECT_EQ(bed.state().next_due(), at(milliseconds(25)));
  bed.advance(at(milliseconds(30)));
  EXPECT_EQ(bed.state().next_due(), at(milliseconds(50)));
}

}  // namespace
}  // namespace tributary::guard
