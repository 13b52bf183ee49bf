// SPDX-License-Identifier: Apache-2.0
#include "net/link_config.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace tributary::net {
namespace {

Result<void> check_delay(const char* name, Duration delay) {
  if (delay >= Duration() && delay <= kDelayMax) return {};
  return failure(fmt::format("{}={} ns is out of range; allowed: 0 to {} s", name,
                             in_nanoseconds(delay), in_nanoseconds(kDelayMax) / 1'000'000'000));
}

}  // namespace

Result<void> check(const LinkFaults& faults) {
  const std::array<std::pair<const char*, double>, 5> shares{{{"loss", faults.loss},
                                                              {"corrupt", faults.corrupt},
                                                              {"undetected", faults.undetected},
                                                              {"duplicate", faults.duplicate},
                                                              {"reorder", faults.reorder}}};
  for (const auto& [name, share] : shares) {
    if (!(share >= 0 && share <= 1)) {
      return failure(fmt::format("{}={} is not a probability; allowed: 0 to 1", name, share));
    }
  }
  if (!(faults.loss_run >= 1)) {
    return failure(fmt::format("loss_run={} is too short; allowed: 1 or more", faults.loss_run));
  }
  if (faults.loss_run > 1 && faults.loss > faults.loss_run * (1 - faults.loss)) {
    return failure(fmt::format("loss={} cannot come in runs of loss_run={}; allowed: at most {}",
                               faults.loss, faults.loss_run,
                               faults.loss_run / (1 + faults.loss_run)));
  }
  if (faults.flip_begin >= faults.flip_end) {
    return failure(fmt::format("flip_begin={} leaves no byte to flip; allowed: below flip_end={}",
                               faults.flip_begin, faults.flip_end));
  }
  if (faults.reorder > 0 && faults.reorder_max <= Duration()) {
    return failure(
        fmt::format("reorder={} needs a reorder_max; allowed: more than 0", faults.reorder));
  }
  if (auto good = check_delay("reorder_max", faults.reorder_max); !good) return good;
  return check_delay("jitter", faults.jitter);
}

Result<void> check(const LinkConfig& link) {
  if (link.rate_bits_per_s == 0 || link.rate_bits_per_s > kRateBitsPerSecondMax) {
    return failure(fmt::format("rate={} bit/s is out of range; allowed: 1 to {}",
                               link.rate_bits_per_s, kRateBitsPerSecondMax));
  }
  if (auto good = check_delay("propagation", link.propagation); !good) return good;
  return check(link.faults);
}

}  // namespace tributary::net
