// SPDX-License-Identifier: Apache-2.0
/// @file
/// The control plane of PRECISION's switch program: puts the program into a Switch of one pipe, and
/// reads its slots.
///
/// Threads: One.
/// Errors:  make() refuses a wrong number of slots, and rows that do not fit the chip.
/// Memory:  That of the Switch. read() allocates.
/// Tests:   tests/tofino/precision/control_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "tofino/pipeline/switch.h"
#include "tofino/precision/program.h"

namespace tributary::tofino {

/// A flow and its count, as the slots hold them. Addresses and ports in host order.
struct PrecisionFlow {
  uint32_t from = 0;
  uint32_t to = 0;
  uint16_t port_from = 0;
  uint16_t port_to = 0;
  uint8_t protocol = 0;
  uint32_t count = 0;

  friend bool operator==(const PrecisionFlow&, const PrecisionFlow&) = default;
};

class PrecisionSwitch {
 public:
  /// @param sink Must outlive the object. @param seed Seed of the random draws.
  static Result<PrecisionSwitch> make(const PrecisionVariant& variant, SwitchSink& sink,
                                      uint64_t seed);

  /// Returns the taken slots, row by row. A flow may have a slot in each row: if two of its packets
  /// recirculate at once, the first may raise the count that the second compares. Its count is then
  /// the sum.
  [[nodiscard]] std::vector<PrecisionFlow> read();
  /// Returns the number of packets that the program does not measure.
  [[nodiscard]] uint64_t not_measured();

  [[nodiscard]] Switch& device() { return *switch_; }
  /// Returns the bytes of all slots: of both rows.
  [[nodiscard]] static constexpr uint64_t slot_bytes(uint32_t slots) {
    return uint64_t{kPrecisionRows} * slots * kPrecisionSlotBytes;
  }

 private:
  PrecisionSwitch(const PrecisionVariant& variant, std::unique_ptr<Switch> device)
      : variant_(variant), switch_(std::move(device)) {}

  PrecisionVariant variant_;
  std::unique_ptr<Switch> switch_;
};

}  // namespace tributary::tofino
