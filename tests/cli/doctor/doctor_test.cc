// SPDX-License-Identifier: Apache-2.0
// Method:  a machine without faults, then one fault at a time with its verdict and remedy. Then the
//          machine that runs the test, for which only the form is known.
#include "cli/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

MachineFacts faultless() {
  MachineFacts facts;
  facts.interfaces = {{.name = "eth0", .mtu_bytes = 9000, .up = true, .loopback = false},
                      {.name = "lo", .mtu_bytes = 65536, .up = true, .loopback = true}};
  facts.receive_buffer_bytes_max = 64U << 20;
  facts.send_buffer_bytes_max = 64U << 20;
  facts.cores_online = 8;
  facts.cores_allowed = 4;
  facts.has_avx2 = true;
  facts.has_avx512 = true;
  facts.hugepages_free = 0;
  facts.memlock_bytes_max = 65536;
  facts.kernel_release = "6.1.0-18-amd64";
  facts.clock_source = "tsc";
  facts.has_udp_gso = true;
  facts.has_udp_gro = true;
  facts.port = 12000;
  return facts;
}

Finding finding_of(const MachineFacts& facts, const std::string& what) {
  for (const Finding& finding : examine(facts)) {
    if (finding.what == what) return finding;
  }
  ADD_FAILURE() << "no finding about " << what;
  return {};
}

TEST(Doctor, FaultlessMachineIsOk) {
  for (const Finding& finding : examine(faultless())) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.what << ": " << finding.found;
    EXPECT_EQ(finding.remedy, "") << finding.what;
  }
  EXPECT_EQ(worst(examine(faultless())), Verdict::kOk);
  EXPECT_EQ(worst({}), Verdict::kOk);
}

TEST(Doctor, UnknownFactsCauseNoFault) {
  // No fact could be read, so only a surely slow setting is reported, and nothing is wrong.
  EXPECT_EQ(worst(examine(MachineFacts{})), Verdict::kCostsSpeed);
  EXPECT_EQ(finding_of(MachineFacts{}, "net.core.rmem_max").verdict, Verdict::kOk);
  EXPECT_EQ(finding_of(MachineFacts{}, "kernel").verdict, Verdict::kOk);
}

TEST(Doctor, EthernetMtuFitsTheDefaultPacket) {
  MachineFacts facts = faultless();
  facts.interfaces[0].mtu_bytes = 1500;
  const Finding finding = finding_of(facts, "MTU of eth0");
  EXPECT_EQ(finding.found, "1500 bytes, 352 gradients a packet");
  EXPECT_EQ(finding.verdict, Verdict::kCostsSpeed);
  EXPECT_THAT(finding.remedy, HasSubstr("ip link set dev eth0 mtu 9000"));
}

TEST(Doctor, FullPacketNeeds4188Bytes) {
  // 1024 gradients of 4 bytes behind 20 + 8 + 64 = 92 bytes of headers: 4188.
  MachineFacts facts = faultless();
  facts.interfaces[0].mtu_bytes = 4187;
  EXPECT_EQ(finding_of(facts, "MTU of eth0").verdict, Verdict::kCostsSpeed);
  facts.interfaces[0].mtu_bytes = 4188;
  EXPECT_EQ(finding_of(facts, "MTU of eth0").verdict, Verdict::kOk);
}

TEST(Doctor, SmallMtuNamesTheGradientsThatFit) {
  MachineFacts facts = faultless();
  facts.interfaces[0].mtu_bytes = 1460;  // (1460 - 92) / 4 = 342.
  EXPECT_THAT(finding_of(facts, "MTU of eth0").remedy, HasSubstr("--gradients 342"));
  facts.interfaces[0].mtu_bytes = 68;  // IPv4's minimum: no gradient fits.
  EXPECT_THAT(finding_of(facts, "MTU of eth0").found, HasSubstr("0 gradients"));
}

TEST(Doctor, IgnoresAnInterfaceThatIsDown) {
  MachineFacts facts = faultless();
  facts.interfaces[0] = {.name = "eth0", .mtu_bytes = 1500, .up = false, .loopback = false};
  EXPECT_EQ(finding_of(facts, "MTU of eth0").verdict, Verdict::kOk);
}

