// SPDX-License-Identifier: Apache-2.0
// The texts of packet programs on the command line: a side of an inline port, an allow-list, memory
// sizes. What is accepted lies in its range; error texts are bounded.
#include <algorithm>

#include "apps/guard/config.h"
#include "base/endpoint.h"
#include "io/inline/side_spec.h"
#include "lab/telemetry/telemetry_comparison.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

bool is_numeric(std::string_view host) {
  const std::string text(host);
  return Endpoint::parse(text) || Endpoint::parse(text + ":1") ||
         Endpoint::parse("[" + text + "]:1");
}

/// Tells whether the parser would ask the resolver for a name, which a fuzzer must not.
bool asks_for_names(std::string_view text) {
  if (!text.starts_with(io::kVxlanPrefix)) return false;
  text.remove_prefix(io::kVxlanPrefix.size());
  constexpr std::string_view kPeer = "peer=";
  for (bool is_first = true;; is_first = false) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (is_first && !is_numeric(item)) return true;
    if (item.starts_with(kPeer) && !is_numeric(item.substr(kPeer.size()))) return true;
    if (comma == std::string_view::npos) return false;
    text.remove_prefix(comma + 1);
  }
}

void run_side(std::string_view text) {
  if (asks_for_names(text)) return;
  const auto side = io::parse_inline_side(text);
  if (!side) {
    EXPECT_LE(side.error().text.size(), error_bytes_max(text.size()));
    return;
  }
  EXPECT_EQ(side->text, text);
  if (side->is_tunnel()) {
    const auto& tunnel = std::get<io::VxlanConfig>(side->config);
    EXPECT_TRUE(tunnel.local.is_set() && tunnel.peer.is_set());
    EXPECT_EQ(tunnel.local.is_ipv4(), tunnel.peer.is_ipv4());
    EXPECT_FALSE(tunnel.local.is_multicast() || tunnel.peer.is_multicast());
    EXPECT_LE(tunnel.network, wire::kVxlanNetworkMax);
  } else if (side->dpdk() != nullptr) {
    EXPECT_FALSE(side->dpdk()->address || side->dpdk()->gateway);
  } else {
    EXPECT_FALSE(side->interface().empty());
    EXPECT_EQ(side->interface().find_first_of(",:"), std::string::npos);
  }
  EXPECT_EQ(is_same_side(*side, *side), side->dpdk() == nullptr);
}

void run(std::span<const uint8_t> input) {
  const std::string text(text_of_input(input));
  run_side(text);
  run_side(std::string(io::kVxlanPrefix) + text);
  if (const auto allowed = guard::parse_allowed(text)) {
    for (const guard::AllowedPrefix& prefix : *allowed) {
      EXPECT_LE(prefix.bits, 128U);
      const guard::GuardConfig config{.allowed = {prefix}};
      EXPECT_TRUE(guard::is_allowed(config, prefix.address, 4) ||
                  guard::is_allowed(config, prefix.address, 6));
    }
    EXPECT_EQ(allowed->size(), 1 + std::ranges::count(text, '+'));
  } else {
    EXPECT_LE(allowed.error().text.size(), error_bytes_max(text.size()));
  }
  if (const auto memories = lab::parse_memories("--memory", text)) {
    EXPECT_LE(memories->size(), lab::kTelemetryMemoriesMax);
    EXPECT_FALSE(memories->empty());
    for (const uint64_t bytes : *memories) {
      EXPECT_GE(bytes, lab::kTelemetryMemoryMin);
      EXPECT_LE(bytes, lab::kTelemetryMemoryMax);
    }
  } else {
    EXPECT_LE(memories.error().text.size(), error_bytes_max(text.size()));
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const char* text :
       {"eth0", "packet:eth0", "vxlan:127.0.0.1,peer=127.0.0.2:4789,vni=42",
        "[::1]:4789,peer=[::2],vni=16777215", "dpdk:pcap,rx_pcap=in.pcap,tx_pcap=out.pcap,mtu=9000",
        "10.0.0.0/8+fd00::/8", "16K,64K,1M,4096"}) {
    all.push_back(input_of_text(text));
  }
  return all;
}

TRIB_FUZZ_TARGET(program_texts);

}  // namespace
}  // namespace tributary::fuzz
