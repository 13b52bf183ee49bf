// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/result_file.h"
#include "cli/doctor/doctor_dpdk.h"
#include "cli/doctor/doctor_inline.h"
#include "cli/doctor/doctor_link.h"
#include "cli/doctor/doctor_sum.h"
#include "cli/plan/plan_command.h"
#include "cli/plan/plan_machines.h"
#include "cli/settings.h"
#include "host/communicator.h"
#include "io/dpdk/open_dpdk_port.h"
#include "io/udp/udp_port_config.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

constexpr uint32_t kEthernetMtuBytes = 1500;
/// Gradients of a full packet. Source: Trio paper §6.1 ("each server to send 1024 gradients").
constexpr uint32_t kGradientsFull = 1024;

/// First Linux version with UDP_GRO, the newest feature that the UDP driver uses.
constexpr uint32_t kKernelMajorFull = 5;

/// Most bytes of headers before a packet's gradients, over IPv4.
constexpr uint32_t kHeaderBytesMax =
    wire::Ipv4Header::kBytes + wire::UdpHeader::kBytes + wire::kUnsealedHeadBytesMax;
static_assert(kHeaderBytesMax == 92);

uint32_t gradients_for(uint32_t mtu_bytes) {
  if (mtu_bytes <= kHeaderBytesMax) return 0;
  return (mtu_bytes - kHeaderBytesMax) / wire::kGradientBytes;
}

Finding examine_interface(const InterfaceFacts& interface) {
  const uint32_t gradients = gradients_for(interface.mtu_bytes);
  Finding finding{
      .what = "MTU of " + interface.name,
      .found = fmt::format("{} bytes, {} gradients a packet", interface.mtu_bytes, gradients),
      .verdict = Verdict::kOk,
      .remedy = ""};
  if (!interface.up) {
    finding.found += ", interface is down";
  } else if (interface.mtu_bytes < kEthernetMtuBytes) {
    finding.verdict = Verdict::kCostsSpeed;
    finding.remedy = fmt::format(
        "packets of the default {} gradients are fragmented: ip link set dev {} mtu {}, or give "
        "each "
        "worker --gradients {}",
        host::CommunicatorConfig{}.gradients, interface.name, kEthernetMtuBytes, gradients);
  } else if (gradients < kGradientsFull) {
    finding.verdict = Verdict::kCostsSpeed;
    finding.remedy = fmt::format(
        "ip link set dev {} mtu 9000, if every machine and switch on the path allows it, and "
        "give each worker --gradients {}",
        interface.name, kGradientsFull);
  }
  return finding;
}

Finding examine_buffer(const char* key, const std::optional<uint64_t>& bytes_max,
                       uint32_t wanted_bytes, bool may_pass) {
  Finding finding{.what = key, .found = "unknown", .verdict = Verdict::kOk, .remedy = ""};
  if (!bytes_max) return finding;
  finding.found = fmt::format("{} bytes", *bytes_max);
  if (*bytes_max >= wanted_bytes) return finding;
  if (may_pass) {
    finding.found += ", which this user may exceed";
    return finding;
  }
  finding.verdict = Verdict::kCostsSpeed;
  finding.remedy = fmt::format("sysctl -w {}={}", key, wanted_bytes);
  return finding;
}

Finding examine_cores(const MachineFacts& facts) {
  Finding finding{.what = "cores",
                  .found = fmt::format("{} of {} allowed", facts.cores_allowed, facts.cores_online),
                  .verdict = Verdict::kOk,
                  .remedy = ""};
  double cores = facts.cores_allowed;
  if (facts.cpu_quota_cores) {
    finding.found += fmt::format(", quota {:.2f}", *facts.cpu_quota_cores);
    cores = std::min(cores, *facts.cpu_quota_cores);
  }
  if (cores < 2) {
    finding.verdict = Verdict::kCostsSpeed;
    finding.remedy =
        "the kernel's network stack and the engine share one core: allow two or more (taskset -c, "
        "docker run --cpus)";
  }
  return finding;
}

std::vector<Finding> examine_vectors(const MachineFacts& facts) {
  Finding avx2{.what = "AVX2",
               .found = facts.has_avx2 ? "yes" : "no",
               .verdict = Verdict::kOk,
               .remedy = ""};
  if (!facts.has_avx2) {
    avx2.verdict = Verdict::kCostsSpeed;
    avx2.remedy =
        "scalar loops run instead; in a virtual machine, use the host's CPU model (-cpu host)";
  }
  return {avx2,
          {.what = "AVX-512 F and BW",
           .found = facts.has_avx512 ? "yes" : "no, AVX2 or scalar loops run",
           .verdict = Verdict::kOk,
           .remedy = ""}};
}

