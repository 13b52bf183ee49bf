// SPDX-License-Identifier: Apache-2.0
// Method: made-up machines, with times worked by hand from the BytePS equations.
#include "cli/doctor/doctor_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

InterfaceFacts link(std::optional<uint64_t> mbit) {
  return {.name = "eth0", .mtu_bytes = 9000, .up = true, .loopback = false, .mbit = mbit};
}

Finding examine(const InterfaceFacts& interface, const LinkQuestion& question) {
  const auto findings = examine_links(std::span(&interface, 1), question);
  EXPECT_EQ(findings.size(), 1U);
  return findings.front();
}

TEST(DoctorLink, OnePortOfAWorkersSpeedCostsSpeed) {
  const Finding finding = examine(link(1000), {.workers = 4});
  EXPECT_EQ(finding.verdict, Verdict::kCostsSpeed);
  EXPECT_EQ(finding.what, "link of eth0 for 4 workers");
  // 4 tensors through the link where the ring's worker sends 1.5: 2.67 times as long.
  EXPECT_THAT(finding.found, HasSubstr("1 Gbit/s, where the workers send 4"));
  EXPECT_THAT(finding.found, HasSubstr("2.67 times the best ring's time"));
  EXPECT_THAT(finding.remedy, HasSubstr("tributary plan --workers 4 --servers 1@1 --gbit 1"));
}

TEST(DoctorLink, AsMuchAsAllWorkersTogetherIsFast) {
  const Finding finding = examine(link(100'000), {.workers = 4, .worker_gbit = 25});
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_THAT(finding.found, HasSubstr("0.67 times the best ring's time"));
  EXPECT_EQ(finding.remedy, "");
}

// One worker has no ring, so there is nothing to compare with.
TEST(DoctorLink, OneWorkerGetsAPredictionOnly) {
  const Finding finding = examine(link(1000), {.workers = 1});
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_THAT(finding.found, HasSubstr("1 Gbit/s, where the workers send 1; "));
  EXPECT_THAT(finding.found, Not(HasSubstr("inf")));
  EXPECT_THAT(finding.found, Not(HasSubstr("ring")));
}

TEST(DoctorLink, UnknownRateIsSaid) {
  const Finding finding = examine(link({}), {.workers = 4});
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_THAT(finding.found, HasSubstr("unknown rate"));
  EXPECT_THAT(finding.found, HasSubstr("--server-gbit"));
}

TEST(DoctorLink, GivenRateIsComparedInsteadOfTheInterfaces) {
  for (const auto& told : {std::optional<uint64_t>(), std::optional<uint64_t>(10'000)}) {
    const Finding finding = examine(link(told), {.workers = 4, .worker_gbit = 1, .server_gbit = 2});
    EXPECT_EQ(finding.verdict, Verdict::kCostsSpeed);
    // 4 tensors at 2 Gbit/s are 2 at 1, where the ring's worker sends 1.5.
    EXPECT_THAT(finding.found, HasSubstr("2 Gbit/s, where the workers send 4"));
    EXPECT_THAT(finding.found, HasSubstr("1.33 times the best ring's time"));
    EXPECT_THAT(finding.remedy, HasSubstr("--workers 4 --servers 1@2 --gbit 1"));
  }
}

TEST(DoctorLink, SlowCpuLimitsAFastLink) {
  const Finding finding = examine(link(100'000), {.workers = 4, .worker_gbit = 25, .sum_gbit = 20});
  EXPECT_EQ(finding.verdict, Verdict::kCostsSpeed);
  // 400 MB at 20 Gbit/s are 0.16 s; the ring's 150 MB at 25, with headers of 98 to 8192, 0.0486.
  EXPECT_THAT(finding.found, HasSubstr("100 MB take 0.16 s, 3.29 times the best ring's time"));
  EXPECT_THAT(finding.remedy, HasSubstr("--servers 1@100/20 --gbit 25"));
}

TEST(DoctorLink, LinksThatAreDownAreNotExamined) {
  InterfaceFacts down = link(1000);
  down.up = false;
  const auto findings = examine_links(std::span(&down, 1), {.workers = 4});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].verdict, Verdict::kWrong);
}

}  // namespace
}  // namespace tributary::cli
