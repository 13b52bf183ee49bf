// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/background_flow.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::lab {
namespace {

/// Longer than any run (JobRun::limit()), so that the next datagram's time fits into an Instant.
constexpr Duration kLongestInterval = seconds(10'000'000);

}  // namespace

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
  const Wide ticks = static_cast<Wide>(bits) * kTicksPerSecond / config_.bits_per_s;
  const auto interval =
      static_cast<int64_t>(std::min(ticks, static_cast<Wide>(kLongestInterval.ticks())));
  network_.core().schedule(network_.core().now() + Duration::from_ticks(interval),
                           EventPriority::kHost, *this, 0);
}

}  // namespace tributary::lab
