// SPDX-License-Identifier: Apache-2.0
#include "engine/counters_json.h"

namespace tributary::engine {

FrameCounters frame_counters(const PortQueue& queue) {
  FrameCounters frames;
  queue.visit_counters([&frames](const char* name, uint64_t value) { frames[name] = value; });
  return frames;
}

nlohmann::json core_json(const CoreCounters& counters) {
  return {{"bursts", counters.bursts},
          {"packets", counters.packets},
          {"handed_over", counters.handed_over},
          {"handover_full", counters.handover_full},
          {"waits", counters.waits},
          {"pauses", counters.pauses}};
}

nlohmann::json port_json(const PortCounters& counters, const std::optional<uint64_t>& rx_dropped,
                         const FrameCounters& frames) {
  nlohmann::json json{{"rx_packets", counters.rx_packets},
                      {"rx_bytes", counters.rx_bytes},
                      {"tx_packets", counters.tx_packets},
                      {"tx_bytes", counters.tx_bytes},
                      {"tx_refused", counters.tx_refused},
                      {"rx_truncated", counters.rx_truncated},
                      {"peer_refused", counters.peer_refused},
                      {"local_address_unknown", counters.local_address_unknown},
                      {"system_calls", counters.system_calls},
                      {"rx_dropped", nullptr}};
  if (rx_dropped) json["rx_dropped"] = *rx_dropped;
  if (!frames.empty()) json["frames"] = frames;
  return json;
}

nlohmann::json port_json(const PortQueue& queue) {
  return port_json(queue.counters(), queue.rx_dropped(), frame_counters(queue));
}

}  // namespace tributary::engine
