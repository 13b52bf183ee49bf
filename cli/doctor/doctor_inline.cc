// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/doctor_inline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/programs/live_command.h"
#include "io/inline/inline_port.h"

namespace tributary::cli {

bool is_inline_port(const std::string& interface, const std::vector<std::string>& ports) {
  const auto sides = inline_sides(ports);
  return sides && std::ranges::any_of(*sides, [&](const io::InlineSideSpec& side) {
           return side.interface() == interface;
         });
}

std::vector<Finding> examine_inline(const std::vector<std::string>& ports) {
  if (ports.empty()) return {};
  const auto finding = [&](Verdict verdict, const std::string& found, const std::string& remedy) {
    return Finding{.what = fmt::format("ports {}", fmt::join(ports, " and ")),
                   .found = found,
                   .verdict = verdict,
                   .remedy = remedy};
  };
  const auto sides = inline_sides(ports);
  if (!sides) return {finding(Verdict::kWrong, sides.error().text, "write --inline as allowed")};
  const bool has_dpdk =
      std::ranges::any_of(*sides, [](const auto& side) { return side.dpdk() != nullptr; });
  if (has_dpdk) return {finding(Verdict::kWrong, "not checked", "check DPDK devices with --dpdk")};
  const auto opened = io::InlinePort::open({.sides = *sides}, /*core_count=*/1);
  if (!opened) {
    const bool has_rights = geteuid() == 0;
    return {finding(Verdict::kWrong, opened.error().text,
                    has_rights
                        ? ""
                        : "an interface needs root or cap_net_raw; a tunnel (vxlan:) needs no "
                          "rights")};
  }
  std::vector<Finding> findings;
  for (const std::string& warning : opened->warnings) {
    findings.push_back(finding(Verdict::kCostsSpeed, "open", warning));
  }
  if (findings.empty()) findings.push_back(finding(Verdict::kOk, "open", ""));
  return findings;
}

}  // namespace tributary::cli
