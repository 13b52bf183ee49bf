// SPDX-License-Identifier: Apache-2.0
#include "tofino/precision/control.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace tributary::tofino {

Result<PrecisionSwitch> PrecisionSwitch::make(const PrecisionVariant& variant, SwitchSink& sink,
                                              uint64_t seed) {
  if (!std::has_single_bit(variant.slots) || variant.slots < kPrecisionSlotsMin ||
      variant.slots > kPrecisionSlotsMax) {
    return failure(fmt::format("{} slots in a row; allowed: a power of two from {} to {}",
                               variant.slots, kPrecisionSlotsMin, kPrecisionSlotsMax));
  }
  auto device = Switch::make(precision_program(variant), {.pipes = 1, .seed = seed}, sink);
  if (!device) return tl::unexpected(device.error());
  return PrecisionSwitch(variant, *std::move(device));
}

std::vector<PrecisionFlow> PrecisionSwitch::read() {
  Pipe& pipe = switch_->pipe(0);
  std::vector<PrecisionFlow> flows;
  for (uint32_t row = 0; row < kPrecisionRows; row++) {
    const PrecisionRegisters registers = precision_registers(row);
    for (uint32_t slot = 0; slot < variant_.slots; slot++) {
      const uint32_t count = pipe.register_word(registers.count, slot);
      if (count == 0) continue;
      const uint32_t ports = pipe.register_word(registers.ports, slot, 0);
      flows.push_back(
          {.from = pipe.register_word(registers.addresses, slot, 0),
           .to = pipe.register_word(registers.addresses, slot, 1),
           .port_from = static_cast<uint16_t>(ports >> 16),
           .port_to = static_cast<uint16_t>(ports & 0xffff),
           .protocol = static_cast<uint8_t>(pipe.register_word(registers.ports, slot, 1)),
           .count = count});
    }
  }
  return flows;
}

uint64_t PrecisionSwitch::not_measured() {
  constexpr CounterId kNotMeasured = 0;  // The program's only counter.
  return switch_->pipe(0).counter(kNotMeasured, 0);
}

}  // namespace tributary::tofino
