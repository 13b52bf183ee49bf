// SPDX-License-Identifier: Apache-2.0
#include "apps/guard/app.h"

namespace tributary::guard {

uint32_t App::owner(std::span<const std::byte> packet, bool is_frame, uint32_t core_count) {
  apps::FlowPacket flow;
  if (!has_addresses(apps::read_flow(packet, is_frame, flow))) return 0;
  return static_cast<uint32_t>(AddressHash()(flow.key.destination, /*seed=*/0)) & (core_count - 1);
}

}  // namespace tributary::guard
