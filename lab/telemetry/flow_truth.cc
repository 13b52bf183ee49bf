// SPDX-License-Identifier: Apache-2.0
#include "lab/telemetry/flow_truth.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/assert.h"
#include "traffic/generator.h"

namespace tributary::lab {

std::optional<FlowKey> flow_of(std::span<const std::byte> frame) {
  apps::FlowPacket packet;
  const auto fit = apps::read_flow(frame, /*is_frame=*/true, packet);
  if (fit != apps::FlowFit::kFits) return std::nullopt;
  return packet.key;
}

Result<FlowTruth> FlowTruth::create(const traffic::Config& trace, uint32_t top) {
  TRIB_ASSERT(top > 0);
  using Counts = std::unordered_map<FlowKey, uint64_t, FlowHash>;
  const auto count_all =
      [&](const std::function<void(Instant, const FlowKey&, uint64_t)>& counted) -> Result<Counts> {
    auto generator = traffic::Generator::create(trace);
    if (!generator) return tl::unexpected(generator.error());
    Counts counts;
    while (const auto packet = generator->next()) {
      const auto key = flow_of(packet->frame);
      if (key) counted(packet->at, *key, ++counts[*key]);
    }
    return counts;
  };
  FlowTruth truth;
  const auto counts = count_all([&truth](Instant, const FlowKey&, uint64_t) { truth.packets_++; });
  if (!counts) return tl::unexpected(counts.error());
  truth.flow_count_ = counts->size();
  std::vector<uint64_t> sizes;
  for (const auto& [key, packets] : *counts) sizes.push_back(packets);
  const size_t rank = std::min<size_t>(top, sizes.size());
  if (rank == 0) return truth;
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(rank - 1), sizes.end(),
                   std::greater<>());
  truth.threshold_ = sizes[rank - 1];
  const auto again = count_all([&](Instant at, const FlowKey& key, uint64_t packets) {
    if (packets == truth.threshold_) truth.large_[key] = {counts->at(key), at};
  });
  if (!again) return tl::unexpected(again.error());
  return truth;
}

}  // namespace tributary::lab
