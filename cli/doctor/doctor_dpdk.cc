// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/doctor_dpdk.h"

#include <fmt/format.h>

namespace tributary::cli {
namespace {

/// Cores for which a device is judged. A server with more cores needs more memory and says so when
/// it starts.
constexpr uint32_t kCores = 1;

}  // namespace

std::vector<Finding> examine_dpdk_device(const io::DpdkDeviceSpec& spec,
                                         const io::DpdkDeviceFacts& facts) {
  const std::string what = "DPDK " + spec.name;
  std::vector<Finding> findings;
  std::vector<io::DpdkComplaint> complaints = io::check_dpdk_device(spec, facts);
  const io::HugepageDecision pages = io::decide_dpdk_hugepages(
      {&spec, 1}, spec.hugepages, facts, io::dpdk_memory_bytes({&spec, 1}, kCores));
  if (pages.complaint) complaints.push_back(*pages.complaint);
  for (const io::DpdkComplaint& complaint : complaints) {
    findings.push_back({.what = what,
                        .found = complaint.cause,
                        .verdict = complaint.is_fatal ? Verdict::kWrong : Verdict::kCostsSpeed,
                        .remedy = complaint.remedy});
  }
  if (findings.empty()) {
    findings.push_back({.what = what,
                        .found = fmt::format("ready, MTU {}", io::dpdk_mtu(spec, facts)),
                        .verdict = Verdict::kOk,
                        .remedy = ""});
  }
  return findings;
}

std::vector<Finding> examine_dpdk(std::span<const std::string> devices, bool has_dpdk) {
  std::vector<Finding> findings{
      {.what = "DPDK",
       .found = has_dpdk ? "built in" : "not in this build (not needed for kernel UDP)",
       .verdict = has_dpdk || devices.empty() ? Verdict::kOk : Verdict::kWrong,
       .remedy = ""}};
  if (findings.front().verdict == Verdict::kWrong) {
    findings.front().remedy = "tools/install-deps.sh --with-dpdk, then configure and build again";
  }
  for (const std::string& text : devices) {
    const auto spec = io::parse_dpdk_device(text);
    if (!spec) {
      findings.push_back({.what = "DPDK",
                          .found = spec.error().text,
                          .verdict = Verdict::kWrong,
                          .remedy = "see docs/network.md, DPDK"});
      continue;
    }
    for (Finding& finding : examine_dpdk_device(*spec, io::gather_dpdk_facts(*spec))) {
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace tributary::cli
