// SPDX-License-Identifier: Apache-2.0
#include "server/engine_stats.h"

#include <fmt/format.h>

namespace tributary::server {

nlohmann::json port_stats(const engine::PortCounters& port) {
  return {
      {"rx_packets", port.rx_packets},     {"rx_bytes", port.rx_bytes},
      {"tx_packets", port.tx_packets},     {"tx_bytes", port.tx_bytes},
      {"tx_refused", port.tx_refused},     {"rx_truncated", port.rx_truncated},
      {"peer_refused", port.peer_refused}, {"local_address_unknown", port.local_address_unknown},
      {"system_calls", port.system_calls}};
}

nlohmann::json rx_dropped_json(const std::optional<uint64_t>& rx_dropped) {
  return rx_dropped ? nlohmann::json(*rx_dropped) : nlohmann::json();
}

nlohmann::json port_stats(const engine::PortQueue& queue) {
  nlohmann::json stats = port_stats(queue.counters());
  stats["rx_dropped"] = rx_dropped_json(queue.rx_dropped());
  queue.visit_counters(
      [&stats](const char* name, uint64_t value) { stats["frames"][name] = value; });
  return stats;
}

nlohmann::json local_stats(io::LocalServer& server) {
  const io::LocalServerStats stats = server.stats();
  return {{"socket", stats.socket},
          {"connections", stats.connections},
          {"connections_opened", stats.connections_opened},
          {"connections_closed", stats.connections_closed},
          {"connections_broken", stats.connections_broken},
          {"connections_refused", stats.connections_refused},
          {"connections_failed", stats.connections_failed},
          {"rx_packets", stats.packets.rx_packets},
          {"rx_bytes", stats.packets.rx_bytes},
          {"tx_packets", stats.packets.tx_packets},
          {"tx_bytes", stats.packets.tx_bytes},
          {"tx_refused", stats.packets.tx_refused},
          {"system_calls", stats.packets.system_calls}};
}

nlohmann::json core_stats(const engine::CoreCounters& counters) {
  return {{"bursts", counters.bursts},
          {"packets", counters.packets},
          {"handed_over", counters.handed_over},
          {"handover_full", counters.handover_full},
          {"waits", counters.waits},
          {"pauses", counters.pauses}};
}

nlohmann::json session_json(const SessionSnapshot& session) {
  nlohmann::json silent_s = nlohmann::json::array();
  for (const auto& silent : session.silent_for) {
    silent_s.push_back(silent ? nlohmann::json(in_seconds(*silent)) : nlohmann::json());
  }
  return {{"id", fmt::format("{:#x}", session.id)},
          {"configured", session.configured},
          {"elements", session.elements},
          {"slots", session.slots},
          {"workers", session.workers},
          {"silent_s", silent_s},
          {"packets", session.packets},
          {"slots_completed", session.slots_completed}};
}

}  // namespace tributary::server
