// SPDX-License-Identifier: Apache-2.0
// Method: sources that a handshake or calm traffic exempts from the judgement at a destination, on
// the live machine in virtual time: which packets pass a flood, and which do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "apps/guard/program.h"
#include "tests/apps/guard/bed.h"

namespace tributary::guard {
namespace {

TEST(GuardExemption, CalmTrafficMakesItsSourcesKnown) {
  Bed bed(tight());
  // Destinations have 40 packets/s of a kind and a burst of 10; 9 tokens are calm.
  const auto early = udp_frame("203.0.113.1:53", kServer);
  const auto late = udp_frame("203.0.113.2:53", kServer);
  EXPECT_TRUE(bed.send(at(milliseconds(500)), early));
  EXPECT_TRUE(bed.send(at(milliseconds(900)), late));
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 0U);
  // From 1 s on, 100 sources of as many networks send 100 packets/s.
  uint64_t i = 0;
  for (Instant now = at(seconds(1)); now < at(seconds(8)); now = now + milliseconds(10)) {
    const std::string source = "10." + std::to_string(i++ % 100) + ".0.1:53";
    bed.send(now, udp_frame(source.c_str(), kServer));
  }
  ASSERT_EQ(bed.state().report().culprits().size(), 1U);
  EXPECT_EQ(bed.state().report().culprits()[0].level, Level::kDestination);
  EXPECT_TRUE(bed.send(at(seconds(8)), early));  // Sent 500 ms before the traffic was loud.
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 1U);
  EXPECT_EQ(bed.count(Outcome::kKnown), 1U);
  EXPECT_FALSE(bed.send(at(seconds(8)), late));  // Sent 100 ms before.
  EXPECT_FALSE(bed.send(at(seconds(8)), udp_frame("10.0.0.1:53", kServer)));
}

TEST(GuardExemption, CalmTrafficOfAnotherKindDoesNotExemptSyns) {
  GuardConfig config = tight();
  config.levels[0].pps.fill(1'000);
  config.levels[1].pps.fill(1'000);
  Bed bed(config);
  // 100 forged sources send two UDP packets each, 25 packets/s in all, so they become known.
  const auto host = [](uint64_t i) { return "10." + std::to_string(i % 100) + ".0.1"; };
  for (uint64_t i = 0; i < 200; i++) {
    EXPECT_TRUE(bed.send(at(milliseconds(40) * static_cast<int64_t>(i)),
                         udp_frame((host(i) + ":53").c_str(), kServer)));
  }
  // Two sources whose marks lie in the same word may wait for each other.
  EXPECT_GE(bed.count(Outcome::kSourceKnown), 90U);
  // Then 100 SYNs/s from the same addresses: 40/s are allowed.
  uint64_t passed_late = 0;
  for (uint64_t i = 0; i < 700; i++) {
    const Instant now = at(seconds(9) + milliseconds(10) * static_cast<int64_t>(i));
    const bool passed = bed.send(now, syn_from(host(i)));
    // The detect time, four timer periods, and at most two more for the scans.
    if (now >= at(milliseconds(9'000 + 3'000 + 6 * 250))) passed_late += passed ? 1 : 0;
  }
  const auto culprits = bed.state().report().culprits();
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].level, Level::kDestination);
  EXPECT_EQ(culprits[0].kind, PacketKind::kTcpSyn);
  EXPECT_EQ(passed_late, 0U);
  EXPECT_GE(bed.count(Outcome::kDroppedDestination), 250U);
}

TEST(GuardExemption, AConnectionProvesASourceThatCalmTrafficHasMadeKnown) {
  GuardConfig config = tight();
  config.levels[0].pps.fill(1'000);
  config.levels[1].pps.fill(1'000);
  Bed bed(config);
  // Segments of a connection from before the guard's start, then a new connection.
  EXPECT_TRUE(bed.send(at(Duration()), ack_from("203.0.113.1")));
  EXPECT_TRUE(bed.send(at(milliseconds(500)), ack_from("203.0.113.1")));
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 1U);
  EXPECT_TRUE(bed.send(at(seconds(1)), syn_from("203.0.113.1")));
  EXPECT_TRUE(bed.send(at(milliseconds(1'050)), ack_from("203.0.113.1")));
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 2U);
  flood(bed, at(milliseconds(1'100)), at(seconds(7)), 100, 250);
  EXPECT_EQ(bed.count(Outcome::kDetected), 1U);
  EXPECT_TRUE(bed.send(at(seconds(7)), syn_from("203.0.113.1")));
  EXPECT_FALSE(bed.send(at(seconds(7)), syn_from("203.0.113.2")));
}

TEST(GuardExemption, AKnownSourceWithoutARecordIsJudgedAtTheDestination) {
  GuardConfig config = tight();
  config.levels[0].pps.fill(100);
  config.suspects_max = 64;
  Bed bed(config);
  EXPECT_TRUE(bed.send(at(Duration()), syn_from("203.0.113.1")));
  EXPECT_TRUE(bed.send(at(milliseconds(50)), ack_from("203.0.113.1")));
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 1U);
  // 200 sources of one network keep all records busy at another destination. From 5 s on, the known
  // client sends 500 SYNs/s: its level allows 100, the destination 40.
  const char* const kOther = "198.18.0.2:443";
  uint64_t passed_early = 0, passed_late = 0;
  for (int64_t ms = 100; ms < 12'000; ms++) {
    const std::string host = "192.0.2." + std::to_string(1 + ms % 200) + ":1000";
    bed.send(at(milliseconds(ms)), tcp_frame(host.c_str(), kOther, wire::kTcpSyn));
    if (ms < 5'000 || ms % 2 != 0) continue;
    const bool passed = bed.send(at(milliseconds(ms)), syn_from("203.0.113.1"));
    if (ms < 8'000) passed_early += passed ? 1 : 0;
    // The detect time, four timer periods, and at most two more for the scans.
    if (ms >= 5'000 + 3'000 + 6 * 250) passed_late += passed ? 1 : 0;
  }
  EXPECT_EQ(bed.state().suspect_count(), 64U);
  EXPECT_GT(bed.count(Outcome::kSuspectUntracked), 0U);
  EXPECT_EQ(passed_early, 1'500U);
  EXPECT_EQ(passed_late, 0U);
  const auto culprits = bed.state().report().culprits();
  const auto own =
      std::ranges::find(culprits, Endpoint::parse(kServer)->address, &Culprit::destination);
  ASSERT_NE(own, culprits.end());
  EXPECT_EQ(own->level, Level::kDestination);
  EXPECT_GT(own->dropped, 1'000U);
}

}  // namespace
}  // namespace tributary::guard
