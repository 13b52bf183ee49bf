// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shortcuts through a parser: the ways that packets have taken, each as one list of comparisons
/// and one of loads.
///
/// Model:   A way through a parser fixes where each header lies, so the comparisons that lead along
///          it can be made on the packet's bytes, all at once, before anything is written. If they
///          hold, the parser would have gone this way and the loads are what it would have read; if
///          not, nothing has changed and the parser decides. What comes in at one port mostly takes
///          one way, so the last one at that port is tried.
/// Why:     A packet of SwitchML passes seven states in each of up to eleven passes; going from
///          state to state took a third of the model's time.
/// Errors:  None. A way that cannot be described (stored bytes behind elided ones, fewer than eight
///          bytes) is not learned.
/// Memory:  At most kRoutesMax ways, and one number a port.
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

/// A packet, or what the modelled chip has of it.
struct PacketView {
  std::span<const std::byte> stored;  ///< At most size_bytes.
  uint32_t size_bytes = 0;
};

/// How far a parser has read.
struct ParserCursor {
  size_t at = 0;         ///< Of the stored bytes.
  uint32_t size_at = 0;  ///< Of the whole packet.
};

class ParserRoutes {
 public:
  static constexpr uint32_t kRoutesMax = 16;
  /// A step's choice when no transition matched.
  static constexpr uint16_t kOtherwise = std::numeric_limits<uint16_t>::max();
  /// A state and the transition that was taken from it.
  struct Step {
    uint16_t state;
    uint16_t choice;
    friend bool operator==(Step, Step) = default;
  };

  /// @param executable, gress Must outlive it.
  ParserRoutes(const Executable& executable, const Executable::GressCode& gress)
      : executable_(executable), gress_(gress) {
    last_.fill(kUnknown);
  }

  /// Parses the packet if it goes the way of the last one at `port`.
  /// @param phv, header_at As before the parser: set by the chip, else 0 and "not parsed".
  /// @return false if it goes another way; nothing has changed then.
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
    // Of elided bytes there may be some, or none.
    cursor.at = std::min<size_t>(route.stored_bytes + route.elided_bytes, packet.stored.size());
    cursor.size_at = route.size_bytes;
    return true;
  }

  /// A packet at `port` was accepted after these steps.
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
  /// A field has a value: taken from the packet, or, if `load.at` is kInPhv, from the PHV.
  struct Condition {
    Load load;
    uint32_t value;
  };
  static constexpr uint16_t kInPhv = std::numeric_limits<uint16_t>::max();
  struct Place {
    uint16_t header;
    uint32_t at;
  };
  /// Fields of 32 bits one after another.
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
    std::vector<Condition> of_packet;              ///< All hold.
    std::vector<Condition> of_phv;                 ///< All hold.
    std::vector<std::vector<Condition>> excluded;  ///< Of each at least one does not hold.
    std::vector<Load> loads;
    std::vector<Words> words;
    std::vector<Place> places;
    std::vector<std::pair<uint16_t, uint32_t>> sets;  ///< Validity bits among them.
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
  std::array<uint16_t, kPortsPerPipe> last_;  ///< By port of the pipe: into routes_.
};

}  // namespace tributary::tofino