Finding examine_offload(const char* what, bool works) {
  if (works) return {.what = what, .found = "yes", .verdict = Verdict::kOk, .remedy = ""};
  return {.what = what,
          .found = "no",
          .verdict = Verdict::kCostsSpeed,
          .remedy = fmt::format("a system call per packet instead of one per burst: use Linux "
                                "{}.0 or newer, outside sandboxes such as gVisor",
                                kKernelMajorFull)};
}

Finding examine_kernel(const std::string& release) {
  Finding finding{.what = "kernel",
                  .found = release.empty() ? "unknown" : release,
                  .verdict = Verdict::kOk,
                  .remedy = ""};
  if (!release.empty() && std::strtoul(release.c_str(), nullptr, 10) < kKernelMajorFull) {
    finding.verdict = Verdict::kCostsSpeed;
    finding.remedy = fmt::format("use Linux {}.0 or newer", kKernelMajorFull);
  }
  return finding;
}

/// Accepts clock sources that the kernel reads without a system call (vDSO).
Finding examine_clock(const std::string& source) {
  Finding finding{.what = "clock source",
                  .found = source.empty() ? "unknown" : source,
                  .verdict = Verdict::kOk,
                  .remedy = ""};
  const bool fast = source == "tsc" || source == "kvm-clock" || source.starts_with("hyperv") ||
                    source == "arch_sys_counter";
  if (!source.empty() && !fast) {
    finding.verdict = Verdict::kCostsSpeed;
    finding.remedy =
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, if "
        "available_clocksource in that folder lists tsc";
  }
  return finding;
}

/// Only DPDK needs these, so the verdict is always kOk.
std::vector<Finding> examine_memory(const MachineFacts& facts) {
  const std::string pages =
      facts.hugepages_free ? fmt::format("{} free", *facts.hugepages_free) : std::string("unknown");
  const std::string memlock = facts.memlock_bytes_max
                                  ? fmt::format("{} bytes", *facts.memlock_bytes_max)
                                  : std::string("unlimited");
  const char* note = " (not needed for kernel UDP)";
  return {
      {.what = "2 MB pages", .found = pages + note, .verdict = Verdict::kOk, .remedy = ""},
      {.what = "locked memory", .found = memlock + note, .verdict = Verdict::kOk, .remedy = ""}};
}

std::vector<Finding> examine_sockets(const MachineFacts& facts) {
  if (!facts.socket_refusal.empty()) {
    return {{.what = "UDP sockets",
             .found = facts.socket_refusal,
             .verdict = Verdict::kWrong,
             .remedy = "allow this process to open UDP sockets (container or seccomp profile)"}};
  }
  Finding port{.what = fmt::format("UDP port {}", facts.port),
               .found = "free",
               .verdict = Verdict::kOk,
               .remedy = ""};
  if (!facts.port_refusal.empty()) {
    port.found = facts.port_refusal;
    port.verdict = Verdict::kWrong;
    port.remedy = fmt::format(
        "find its owner with: ss -lunp 'sport = :{}' (an aggregator that already runs is no "
        "problem), or serve on another port with --listen ADDRESS:PORT",
        facts.port);
  }
  return {examine_offload("UDP send offload (GSO)", facts.has_udp_gso),
          examine_offload("UDP receive offload (GRO)", facts.has_udp_gro), port};
}

/// Only packet programs on live traffic and `--port packet:` need one, so the verdict is always
/// kOk.
Finding examine_packet_socket(const MachineFacts& facts) {
  const std::string& refusal = facts.packet_socket_refusal;
  return {.what = "packet sockets",
          .found = (refusal.empty() ? "yes" : "no: " + refusal) +
                   " (only for interfaces as ports; serve --program also takes dpdk: and vxlan:)",
          .verdict = Verdict::kOk,
          .remedy = ""};
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kCostsSpeed:
      return "costs speed";
    case Verdict::kWrong:
      return "wrong";
  }
  return "";
}

std::vector<Finding> examine(const MachineFacts& facts) {
  std::vector<Finding> findings;
  findings.push_back(examine_kernel(facts.kernel_release));
  findings.push_back(examine_cores(facts));
  append(findings, examine_vectors(facts));
  findings.push_back(examine_clock(facts.clock_source));
  for (const InterfaceFacts& interface : facts.interfaces) {
    findings.push_back(examine_interface(interface));
  }
  const io::UdpPortConfig wanted;
  findings.push_back(examine_buffer("net.core.rmem_max", facts.receive_buffer_bytes_max,
                                    wanted.receive_buffer_bytes, facts.may_pass_buffer_limits));
  findings.push_back(examine_buffer("net.core.wmem_max", facts.send_buffer_bytes_max,
                                    wanted.send_buffer_bytes, facts.may_pass_buffer_limits));
  append(findings, examine_sockets(facts));
  findings.push_back(examine_packet_socket(facts));
  append(findings, examine_memory(facts));
  return findings;
}

