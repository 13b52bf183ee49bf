// SPDX-License-Identifier: Apache-2.0
#include "host/switchml/switchml_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"
#include "host/formats/number_format.h"
#include "wire/switchml.h"

namespace tributary::host {
namespace {

constexpr uint32_t kSlotsMax = wire::kSwitchmlSlotMax + 1;

__extension__ using Wide = unsigned __int128;

tl::unexpected<Error> refused(const char* key, uint64_t value, const std::string& allowed) {
  return failure(fmt::format("{}={} is not allowed; allowed: {}", key, value, allowed));
}

}  // namespace

void apply(SwitchmlPreset preset, SwitchmlConfig& config) {
  switch (preset) {
    case SwitchmlPreset::kPaper:
      config.pool = 512;                 // Appendix C, at 100 Gbit/s.
      config.timeout = milliseconds(1);  // §6.3.
      config.timeouts_to_double = 0;
      config.patient_start = false;
      return;
    case SwitchmlPreset::kPublished:
      config.pool = 256;  // Packets in flight of a worker, over its threads.
      config.timeout = milliseconds(10);
      config.timeouts_to_double = 100;
      config.patient_start = true;
      return;
  }
}

Result<void> check(const SwitchmlConfig& config) {
  if (config.elements != kSwitchmlSmallElements && config.elements != kSwitchmlLargeElements) {
    return refused("elements", config.elements, "64 or 256");
  }
  if (config.switch_times_out && config.elements != kSwitchmlSmallElements) {
    return refused("elements", config.elements, "64 with a switch that times out");
  }
  if (config.world < 1 || config.world > wire::kSwitchmlWorkersMax) {
    return refused("world", config.world, fmt::format("1 to {}", wire::kSwitchmlWorkersMax));
  }
  if (config.rank >= config.world) {
    return refused("rank", config.rank, fmt::format("0 to {}", config.world - 1));
  }
  if (config.pool < 1 || config.pool > kSlotsMax) {
    return refused("pool", config.pool, fmt::format("1 to {}", kSlotsMax));
  }
  if (config.timeout <= Duration()) return refused("timeout", 0, "more than 0");
  if (config.deadline <= Duration()) return refused("deadline", 0, "more than 0");
  return {};
}

uint32_t switchml_pool_size(uint64_t rate_bits_per_s, Duration delay, uint32_t packet_bytes) {
  TRIB_ASSERT(packet_bytes > 0 && delay >= Duration());
  const auto ticks_per_second = static_cast<uint64_t>(seconds(1).ticks());
  const Wide packet_ticks = Wide{packet_bytes} * 8 * ticks_per_second;  // Multiplied by the rate.
  const Wide bdp_ticks = Wide{rate_bits_per_s} * static_cast<uint64_t>(delay.ticks());
  const Wide packets = (bdp_ticks + packet_ticks - 1) / packet_ticks;
  const auto bounded = static_cast<uint32_t>(std::clamp<Wide>(packets, 1, kSlotsMax));
  return std::bit_ceil(bounded);
}

double switchml_scale(int8_t exponent, uint32_t world) {
  if (exponent == kNoExponent) return 1.0;
  // The largest exponent also stands for values up to 2^128, the limit of float32.
  const int32_t bound = exponent == INT8_MAX ? exponent + 1 : exponent;
  const double scale =
      std::ldexp(static_cast<double>(INT32_MAX) / static_cast<double>(world), -bound);
  return double{static_cast<float>(std::min(scale, 0x1p127))};
}

}  // namespace tributary::host
