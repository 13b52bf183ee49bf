// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/parameter_server.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::lab {

ParameterServer::ParameterServer(net::Network& network, const AggregatorSpec& spec)
    : WaitingSwitch(network, spec, Duration()), cpu_(*this) {}

void ParameterServer::aggregate(net::PacketRef packet) {
  const uint64_t bytes = uint64_t{packet->size_bytes} * spec().train;
  if (received_bytes_ + bytes > spec().host.receive_buffer_bytes) {
    receive_overflows_ += spec().train;
    return;
  }
  received_bytes_ += bytes;
  received_.push_back(std::move(packet));
  schedule_round();
}

void ParameterServer::schedule_round() {
  if (round_pending_ || received_.empty()) return;
  round_pending_ = true;
  core().schedule(std::max(network_now(), busy_until_), EventPriority::kHost, cpu_, 0);
}

void ParameterServer::run_round() {
  round_pending_ = false;
  // Packets that were sent since the request for this round go first.
  if (network_now() < busy_until_) return schedule_round();
  for (uint32_t taken = 0; taken < kBurst && !received_.empty(); taken++) {
    net::PacketRef packet = std::move(received_.front());
    received_.pop_front();
    received_bytes_ -= uint64_t{packet->size_bytes} * spec().train;
    work();
    WaitingSwitch::aggregate(std::move(packet));
  }
  schedule_round();
}

void ParameterServer::work() {
  const Duration cost = spec().host.cost_of_packet(spec().job.block_grad_max) * spec().train;
  busy_until_ = std::max(busy_until_, network_now()) + cost;
  worked_ += cost;
}

AggregatorResult ParameterServer::result(Duration elapsed) const {
  AggregatorResult result = WaitingSwitch::result(elapsed);
  result.dropped += receive_overflows_;
  if (receive_overflows_ > 0) {
    result.add(kReceiveBufferFull, static_cast<double>(receive_overflows_), "packets");
  }
  // Work that is charged already, but lies after the end of the run, does not count. Joins before
  // its beginning do, so a very short run may have more work than time.
  const Duration ahead = std::max(Duration(), busy_until_ - network_now());
  const Duration worked = std::min(worked_ - ahead, elapsed);
  const double share = elapsed > Duration() ? in_seconds(worked) / in_seconds(elapsed) : 0;
  result.add("CPU in use", share, "share");
  result.bottleneck = fmt::format("its CPU works {:.0f} % of the time", share * 100);
  return result;
}

}  // namespace tributary::lab
