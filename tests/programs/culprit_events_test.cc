// SPDX-License-Identifier: Apache-2.0
// Method: a report of two entries by hand, then one with more culprits than it has room for: each
// culprit is in an event of its own or in the number of those that were left out.
#include "programs/culprit_events.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tributary::programs {
namespace {

using guard::Change;
using guard::Level;

std::vector<std::string> names_of(const std::vector<ProgramEvent>& events) {
  std::vector<std::string> names;
  for (const ProgramEvent& event : events) names.push_back(event.name);
  return names;
}

TEST(CulpritEvents, TellEachBeginningAndEndOnce) {
  guard::Report report(2);
  CulpritEvents events;
  EXPECT_TRUE(events.take(report).empty());
  const uint64_t first = report.add({.level = Level::kSource, .pps_allowed = 7});
  const auto begun = events.take(report);
  ASSERT_EQ(names_of(begun), std::vector<std::string>{"culprit_detected"});
  EXPECT_TRUE(begun[0].is_warning);
  EXPECT_EQ(begun[0].fields["reason"], "source_bandwidth");
  EXPECT_EQ(begun[0].fields["pps_allowed"], 7);
  EXPECT_TRUE(events.take(report).empty());
  report.close(first, Change::kRecovered, Instant() + seconds(9));
  const auto ended = events.take(report);
  ASSERT_EQ(names_of(ended), std::vector<std::string>{"culprit_ended"});
  EXPECT_EQ(ended[0].at, Instant() + seconds(9));
  EXPECT_EQ(ended[0].fields["reason"], "recovered");
  EXPECT_TRUE(events.take(report).empty());
}

TEST(CulpritEvents, CountThoseThatTheReportHasLeftOut) {
  constexpr uint32_t kKept = 1'024;
  constexpr uint32_t kCulprits = 1'100;
  guard::Report report(kKept);
  CulpritEvents events;
  static_cast<void>(report.add({}));
  EXPECT_EQ(events.take(report).size(), 1U);  // Before it is replaced.
  for (uint32_t i = 1; i < kCulprits; i++) {
    static_cast<void>(report.add({.detected_at = Instant() + seconds(i)}));
  }
  const auto taken = events.take(report);
  ASSERT_EQ(taken.size(), kKept + 1);
  EXPECT_EQ(taken[0].name, "culprits_left_out");
  EXPECT_TRUE(taken[0].is_warning);
  EXPECT_EQ(taken[0].fields["culprits"], kCulprits - kKept - 1);
  EXPECT_EQ(taken[0].at, Instant() + seconds(kCulprits - kKept));
  for (uint32_t i = 1; i < taken.size(); i++) EXPECT_EQ(taken[i].name, "culprit_detected");
  EXPECT_TRUE(events.take(report).empty());
}

}  // namespace
}  // namespace tributary::programs