Verdict worst(std::span<const Finding> findings) {
  Verdict verdict = Verdict::kOk;
  for (const Finding& finding : findings) verdict = std::max(verdict, finding.verdict);
  return verdict;
}

std::string as_text(std::span<const Finding> findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.what.size());
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<11}  {:<{}}  {}\n", to_string(finding.verdict), finding.what, width,
                        finding.found);
    if (!finding.remedy.empty()) text += fmt::format("{:>13}fix: {}\n", "", finding.remedy);
  }
  return text;
}

std::string as_json(std::span<const Finding> findings) {
  auto rows = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    rows.push_back({{"what", finding.what},
                    {"found", finding.found},
                    {"verdict", to_string(finding.verdict)},
                    {"remedy", finding.remedy}});
  }
  const nlohmann::ordered_json result{{"verdict", to_string(worst(findings))}, {"findings", rows}};
  return result.dump(2) + "\n";
}

CLI::App* add_doctor(CLI::App& app, DoctorOptions& options) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Check this machine: what works, what costs speed, and how to fix it");
  command->add_option("--json", options.json, "Write the result to this file")->type_name("FILE");
  add_uint(*command, "--port", options.port, 1, UINT16_MAX, "UDP port to try");
  command->add_option("--dpdk", options.dpdk, "DPDK device to check, written as for serve --port")
      ->type_name("PORT");
  command
      ->add_option("--inline", options.ports,
                   "Port of a packet program to open and close, written as for serve --program "
                   "--port; twice for a wire")
      ->type_name("PORT");
  add_uint(*command, "--workers", options.workers, 1, kPlanMachinesMax,
           "Worker machines: compare their links with this machine's, and predict the time");
  add_gbit(*command, "--gbit", options.worker_gbit, "",
           "With --workers: Gbit/s of each worker's link; default: as this machine's");
  add_gbit(*command, "--server-gbit", options.server_gbit, "",
           "With --workers: Gbit/s of this machine's link; default: as its interface tells");
  command->add_flag("--measure-sum", options.measure_sum,
                    "Measure how many gradients a core adds in a second (about a second)");
  return command;
}

namespace {

/// Examines the links, and the CPU if asked to.
Result<std::vector<Finding>> examine_job(const DoctorOptions& options, const MachineFacts& facts) {
  LinkQuestion question{.workers = options.workers,
                        .worker_gbit = options.worker_gbit,
                        .server_gbit = options.server_gbit};
  if (options.workers == 0 && (options.worker_gbit > 0 || options.server_gbit > 0)) {
    return failure(fmt::format("--{} needs --workers; allowed: --workers 1 to {}",
                               options.worker_gbit > 0 ? "gbit" : "server-gbit", kPlanMachinesMax));
  }
  std::vector<Finding> findings;
  if (options.measure_sum) {
    const auto sum_gbit = measure_sum_gbit();
    findings.push_back(describe_sum(sum_gbit));
    if (sum_gbit) question.sum_gbit = *sum_gbit;
  }
  if (options.workers > 0) append(findings, examine_links(facts.interfaces, question));
  return findings;
}

}  // namespace

int run_doctor(const DoctorOptions& options, std::ostream& out, std::ostream& err) {
  MachineFacts facts = gather_facts(options.port);
  // Aggregation packets do not begin or end at a port of a packet program, so its MTU costs
  // nothing.
  std::erase_if(facts.interfaces, [&](const InterfaceFacts& interface) {
    return is_inline_port(interface.name, options.ports);
  });
  std::vector<Finding> findings = examine(facts);
  auto job = examine_job(options, facts);
  if (!job) {
    err << "tributary doctor: " << job.error().text << "\n";
    return kExitUsage;
  }
  append(findings, *std::move(job));
  append(findings, examine_inline(options.ports));
  append(findings, examine_dpdk(options.dpdk, io::has_dpdk()));
  const Verdict verdict = worst(findings);
  out << as_text(findings) << "\nverdict: " << to_string(verdict) << "\n";
  if (!options.json.empty()) {
    const auto written = write_result_file(options.json, as_json(findings));
    if (!written) {
      err << "tributary doctor: --json " << written.error().text << "\n";
      return kExitUsage;
    }
  }
  return verdict == Verdict::kWrong ? 1 : 0;
}

}  // namespace tributary::cli
