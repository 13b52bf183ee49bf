// SPDX-License-Identifier: Apache-2.0
// Method:  a device without faults, one with two, then texts that name no device, with and without
//          DPDK in the build. tests/io/dpdk/preflight_test.cc tests every single fault.
#include "cli/doctor/doctor_dpdk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

TEST(DoctorDpdk, ReportsAReadyDevice) {
  io::DpdkDeviceFacts facts;
  facts.hugepage_bytes_free = 1 << 30;
  const auto findings =
      examine_dpdk_device(*io::parse_dpdk_device("dpdk:vhost,iface=/tmp/a,mtu=4200"), facts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].verdict, Verdict::kOk);
  EXPECT_EQ(findings[0].what, "DPDK net_vhost");
  EXPECT_EQ(findings[0].found, "ready, MTU 4200");
}

TEST(DoctorDpdk, MapsFaultsAndWarningsToVerdicts) {
  io::DpdkDeviceFacts facts;
  facts.socket = io::SocketState::kListening;
  const auto findings =
      examine_dpdk_device(*io::parse_dpdk_device("dpdk:vhost,iface=/tmp/a"), facts);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].verdict, Verdict::kWrong);
  EXPECT_THAT(findings[0].remedy, HasSubstr("ss -xlp"));
  EXPECT_EQ(findings[1].verdict, Verdict::kCostsSpeed);
  EXPECT_THAT(findings[1].remedy, HasSubstr("vm.nr_hugepages"));
}

TEST(DoctorDpdk, MissingDpdkIsAFaultOnlyIfRequested) {
  EXPECT_EQ(worst(examine_dpdk({}, false)), Verdict::kOk);
  EXPECT_EQ(worst(examine_dpdk({}, true)), Verdict::kOk);
  const std::vector<std::string> devices{"dpdk:nothing"};
  const auto findings = examine_dpdk(devices, false);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].remedy, HasSubstr("--with-dpdk"));
  EXPECT_EQ(findings[1].verdict, Verdict::kWrong);
  EXPECT_THAT(findings[1].found, HasSubstr("'nothing' is not a device"));
}

}  // namespace
}  // namespace tributary::cli
