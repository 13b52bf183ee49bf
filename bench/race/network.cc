// SPDX-License-Identifier: Apache-2.0
#include "bench/race/network.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <sstream>
#include <utility>

#include "bench/race/command.h"

namespace tributary::race {
namespace {

constexpr std::string_view kNamePrefix = "trib-race-";
constexpr const char* kInterface = "eth0";
/// Host number of the first spare machine; the others have the numbers below it.
constexpr uint32_t kSpareHost = 254;
constexpr uint32_t kEthernetMtu = 1500;
constexpr uint32_t kJumboMtu = 9000;

/// A token bucket like the queue of a switch port: passes two full segments of 64 KiB at once and
/// holds packets for at most 20 ms. Assumed; only the rate matters.
constexpr const char* kBucketBurst = "128kb";
constexpr const char* kBucketLatency = "20ms";

constexpr std::array kKinds{
    NetKind{"lo", false, 65536, 0, true, false, "the loopback interface"},
    NetKind{"netns", true, kEthernetMtu, 0, true, false,
            "namespaces and a bridge, MTU 1500, 64 KiB segments cross"},
    NetKind{"netns-mtu9000", true, kJumboMtu, 0, true, false,
            "namespaces and a bridge, MTU 9000, 64 KiB segments cross"},
    NetKind{"netns-pkt1500", true, kEthernetMtu, 0, false, false,
            "namespaces and a bridge, real packets of 1500 bytes (offloads off)"},
    NetKind{"netns-1gbit", true, kEthernetMtu, 1000, true, false,
            "as netns, workers' links 1 Gbit/s each way, the server's unlimited"},
    NetKind{"netns-1gbit-mtu9000", true, kJumboMtu, 1000, true, false, "as netns-1gbit, MTU 9000"},
    NetKind{"netns-1gbit-pkt1500", true, kEthernetMtu, 1000, false, false,
            "as netns-1gbit, real packets of 1500 bytes (offloads off)"},
    NetKind{"netns-1gbit-equal", true, kEthernetMtu, 1000, true, false,
            "as netns-1gbit, every machine's link 1 Gbit/s each way, the servers', too", true},
    NetKind{"netns-1gbit-equal-mtu9000", true, kJumboMtu, 1000, true, false,
            "as netns-1gbit-equal, MTU 9000", true},
    NetKind{"netns-1gbit-equal-pkt1500", true, kEthernetMtu, 1000, false, false,
            "as netns-1gbit-equal, real packets of 1500 bytes (offloads off)", true},
    NetKind{"netns-1gbit-half", true, kEthernetMtu, 1000, true, false,
            "as netns-1gbit-equal, the first spare machine's link 0.5 Gbit/s", true, 500},
    NetKind{"shm", false, 65536, 0, true, true, "shared memory, no kernel network"},
};

/// Drops a packet if 32 random bits are below `threshold`.
/// Source: Linux, include/uapi/linux/filter.h (SKF_AD_RANDOM), pkt_cls.h (TC_ACT_OK 0, SHOT 2).
std::string loss_program(double probability) {
  const auto threshold = static_cast<uint32_t>(std::clamp(probability, 0.0, 1.0) * 4294967295.0);
  constexpr uint32_t kLoadWord = 0x20, kJumpGreaterEqual = 0x35, kReturn = 0x06;
  constexpr uint32_t kRandom = 0xfffff000U + 56;
  return fmt::format("4,{} 0 0 {},{} 1 0 {},{} 0 0 2,{} 0 0 0", kLoadWord, kRandom,
                     kJumpGreaterEqual, threshold, kReturn, kReturn);
}

std::vector<std::string> existing_namespaces() {
  const auto listed = run_command({"ip", "netns", "list"});
  std::vector<std::string> names;
  if (!listed) return names;
  std::istringstream lines(*listed);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kNamePrefix)) names.push_back(line.substr(0, line.find(' ')));
  }
  return names;
}

/// Returns the process that made a namespace, from "trib-race-PID-…"; 0 for other names.
pid_t maker_of(const std::string& name) {
  const char* begin = name.data() + kNamePrefix.size();
  const char* end = name.data() + name.size();
  pid_t pid = 0;
  const auto [rest, error] = std::from_chars(begin, end, pid);
  return error == std::errc() && rest != end && *rest == '-' ? pid : 0;
}

}  // namespace

std::span<const NetKind> net_kinds() { return kKinds; }

const NetKind* find_net_kind(std::string_view name) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [name](const NetKind& kind) { return name == kind.name; });
  return found == kKinds.end() ? nullptr : found;
}

std::string namespaces_refusal() {
  if (geteuid() != 0) return "network namespaces need root";
  for (const char* program : std::array{"ip", "tc", "ethtool"}) {
    if (find_program(program).empty()) {
      return fmt::format("{} is not installed (tools/install-deps.sh --with-race)", program);
    }
  }
  return {};
}

uint32_t remove_stale_namespaces() {
  uint32_t removed = 0;
  for (const std::string& name : existing_namespaces()) {
    const pid_t maker = maker_of(name);
    if (maker == 0 || kill(maker, 0) == 0 || errno != ESRCH) continue;
    if (run_command({"ip", "netns", "del", name})) removed++;
  }
  return removed;
}

Result<RaceNetwork> RaceNetwork::make(const NetKind& kind, uint32_t workers, uint32_t spares) {
  if (!kind.namespaces) return RaceNetwork(kind, "", workers, spares);
  if (const std::string refusal = namespaces_refusal(); !refusal.empty()) return failure(refusal);
  remove_stale_namespaces();
  static uint32_t made = 0;
  RaceNetwork network(kind, fmt::format("{}{}-{}-", kNamePrefix, getpid(), made++), workers,
                      spares);
  if (const auto built = network.build(); !built) return tl::unexpected(built.error());
  return network;
}

