// SPDX-License-Identifier: Apache-2.0
// Method: made-up machines, with times worked by hand from the BytePS equations.
#include "cli/doctor_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

InterfaceFacts link(std::optional<uint64_t> mbit) {
  return {.name = "eth0", .mtu_bytes = 9000, .up = true, .loopback = false, .mbit = mbit};
}

Finding examine(const InterfaceFacts& interface, uint32_t workers, double worker_gbit) {
  const auto findings = examine_links(std::span(&interface, 1), workers, worker_gbit);
  EXPECT_EQ(findings.size(), 1U);
  return findings.front();
}

TEST(DoctorLink, OnePortOfAWorkersSpeedCostsSpeed) {
  const Finding finding = examine(link(1000), 4, 0);
  EXPECT_EQ(finding.verdict, Verdict::kCostsSpeed);
  EXPECT_EQ(finding.what, "link of eth0 for 4 workers");
  // 4 tensors through the link where the ring's worker sends 1.5: 2.67 times as long.
  EXPECT_THAT(finding.found, HasSubstr("1 Gbit/s, where the workers send 4"));
  EXPECT_THAT(finding.found, HasSubstr("2.67 times the best ring's time"));
  EXPECT_THAT(finding.remedy, HasSubstr("tributary plan --workers 4 --servers 1@1 --gbit 1"));
}

TEST(DoctorLink, AsMuchAsAllWorkersTogetherIsFast) {
  const Finding finding = examine(link(100'000), 4, 25);
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_THAT(finding.found, HasSubstr("0.67 times the best ring's time"));
  EXPECT_EQ(finding.remedy, "");
}

TEST(DoctorLink, UnknownRateIsSaid) {
  const Finding finding = examine(link({}), 4, 0);
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_THAT(finding.found, HasSubstr("unknown rate"));
}

TEST(DoctorLink, LinksThatAreDownAreNotExamined) {
  InterfaceFacts down = link(1000);
  down.up = false;
  const auto findings = examine_links(std::span(&down, 1), 4, 0);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].verdict, Verdict::kWrong);
}

}  // namespace
}  // namespace tributary::cli
