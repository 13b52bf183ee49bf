// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a whole server at one moment, whatever it serves: Trio-ML, SwitchML or a packet
/// program. The control API and its pages see only snapshots; the log also takes events.
///
/// Tests:   tests/server/appliance_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/trio_ml/counters.h"
#include "base/time.h"
#include "engine/counters_json.h"
#include "engine/live/live_core.h"
#include "engine/port.h"
#include "server/directory_state.h"
#include "server/job_snapshot.h"
#include "server/session_snapshot.h"

namespace tributary::server {

struct CoreSnapshot {
  engine::CoreCounters counters;
  Duration cpu;  ///< CPU time of the core's thread since its start.
};

/// Packets that a core or its port could not take or send, for one reason.
struct Drop {
  const char* reason;
  std::optional<uint64_t> packets;  ///< Not set: unknown.
};

/// Packets and bytes of one outcome, summed over all cores.
struct OutcomeTotal {
  std::string name;
  bool refused = false;  ///< The packets changed nothing.
  uint64_t packets = 0;
  uint64_t bytes = 0;
};

struct Snapshot {
  Instant at;
  Duration uptime;
  std::string service = "trio-ml";  ///< The workers' protocol, or the name of a packet program.
  std::string listen;               ///< The address, or the ports of a packet program.
  std::vector<OutcomeTotal> outcomes;
  std::vector<CoreSnapshot> cores;
  std::vector<engine::PortCounters> ports;  ///< Shape [cores].
  /// Shape [cores]: see engine::PortQueue::rx_dropped().
  std::vector<std::optional<uint64_t>> rx_dropped;
  std::vector<engine::FrameCounters> frames;  ///< Shape [cores], or empty.
  std::vector<JobSnapshot> jobs;            ///< In the order in which they were added. Of Trio-ML.
  std::vector<SessionSnapshot> sessions;    ///< By place. Of SwitchML.
  std::map<std::string, uint64_t> records;  ///< Records that a packet program holds, by name.
  std::vector<std::string> notices;         ///< Lines of a packet program for the operator.
  /// The jobs that this server plans as their directory; empty: it is none.
  std::vector<DirectoryJob> directory;

  [[nodiscard]] std::optional<uint64_t> rx_dropped_at(uint32_t core) const {
    return core < rx_dropped.size() ? rx_dropped[core] : std::nullopt;
  }
  [[nodiscard]] engine::FrameCounters frames_at(uint32_t core) const {
    return core < frames.size() ? frames[core] : engine::FrameCounters();
  }
  /// Adds the counters of all queues of a port. Any thread.
  void read_ports(engine::Port& port) {
    for (uint32_t i = 0; i < port.queue_count(); i++) {
      const engine::PortQueue& queue = port.queue(i);
      ports.push_back(queue.counters());
      rx_dropped.push_back(queue.rx_dropped());
      frames.push_back(engine::frame_counters(queue));
    }
  }
  /// Returns the number of cores that this snapshot knows anything about.
  [[nodiscard]] uint32_t core_count() const {
    return static_cast<uint32_t>(std::max({cores.size(), ports.size(), rx_dropped.size()}));
  }
  /// Returns a core's drops without the packets that its program refused.
  [[nodiscard]] std::array<Drop, 4> drops_at(uint32_t core) const {
    const engine::PortCounters port = core < ports.size() ? ports[core] : engine::PortCounters();
    const uint64_t handover_full = core < cores.size() ? cores[core].counters.handover_full : 0;
    return {{{"rx_truncated", port.rx_truncated},
             {"tx_refused", port.tx_refused},
             {"handover_full", handover_full},
             {"rx_dropped", rx_dropped_at(core)}}};
  }
  /// Returns the packets of an outcome; 0 if the server has no such outcome.
  [[nodiscard]] uint64_t packets(std::string_view outcome) const {
    const auto found = std::ranges::find(outcomes, outcome, &OutcomeTotal::name);
    return found == outcomes.end() ? 0 : found->packets;
  }
  [[nodiscard]] uint64_t packets(trio_ml::Outcome outcome) const {
    return packets(to_string(outcome));
  }
  /// Adds packets and bytes to an outcome.
  void add(std::string_view outcome, bool refused, const memory::PacketByteCounter& counter) {
    auto found = std::ranges::find(outcomes, outcome, &OutcomeTotal::name);
    if (found == outcomes.end()) {
      found = outcomes.insert(found, {.name = std::string(outcome), .refused = refused});
    }
    found->packets += counter.packets;
    found->bytes += counter.bytes;
  }
  void add(trio_ml::Outcome outcome, const memory::PacketByteCounter& counter) {
    add(to_string(outcome), is_refusal(outcome), counter);
  }
  /// Adds the counters of a core, shape [outcomes].
  /// @tparam Outcome       The program's outcome enum; to_string() names its values.
  /// @param  first_refusal The first outcome of a packet that changes nothing. All behind it are
  ///                       refusals, too.
  template <class Outcome, class Counters>
  void add_all(const Counters& counters, Outcome first_refusal) {
    for (uint32_t i = 0; i < counters.size(); i++) {
      const auto outcome = static_cast<Outcome>(i);
      add(to_string(outcome), outcome >= first_refusal, counters[i]);
    }
  }
};

}  // namespace tributary::server
