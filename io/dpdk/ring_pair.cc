// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/ring_pair.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include <vector>

#include "io/dpdk/eal.h"

namespace tributary::io {
namespace {

Result<std::vector<rte_ring*>> make_rings(const std::string& name, uint32_t count) {
  std::vector<rte_ring*> rings;
  for (uint32_t i = 0; i < count; i++) {
    rte_ring* ring =
        rte_ring_create(fmt::format("{}_{}", name, i).c_str(), kRingFrames, SOCKET_ID_ANY, 0);
    if (ring == nullptr) return failure(fmt::format("{}: {}", name, rte_strerror(rte_errno)));
    rings.push_back(ring);
  }
  return rings;
}

Result<DpdkDeviceSpec> make_device(const std::string& name, const std::vector<rte_ring*>& in,
                                   const std::vector<rte_ring*>& out) {
  const auto queues = static_cast<unsigned>(in.size());
  if (rte_eth_from_rings(name.c_str(), in.data(), queues, out.data(), queues, 0) < 0) {
    return failure(fmt::format("{}: {}", name, take_dpdk_complaint()));
  }
  DpdkDeviceSpec spec;
  spec.driver = "net_ring";
  spec.name = "net_ring_" + name;  // The driver's name for the device.
  spec.text = spec.name;
  spec.hugepages = HugepageUse::kOff;
  return spec;
}

}  // namespace

Result<std::array<DpdkDeviceSpec, 2>> make_ring_pair(const std::string& name, uint32_t queues) {
  if (const auto started = start_eal({}); !started) return tl::unexpected(started.error());
  const auto there = make_rings(name + "_there", queues);
  if (!there) return tl::unexpected(there.error());
  const auto back = make_rings(name + "_back", queues);
  if (!back) return tl::unexpected(back.error());
  auto first = make_device(name + "a", *back, *there);
  if (!first) return tl::unexpected(first.error());
  auto second = make_device(name + "b", *there, *back);
  if (!second) return tl::unexpected(second.error());
  return std::array<DpdkDeviceSpec, 2>{*std::move(first), *std::move(second)};
}

}  // namespace tributary::io
