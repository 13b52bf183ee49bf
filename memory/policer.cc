// SPDX-License-Identifier: Apache-2.0
#include "memory/policer.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::memory {

Policer::Bucket Policer::full_bucket(BitRate rate, uint32_t burst_bytes) {
  const Tokens tokens_max = Tokens{burst_bytes} * kTokensPerByte;
  return {
      .tokens = tokens_max, .tokens_max = tokens_max, .tokens_per_tick = rate.in_bits_per_second()};
}

Result<Policer> Policer::create(const Config& config) {
  if (config.peak_rate > kPolicerRateMax) {
    return failure(fmt::format("a policer's peak rate is {} bit/s; allowed: 0 to {}",
                               config.peak_rate.in_bits_per_second(),
                               kPolicerRateMax.in_bits_per_second()));
  }
  if (config.committed_rate > config.peak_rate) {
    return failure(fmt::format(
        "a policer's committed rate is {} bit/s; allowed: up to its peak "
        "rate of {}",
        config.committed_rate.in_bits_per_second(), config.peak_rate.in_bits_per_second()));
  }
  if (config.committed_burst_bytes == 0 || config.peak_burst_bytes == 0) {
    return failure(
        fmt::format("a policer's bursts are {} (committed) and {} (peak) bytes; allowed: "
                    "1 or more; RFC 2698 advises the largest packet",
                    config.committed_burst_bytes, config.peak_burst_bytes));
  }
  Policer policer;
  policer.committed_ = full_bucket(config.committed_rate, config.committed_burst_bytes);
  policer.peak_ = full_bucket(config.peak_rate, config.peak_burst_bytes);
  return policer;
}

void Policer::Bucket::refill(uint64_t ticks) {
  tokens = std::min(tokens_max, tokens + Tokens{ticks} * tokens_per_tick);
}

Colour Policer::meter(Instant now, uint32_t size_bytes) {
  if (now > refilled_at_) {
    const auto ticks = static_cast<uint64_t>((now - refilled_at_).ticks());
    committed_.refill(ticks);
    peak_.refill(ticks);
    refilled_at_ = now;
  }
  const Tokens wanted = Tokens{size_bytes} * kTokensPerByte;
  if (!peak_.holds(wanted)) return Colour::kRed;
  peak_.tokens -= wanted;
  if (!committed_.holds(wanted)) return Colour::kYellow;
  committed_.tokens -= wanted;
  return Colour::kGreen;
}

uint32_t Policer::committed_bytes() const {
  return static_cast<uint32_t>(committed_.tokens / kTokensPerByte);
}

uint32_t Policer::peak_bytes() const {
  return static_cast<uint32_t>(peak_.tokens / kTokensPerByte);
}

}  // namespace tributary::memory
