// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/background_flow.h"

#include "base/assert.h"

namespace tributary::lab {

BackgroundFlow::BackgroundFlow(net::Network& network, const Config& config)
    : network_(network), config_(config), id_(network.add_node(*this, config.name)) {
  TRIB_ASSERT(config_.bits_per_s > 0);
}

void BackgroundFlow::start() {
  network_.core().schedule(network_.core().now(), EventPriority::kHost, *this, 0);
}

void BackgroundFlow::on_event(uint64_t) {
  network_.transmit(id_, 0, network_.packets().make(config_.from, config_.to, kPayloadBytes, {}));
  constexpr uint64_t kTicksPerSecond = 100'000'000'000;
  const uint64_t bits = uint64_t{kPayloadBytes + net::kWireOverheadBytes} * network_.train() * 8;
  __extension__ using Wide = unsigned __int128;
  const auto ticks = static_cast<Wide>(bits) * kTicksPerSecond / config_.bits_per_s;
  network_.core().schedule(
      network_.core().now() + Duration::from_ticks(static_cast<int64_t>(ticks)),
      EventPriority::kHost, *this, 0);
}

}  // namespace tributary::lab
