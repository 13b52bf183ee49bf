// SPDX-License-Identifier: Apache-2.0
// Replaces dpdk_port.cc, dpdk_side.cc and ring_pair.cc in a build without DPDK.
#include "io/dpdk/open_dpdk_port.h"
#include "io/dpdk/open_dpdk_sides.h"
#include "io/dpdk/ring_pair.h"

namespace tributary::io {
namespace {

constexpr const char* kAbsent =
    "this program was built without DPDK; to fix: tools/install-deps.sh --with-dpdk, then "
    "configure and build again";

}  // namespace

bool has_dpdk() { return false; }

Result<OpenedDpdkPort> open_dpdk_port(const DpdkPortConfig&) { return failure(kAbsent); }

Result<OpenedDpdkSides> open_dpdk_sides(const DpdkSidesConfig&) { return failure(kAbsent); }

Result<std::array<DpdkDeviceSpec, 2>> make_ring_pair(const std::string&, uint32_t) {
  return failure(kAbsent);
}

}  // namespace tributary::io
