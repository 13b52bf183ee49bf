// SPDX-License-Identifier: Apache-2.0
/// @file
/// The traffic generator: yields one frame at a time in the order of time, with its class.
///
/// Model:   Background packets arrive in a Poisson process; each belongs to a flow drawn with Zipf
///          weights. Churn replaces flows drawn uniformly. A flood and a flash crowd have processes
///          and random numbers of their own, so adding one does not change the background.
/// Units:   Times from 0 in ticks of 10 ps; sizes in bytes without the frame check sequence.
/// Threads: One.
/// Errors:  create() refuses settings out of range; next() always answers.
/// Memory:  16 bytes for each flow, 8 for its weight, 24 for each client of a flash crowd, all from
///          create(). A flood's sources need none.
/// Tests:   tests/traffic/generator_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "traffic/config.h"
#include "traffic/frame_builder.h"
#include "traffic/labels.h"
#include "traffic/sampling.h"

namespace tributary::traffic {

/// One packet of the traffic.
struct TrafficPacket {
  Instant at;
  std::span<const std::byte> frame;  ///< Valid until the next next().
  Label label = Label::kInnocent;
};

/// Counts one class of packets.
struct ClassSummary {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  Instant first_at;  ///< Valid if packets > 0.
  Instant last_at;
};

/// Counts the packets that next() has returned.
struct Summary {
  std::array<ClassSummary, kLabelCount> classes;  ///< Indexed by Label.
  uint64_t flows_begun = 0;                       ///< Background flows with at least one packet.
  uint64_t flows_ended = 0;
  [[nodiscard]] const ClassSummary& of(Label label) const {
    return classes[static_cast<size_t>(label)];
  }
};

class Generator {
 public:
  [[nodiscard]] static Result<Generator> create(const Config& config);

  /// Returns the next packet, or nothing after the last one.
  [[nodiscard]] std::optional<TrafficPacket> next();

  [[nodiscard]] const Summary& summary() const { return summary_; }
  [[nodiscard]] const Config& config() const { return config_; }

 private:
  /// One background flow. A begun TCP flow has sent its SYN.
  struct Flow {
    uint32_t client = 0;
    uint32_t sequence_number = 0;
    uint16_t server = 0;
    uint16_t client_port = 0;
    bool ipv6 = false;
    bool udp = false;
    bool begun = false;
  };
  static_assert(sizeof(Flow) == 16);

  /// One connection of the flash crowd.
  struct Visit {
    Instant due_at;
    uint32_t client = 0;
    uint32_t sequence_number = 0;
    uint32_t step = 0;  ///< Packets sent.
  };
  static_assert(sizeof(Visit) <= 24);
  /// Orders a heap with the earliest visit on top; the client decides ties.
  struct Later {
    bool operator()(const Visit& a, const Visit& b) const {
      return a.due_at != b.due_at ? a.due_at > b.due_at : a.client > b.client;
    }
  };

  explicit Generator(const Config& config);

  [[nodiscard]] Flow new_flow();
  [[nodiscard]] FrameContents contents_of(const Flow& flow) const;
  [[nodiscard]] TrafficPacket emit(Instant at, const FrameContents& contents, Label label);
  [[nodiscard]] TrafficPacket next_background();
  /// Ends a flow. @return its FIN, if it is a TCP flow that has begun.
  [[nodiscard]] std::optional<TrafficPacket> replace_flow();
  [[nodiscard]] TrafficPacket next_flood();
  void plan_flood();
  void begin_visit();
  [[nodiscard]] TrafficPacket next_visit();
  void plan_visit();
  /// Returns the time of the flash crowd's next packet or arrival.
  [[nodiscard]] Instant crowd_due() const;

  Config config_;
  Prng background_prng_;
  Prng churn_prng_;
  Prng flood_prng_;
  Prng crowd_prng_;
  ZipfTable ranks_;
  std::vector<Flow> flows_;  ///< Shape [flows]; the index is the rank.
  uint32_t client_count_;
  Instant background_due_;
  Instant churn_due_ = Instant::never();
  Instant flood_due_ = Instant::never();
  Duration flood_active_;      ///< Time that the flood has been on, without a pulse's gaps.
  std::vector<Visit> visits_;  ///< A heap.
  Instant arrival_due_ = Instant::never();  ///< Arrival of the flash crowd's next client.
  uint32_t clients_arrived_ = 0;
  uint64_t packets_ = 0;
  Summary summary_;
  std::array<std::byte, kFrameBytesMax> frame_{};
};

}  // namespace tributary::traffic
