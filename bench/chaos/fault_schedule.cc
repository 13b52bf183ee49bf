// SPDX-License-Identifier: Apache-2.0
#include "bench/chaos/fault_schedule.h"

#include <array>
#include <utility>

#include "base/assert.h"

namespace tributary::chaos {
namespace {

constexpr std::array<const char*, kFaultKindCount> kNames{
    "kill_worker", "stop_worker", "pause_worker", "kill_joiner",
    "kill_server", "stop_server", "pause_server", "loss"};

/// Assumed: long enough for some all-reduces before a fault, so that it hits one on its way.
constexpr uint32_t kDelayMsMin = 50;
constexpr uint32_t kDelayMsMax = 400;
/// Longest pause: well below wire::kSilentAfter, also on a busy machine.
constexpr uint32_t kLengthMsMin = 100;
constexpr uint32_t kLengthMsMax = 1000;
constexpr double kLossMin = 0.005;
constexpr double kLossMax = 0.05;

}  // namespace

const char* to_string(FaultKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<FaultKind> parse_fault_kind(std::string_view name) {
  for (const FaultKind kind : all_fault_kinds()) {
    if (name == to_string(kind)) return kind;
  }
  return {};
}

std::vector<FaultKind> all_fault_kinds() {
  std::vector<FaultKind> kinds;
  for (uint32_t i = 0; i < kFaultKindCount; i++) kinds.push_back(static_cast<FaultKind>(i));
  return kinds;
}

FaultSchedule::FaultSchedule(uint64_t seed, uint32_t workers, std::span<const FaultKind> kinds)
    : prng_(seed), workers_(workers), round_(kinds.begin(), kinds.end()), place_(round_.size()) {
  TRIB_ASSERT(!round_.empty());
}

Fault FaultSchedule::next() {
  if (place_ == round_.size()) {
    for (auto left = static_cast<uint32_t>(round_.size()); left > 1; left--) {
      std::swap(round_[left - 1], round_[prng_.below(left)]);
    }
    place_ = 0;
  }
  const auto between = [this](uint32_t least, uint32_t most) {
    return std::chrono::milliseconds(least + prng_.below(most - least + 1));
  };
  Fault fault{.kind = round_[place_++]};
  fault.rank = prng_.below(workers_);
  fault.delay = between(kDelayMsMin, kDelayMsMax);
  fault.length = between(kLengthMsMin, kLengthMsMax);
  fault.loss = kLossMin + (kLossMax - kLossMin) * prng_.unit();
  return fault;
}

}  // namespace tributary::chaos