TEST(Doctor, SmallBuffersCostSpeedUnlessTheUserMayExceedThem) {
  MachineFacts facts = faultless();
  facts.receive_buffer_bytes_max = 212'992;
  const Finding finding = finding_of(facts, "net.core.rmem_max");
  EXPECT_EQ(finding.verdict, Verdict::kCostsSpeed);
  EXPECT_THAT(finding.remedy, HasSubstr("sysctl -w net.core.rmem_max=4194304"));
  EXPECT_EQ(finding_of(facts, "net.core.wmem_max").verdict, Verdict::kOk);
  facts.may_pass_buffer_limits = true;
  EXPECT_EQ(finding_of(facts, "net.core.rmem_max").verdict, Verdict::kOk);
}

TEST(Doctor, OneCoreCostsSpeed) {
  MachineFacts facts = faultless();
  facts.cores_allowed = 1;
  EXPECT_EQ(finding_of(facts, "cores").verdict, Verdict::kCostsSpeed);
  facts.cores_allowed = 4;
  facts.cpu_quota_cores = 1.5;
  EXPECT_EQ(finding_of(facts, "cores").verdict, Verdict::kCostsSpeed);
  facts.cpu_quota_cores = 2;
  EXPECT_EQ(finding_of(facts, "cores").verdict, Verdict::kOk);
}

TEST(Doctor, MissingOffloadsAndOldKernelsCostSpeed) {
  MachineFacts facts = faultless();
  facts.has_udp_gso = false;
  facts.has_udp_gro = false;
  facts.kernel_release = "4.19.0-26-amd64";
  facts.has_avx2 = false;
  facts.clock_source = "hpet";
  for (const char* what :
       {"UDP send offload (GSO)", "UDP receive offload (GRO)", "kernel", "AVX2", "clock source"}) {
    EXPECT_EQ(finding_of(facts, what).verdict, Verdict::kCostsSpeed) << what;
    EXPECT_NE(finding_of(facts, what).remedy, "") << what;
  }
  EXPECT_EQ(worst(examine(facts)), Verdict::kCostsSpeed);
}

TEST(Doctor, PortInUseIsAFault) {
  MachineFacts facts = faultless();
  facts.port_refusal = "Address already in use";
  const Finding finding = finding_of(facts, "UDP port 12000");
  EXPECT_EQ(finding.verdict, Verdict::kWrong);
  EXPECT_THAT(finding.remedy, HasSubstr("ss -lunp 'sport = :12000'"));
  EXPECT_EQ(worst(examine(facts)), Verdict::kWrong);
}

TEST(Doctor, MissingSocketsAreAFault) {
  MachineFacts facts = faultless();
  facts.socket_refusal = "Operation not permitted";
  EXPECT_EQ(finding_of(facts, "UDP sockets").verdict, Verdict::kWrong);
}

TEST(Doctor, PacketSocketsAreNotNeededForUdp) {
  MachineFacts facts = faultless();
  EXPECT_THAT(finding_of(facts, "packet sockets").found, ::testing::StartsWith("yes"));
  facts.packet_socket_refusal = "Operation not permitted; to fix: run as root";
  const Finding finding = finding_of(facts, "packet sockets");
  EXPECT_THAT(finding.found, HasSubstr("to fix: run as root"));
  EXPECT_EQ(finding.verdict, Verdict::kOk);
}

TEST(Doctor, TextAndJsonAgree) {
  MachineFacts facts = faultless();
  facts.port_refusal = "Address already in use";
  const std::vector<Finding> findings = examine(facts);
  const std::string text = as_text(findings);
  const auto json = nlohmann::json::parse(as_json(findings));
  EXPECT_EQ(json["verdict"], "wrong");
  ASSERT_EQ(json["findings"].size(), findings.size());
  for (size_t i = 0; i < findings.size(); i++) {
    EXPECT_EQ(json["findings"][i]["what"], findings[i].what);
    EXPECT_EQ(json["findings"][i]["verdict"], to_string(findings[i].verdict));
    EXPECT_THAT(text, HasSubstr(findings[i].found));
    EXPECT_THAT(text, HasSubstr(findings[i].remedy));
  }
}

TEST(Doctor, RunsAndRefusesAnUnwritableFile) {
  std::ostringstream out;
  std::ostringstream err;
  DoctorOptions options;
  options.json = "/nonexistent/doctor.json";
  EXPECT_NE(run_doctor(options, out, err), 0);
  EXPECT_THAT(out.str(), HasSubstr("verdict: "));
  EXPECT_EQ(err.str(),
            "tributary doctor: --json /nonexistent/doctor.json: cannot be written: no file can be "
            "created "
            "in its folder: No such file or directory\n");
}

}  // namespace
}  // namespace tributary::cli