RaceNetwork::RaceNetwork(RaceNetwork&& other) noexcept
    : kind_(other.kind_),
      prefix_(std::exchange(other.prefix_, {})),
      workers_(other.workers_),
      spares_(other.spares_),
      classifiers_(other.classifiers_) {}

RaceNetwork::~RaceNetwork() {
  if (prefix_.empty()) return;
  for (const std::string& name : existing_namespaces()) {
    if (name.starts_with(prefix_)) static_cast<void>(run_command({"ip", "netns", "del", name}));
  }
}

Result<void> RaceNetwork::build() {
  const std::string hub = prefix_ + "sw";
  const std::vector<std::vector<std::string>> commands{
      {"ip", "netns", "add", hub},
      {"ip", "-n", hub, "link", "add", "name", "br", "mtu", std::to_string(kind_->mtu_bytes),
       "type", "bridge"},
      {"ip", "-n", hub, "link", "set", "dev", "br", "up"}};
  for (const auto& command : commands) {
    if (auto done = run_command(command); !done) return tl::unexpected(done.error());
  }
  for (uint32_t rank = 0; rank < workers_; rank++) {
    if (auto added = add_machine(fmt::format("w{}", rank), rank + 1, kind_->mbit); !added) {
      return added;
    }
  }
  for (uint32_t i = 0; i < spares_; i++) {
    if (auto added = add_machine(fmt::format("s{}", i), kSpareHost - i, kind_->spare_mbit(i));
        !added) {
      return added;
    }
  }
  return {};
}

Result<void> RaceNetwork::add_machine(const std::string& port, uint32_t host_number,
                                      uint32_t mbit) {
  const std::string node = prefix_ + port;
  const std::string hub = prefix_ + "sw";
  const std::string mtu = std::to_string(kind_->mtu_bytes);
  std::vector<std::vector<std::string>> commands{
      {"ip", "netns", "add", node},
      {"ip", "-n", hub, "link", "add", "name", port, "mtu", mtu, "type", "veth", "peer", "name",
       kInterface, "mtu", mtu, "netns", node},
      {"ip", "-n", hub, "link", "set", "dev", port, "master", "br", "up"},
      {"ip", "-n", node, "addr", "add", fmt::format("10.231.0.{}/24", host_number), "dev",
       kInterface},
      {"ip", "-n", node, "link", "set", "dev", kInterface, "up"},
      {"ip", "-n", node, "link", "set", "dev", "lo", "up"}};
  if (!kind_->offloads) {
    for (const auto& [where, name] : {std::pair{hub, port}, {node, std::string(kInterface)}}) {
      commands.push_back({"ip", "netns", "exec", where, "ethtool", "-K", name, "tso", "off", "gso",
                          "off", "gro", "off", "tx-udp-segmentation", "off"});
    }
  }
  for (const auto& command : commands) {
    if (auto done = run_command(command); !done) return tl::unexpected(done.error());
  }
  return mbit > 0 ? shape(port, mbit) : Result<void>();
}

Result<void> RaceNetwork::shape(const std::string& port, uint32_t mbit) {
  const std::string rate = fmt::format("{}mbit", mbit);
  for (const auto& [where, name] :
       {std::pair{prefix_ + port, std::string(kInterface)}, {prefix_ + "sw", port}}) {
    const auto done = run_command({"tc", "-n", where, "qdisc", "add", "dev", name, "root", "tbf",
                                   "rate", rate, "burst", kBucketBurst, "latency", kBucketLatency});
    if (!done) return tl::unexpected(done.error());
  }
  return {};
}

Result<void> RaceNetwork::set_loss(double probability) {
  if (!kind_->may_lose()) {
    return failure(fmt::format("network {} cannot lose packets: they cross it in larger segments",
                               kind_->name));
  }
  for (uint32_t rank = 0; rank < workers_; rank++) {
    const std::string port = fmt::format("w{}", rank);
    for (const auto& [where, name] :
         {std::pair{prefix_ + port, std::string(kInterface)}, {prefix_ + "sw", port}}) {
      if (!classifiers_) {
        const auto added = run_command({"tc", "-n", where, "qdisc", "add", "dev", name, "clsact"});
        if (!added) return tl::unexpected(added.error());
      }
      const auto set =
          run_command({"tc", "-n", where, "filter", "replace", "dev", name, "ingress", "pref", "1",
                       "handle", "1", "bpf", "da", "bytecode", loss_program(probability)});
      if (!set) return tl::unexpected(set.error());
    }
  }
  classifiers_ = true;
  return {};
}

std::vector<std::string> RaceNetwork::at(const std::string& port) const {
  if (!kind_->namespaces) return {};
  return {find_program("ip"), "netns", "exec", prefix_ + port};
}

std::vector<std::string> RaceNetwork::at_worker(uint32_t rank) const {
  return at(fmt::format("w{}", rank));
}

std::vector<std::string> RaceNetwork::at_spare(uint32_t index) const {
  return at(fmt::format("s{}", index));
}

std::string RaceNetwork::spare_address(uint32_t index) const {
  const bool own = kind_->namespaces || kind_->shared_memory;
  return own ? fmt::format("10.231.0.{}", kSpareHost - index) : "127.0.0.1";
}

std::string RaceNetwork::worker_address(uint32_t rank) const {
  return fmt::format("10.231.0.{}", rank + 1);
}

std::string RaceNetwork::interface() const { return kind_->namespaces ? kInterface : "lo"; }

std::string RaceNetwork::worker_prefix() const {
  return kind_->namespaces ? prefix_ + "w" : std::string();
}

}  // namespace tributary::race
