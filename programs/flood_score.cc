// SPDX-License-Identifier: Apache-2.0
#include "programs/flood_score.h"

#include <algorithm>

#include "apps/flow_key.h"
#include "base/endpoint.h"

namespace tributary::programs {
namespace {

/// Returns the source address of a frame; empty if it has none that can be read.
std::optional<Endpoint> source_of(std::span<const std::byte> frame) {
  apps::FlowPacket flow;
  if (apps::read_flow(frame, /*is_frame=*/true, flow) != apps::FlowFit::kFits) return std::nullopt;
  Endpoint source;
  source.address = flow.key.source;
  return source;
}

int64_t millisecond_of(io::CaptureTime at) {
  return std::chrono::floor<std::chrono::milliseconds>(at).time_since_epoch().count();
}

}  // namespace

void FloodScore::count(const io::CapturedPacket& packet, uint64_t Count::*which) {
  const auto source = source_of(packet.bytes);
  const auto label = source ? traffic::label_of(*source) : std::nullopt;
  if (!label) return;
  classes_[static_cast<size_t>(*label)].*which += 1;
  if (*label != traffic::Label::kFlood) return;
  flood_[millisecond_of(packet.at)].*which += 1;
  flood_began_ = std::min(flood_began_.value_or(packet.at), packet.at);
}

std::optional<double> FloodScore::share_of(const Count& count) {
  if (count.arrived == 0) return std::nullopt;
  return static_cast<double>(count.passed) / static_cast<double>(count.arrived);
}

std::optional<double> FloodScore::passed_share(traffic::Label label) const {
  return share_of(classes_[static_cast<size_t>(label)]);
}

std::optional<double> FloodScore::flood_passed_share(io::CaptureTime from) const {
  Count sum;
  for (auto bin = flood_.lower_bound(millisecond_of(from)); bin != flood_.end(); ++bin) {
    sum.arrived += bin->second.arrived;
    sum.passed += bin->second.passed;
  }
  return share_of(sum);
}

}  // namespace tributary::programs
