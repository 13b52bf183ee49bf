// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shortcuts through a parser: each is a path that a packet has taken, as one list of comparisons
/// and one list of loads. ParserRoutes explains how they work.
///
/// Why:     A packet of SwitchML passes seven states in each of up to eleven passes. Going from
///          state to state took a third of the model's time.
/// Errors:  None. learn() ignores a path that it cannot describe: one with stored bytes behind
///          elided ones, or with fewer than eight bytes.
/// Memory:  At most kRoutesMax routes, and one number per port.
/// Threads: One.
/// Tests:   tests/tofino/pipeline/parser_route_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/byte_order.h"
#include "tofino/limits.h"
#include "tofino/pipeline/executable.h"

namespace tributary::tofino {

/// A packet, or the part of it that the modelled chip has.
struct PacketView {
  std::span<const std::byte> stored;  ///< At most size_bytes.
  uint32_t size_bytes = 0;
};

/// The position of a parser.
struct ParserCursor {
  size_t at = 0;         ///< Offset in the stored bytes.
  uint32_t size_at = 0;  ///< Offset in the whole packet.
};

/// A path through a parser fixes the place of each header. The comparisons along the path can
/// therefore be made on the packet's bytes, all at once, before anything is written. If they hold,
/// the parser would take the same path, and the loads give the fields that it would read. If they
/// do not hold, nothing has changed, and the parser runs. Most packets of a port take one path, so
/// only the port's last path is tried.
class ParserRoutes {
 public:
  static constexpr uint32_t kRoutesMax = 16;
  /// The transition of a step in which no transition matched.
  static constexpr uint16_t kOtherwise = std::numeric_limits<uint16_t>::max();
  /// A state, and the transition that the packet took from it.
  struct Step {
    uint16_t state;
    uint16_t transition;
    friend bool operator==(Step, Step) = default;
  };

  /// @param executable, gress Must outlive this object.
  ParserRoutes(const Executable& executable, const Executable::GressCode& gress)
      : executable_(executable), gress_(gress) {
    last_.fill(kUnknown);
  }

  /// Parses the packet if it takes the same path as the last one at `port`.
  /// @param phv, header_at As before the parser: values set by the chip, else 0 and "not parsed".
  /// @return false if it takes another path; nothing has changed in that case.
  [[nodiscard]] bool follow(uint32_t port, PacketView packet, uint32_t* phv, uint32_t* header_at,
                            ParserCursor& cursor) const {
    const uint16_t known = last_[port % kPortsPerPipe];
    if (known == kUnknown) return false;
    const Route& route = routes_[known];
    if (packet.stored.size() < route.stored_bytes || packet.size_bytes < route.size_bytes ||
        !applies(route, packet.stored.data(), phv)) {
      return false;
    }
    for (const Load& load : route.loads) {
      phv[load.field] = static_cast<uint32_t>(
          load_be<uint64_t>(packet.stored.data() + load.at) >> load.shift & load.mask);
    }
    for (const Words& words : route.words) {
      const std::byte* from = packet.stored.data() + words.at;
      uint32_t* to = phv + words.field;
      for (uint32_t i = 0; i < words.count; i++) to[i] = load_be<uint32_t>(from + 4 * size_t{i});
    }
    for (const Place& place : route.places) header_at[place.header] = place.at;
    for (const auto& [field, value] : route.sets) phv[field] = value;
    // The packet may have some, all or none of its elided bytes.
    cursor.at = std::min<size_t>(route.stored_bytes + route.elided_bytes, packet.stored.size());
    cursor.size_at = route.size_bytes;
    return true;
  }

  /// Records the path of a packet at `port` that the parser accepted.
  void learn(uint32_t port, std::span<const Step> steps);

 private:
  static constexpr uint16_t kUnknown = std::numeric_limits<uint16_t>::max();
  /// Up to 32 bits of the eight bytes at `at`.
  struct Load {
    uint16_t at;
    uint16_t field;
    uint8_t shift;
    uint32_t mask;
  };
  /// A field must have this value in the packet, or in the PHV if `load.at` is kInPhv.
  struct Condition {
    Load load;
    uint32_t value;
  };
  static constexpr uint16_t kInPhv = std::numeric_limits<uint16_t>::max();
  struct Place {
    uint16_t header;
    uint32_t at;
  };
  /// Adjacent fields of 32 bits.
  struct Words {
    uint32_t at;
    uint16_t field;
    uint32_t count;
  };
  struct Route {
    std::vector<Step> steps;
    uint32_t stored_bytes = 0;
    uint32_t elided_bytes = 0;
    uint32_t size_bytes = 0;
    std::vector<Condition> of_packet;              ///< All must hold.
    std::vector<Condition> of_phv;                 ///< All must hold.
    std::vector<std::vector<Condition>> excluded;  ///< In each list, at least one must not hold.
    std::vector<Load> loads;
    std::vector<Words> words;
    std::vector<Place> places;
    std::vector<std::pair<uint16_t, uint32_t>> sets;  ///< Includes validity bits.
  };
  class Builder;

  [[nodiscard]] static bool holds(const Condition& one, const std::byte* stored,
                                  const uint32_t* phv) {
    const uint64_t bits = one.load.at == kInPhv
                              ? phv[one.load.field]
                              : load_be<uint64_t>(stored + one.load.at) >> one.load.shift;
    return (bits & one.load.mask) == one.value;
  }
  [[nodiscard]] static bool applies(const Route& route, const std::byte* stored,
                                    const uint32_t* phv) {
    for (const Condition& one : route.of_phv) {
      if ((phv[one.load.field] & one.load.mask) != one.value) return false;
    }
    for (const Condition& one : route.of_packet) {
      const uint64_t bits = load_be<uint64_t>(stored + one.load.at) >> one.load.shift;
      if ((bits & one.load.mask) != one.value) return false;
    }
    for (const auto& group : route.excluded) {
      bool all = true;
      for (const Condition& one : group) all = all && holds(one, stored, phv);
      if (all) return false;
    }
    return true;
  }

  const Executable& executable_;
  const Executable::GressCode& gress_;
  std::vector<Route> routes_;
  std::array<uint16_t, kPortsPerPipe> last_;  ///< By port of the pipe: index into routes_.
};

}  // namespace tributary::tofino
