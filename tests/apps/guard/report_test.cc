// SPDX-License-Identifier: Apache-2.0
// Method: the line of each kind of culprit by hand, then a ring of two entries.
#include "apps/guard/report.h"

#include <gtest/gtest.h>

#include "base/endpoint.h"

namespace tributary::guard {
namespace {

Address address(const char* text) { return Endpoint::parse(text)->address; }

TEST(GuardReport, LinesSayWhoWhenAndWhy) {
  Culprit culprit;
  culprit.level = Level::kNetwork;
  culprit.kind = PacketKind::kTcpSyn;
  culprit.source = address("192.0.2.0:1");
  culprit.source_bits = 120;
  culprit.destination = address("198.18.0.1:1");
  culprit.pps_allowed = 200;
  culprit.pps_max = 900;
  culprit.dropped = 17;
  culprit.above_since = Instant() + seconds(1);
  culprit.detected_at = Instant() + milliseconds(4'250);
  culprit.above_last = Instant() + seconds(5);
  EXPECT_EQ(to_text(culprit),
            "tcp_syn from 192.0.2.0/24 to 198.18.0.1: 900 packets/s, allowed 200; above since "
            "1.000 s, detected at 4.250 s, last above at 5.000 s; action drop, 17 packets dropped");
  EXPECT_NE(to_text(culprit, Instant() + seconds(1)).find("above since 0.000 s, detected at 3.250"),
            std::string::npos);
  EXPECT_EQ(source_text(culprit), "192.0.2.0/24");
  EXPECT_EQ(destination_text(culprit), "198.18.0.1");
  culprit.source = address("[2001:db8::]:1");
  culprit.source_bits = 48;
  culprit.end = Change::kRecovered;
  culprit.ended_at = Instant() + seconds(65);
  EXPECT_EQ(to_text(culprit).substr(0, 29), "tcp_syn from 2001:db8::/48 to");
  EXPECT_NE(to_text(culprit).find("; recovered at 65.000 s"), std::string::npos);
  culprit.level = Level::kDestination;
  EXPECT_EQ(to_text(culprit).substr(0, 21), "tcp_syn from anywhere");
}

TEST(GuardReport, OrderOfOneTimeDoesNotDependOnTheTimers) {
  Report report(4);
  static_cast<void>(report.add({.level = Level::kSource, .destination = {2}}));
  static_cast<void>(report.add({.level = Level::kSource, .destination = {1}}));
  static_cast<void>(report.add({.level = Level::kDestination, .kind = PacketKind::kUdp}));
  static_cast<void>(report.add({.level = Level::kSource, .detected_at = Instant() + seconds(-1)}));
  const auto culprits = report.culprits();
  ASSERT_EQ(culprits.size(), 4U);
  EXPECT_EQ(culprits[0].detected_at, Instant() + seconds(-1));  // The earliest first.
  EXPECT_EQ(culprits[1].level, Level::kDestination);            // Then the widest level.
  EXPECT_EQ(culprits[2].destination, (Address{1}));
  EXPECT_EQ(culprits[3].destination, (Address{2}));
}

TEST(GuardReport, ReplacesTheOldest) {
  Report report(2);
  std::vector<uint32_t> observed;
  report.observe([&](const Culprit& culprit) { observed.push_back(culprit.pps_allowed); });
  FlowTracker tracker;
  tracker.count_drop();
  std::vector<uint64_t> numbers;
  for (uint32_t i = 0; i < 3; i++) {
    numbers.push_back(report.add({.pps_allowed = i, .detected_at = Instant() + seconds(i)}));
  }
  EXPECT_EQ(report.replaced(), 1U);
  EXPECT_EQ(observed, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(report.added(), 3U);
  EXPECT_EQ(report.entry(0), nullptr);
  EXPECT_EQ(report.entry(2)->pps_allowed, 2U);
  report.update(numbers[0], tracker);  // Replaced: no effect on the entry in its place.
  report.close(numbers[0], Change::kTimedOut, Instant());
  report.update(numbers[1], tracker);
  report.close(numbers[2], Change::kTimedOut, Instant());
  const auto culprits = report.culprits();
  ASSERT_EQ(culprits.size(), 2U);
  EXPECT_EQ(culprits[0].pps_allowed, 1U);
  EXPECT_EQ(culprits[0].dropped, 1U);
  EXPECT_EQ(culprits[0].end, Change::kNone);
  EXPECT_EQ(culprits[1].pps_allowed, 2U);
  EXPECT_EQ(culprits[1].dropped, 0U);
  EXPECT_EQ(culprits[1].end, Change::kTimedOut);
}

}  // namespace
}  // namespace tributary::guard
