// SPDX-License-Identifier: Apache-2.0
#include "programs/flood_score.h"

#include <algorithm>

#include "apps/flow_key.h"
#include "base/endpoint.h"

namespace tributary::programs {
namespace {

struct Labelled {
  traffic::Label label;
  std::array<uint8_t, 16> server;
};

/// Returns the class and the destination of a generated packet; nothing for other packets.
std::optional<Labelled> labelled(const io::CapturedPacket& packet) {
  apps::FlowPacket flow;
  const auto fit = apps::read_captured_flow(packet.bytes, packet.wire_bytes, flow);
  if (fit != apps::FlowFit::kFits) return std::nullopt;
  Endpoint source, destination;
  source.address = flow.key.source;
  destination.address = flow.key.destination;
  const auto label = traffic::label_of(source);
  if (!label || !traffic::is_server(destination)) return std::nullopt;
  return Labelled{*label, destination.address};
}

int64_t millisecond_of(io::CaptureTime at) {
  return std::chrono::floor<std::chrono::milliseconds>(at).time_since_epoch().count();
}

}  // namespace

void FloodScore::count(const io::CapturedPacket& packet, uint64_t Count::*which) {
  const auto read = labelled(packet);
  if (!read) return;
  classes_[static_cast<size_t>(read->label)].*which += 1;
  if (read->label != traffic::Label::kFlood) return;
  flood_[millisecond_of(packet.at)].*which += 1;
  flood_began_ = std::min(flood_began_.value_or(packet.at), packet.at);
  flooded_.insert(read->server);
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
