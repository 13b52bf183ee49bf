// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scores a program's treatment of generated traffic, whose source addresses tell the class of each
/// packet (traffic/labels.h). Packets to other destinations than the generator's servers have no
/// score.
///
/// Units:   Shares from 0 to 1 of packets.
/// Threads: One.
/// Memory:  24 bytes for each millisecond with flood packets, 16 for each server that they go to.
/// Tests:   tests/programs/guard_program_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/time.h"
#include "io/capture/capture_reader.h"
#include "traffic/labels.h"

namespace tributary::programs {

class FloodScore {
 public:
  /// Counts a packet of the input, or one that the program forwarded.
  void arrived(const io::CapturedPacket& packet) { count(packet, &Count::arrived); }
  void passed(const io::CapturedPacket& packet) { count(packet, &Count::passed); }

  /// Returns the share of a class that the program forwarded; nothing if it has no packets.
  [[nodiscard]] std::optional<double> passed_share(traffic::Label label) const;
  /// Returns the share of the flood's packets from `from` on that the program forwarded.
  [[nodiscard]] std::optional<double> flood_passed_share(io::CaptureTime from) const;
  /// Returns the time of the flood's first packet.
  [[nodiscard]] std::optional<io::CaptureTime> flood_began() const { return flood_began_; }
  /// Tells whether the flood has sent packets to a server.
  /// @param server Network order, IPv4 mapped.
  [[nodiscard]] bool is_flooded(const std::array<uint8_t, 16>& server) const {
    return flooded_.contains(server);
  }

 private:
  struct Count {
    uint64_t arrived = 0;
    uint64_t passed = 0;
  };
  void count(const io::CapturedPacket& packet, uint64_t Count::*which);
  [[nodiscard]] static std::optional<double> share_of(const Count& count);

  std::array<Count, traffic::kLabelCount> classes_;  ///< Indexed by Label.
  std::map<int64_t, Count> flood_;                   ///< By millisecond since 1970.
  std::optional<io::CaptureTime> flood_began_;
  std::set<std::array<uint8_t, 16>> flooded_;  ///< Destinations of the flood's packets.
};

}  // namespace tributary::programs
