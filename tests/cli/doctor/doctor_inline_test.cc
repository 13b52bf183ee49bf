// SPDX-License-Identifier: Apache-2.0
// Method: tunnels on the loopback interface, which need no rights, then ports that cannot be
//         opened.
#include "cli/doctor/doctor_inline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

/// Returns the only finding.
Finding finding_of(const std::vector<std::string>& ports) {
  const auto findings = examine_inline(ports);
  EXPECT_EQ(findings.size(), 1U);
  return findings.empty() ? Finding{} : findings.front();
}

TEST(DoctorInline, OpensATunnel) {
  EXPECT_TRUE(examine_inline({}).empty());
  const Finding finding = finding_of({"vxlan:127.0.0.1:47890,peer=127.0.0.1:9"});
  EXPECT_NE(finding.verdict, Verdict::kWrong);
  EXPECT_EQ(finding.what, "ports vxlan:127.0.0.1:47890,peer=127.0.0.1:9");
  EXPECT_EQ(finding.found, "open");
}

TEST(DoctorInline, NamesWhatIsWrong) {
  const Finding address = finding_of({"vxlan:192.0.2.1,peer=127.0.0.1"});
  EXPECT_EQ(address.verdict, Verdict::kWrong);
  EXPECT_THAT(address.found, HasSubstr("cannot bind"));
  const Finding text = finding_of({"packt:eth0"});
  EXPECT_EQ(text.verdict, Verdict::kWrong);
  EXPECT_THAT(text.found, HasSubstr("INTERFACE"));
  EXPECT_EQ(finding_of({"no-such-iface0"}).verdict, Verdict::kWrong);
  EXPECT_THAT(finding_of({"dpdk:net_null0"}).remedy, HasSubstr("--dpdk"));
}

}  // namespace
}  // namespace tributary::cli
