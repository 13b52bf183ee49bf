// SPDX-License-Identifier: Apache-2.0
#include "lab/program_faults/faulty_wire.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "base/prng.h"
#include "traffic/generator.h"

namespace tributary::lab {
namespace {

constexpr uint32_t kGarbageBytesMax = 1'600;
constexpr uint32_t kStepBackMsMax = 1'000;
constexpr uint32_t kStepAheadMsMax = 100'000;
constexpr int64_t kNsOfMs = 1'000'000;

class Wire {
 public:
  Wire(const ProgramFaultPlan& plan, FaultyTraffic& traffic)
      : plan_(plan), traffic_(traffic), prng_(plan.seed) {}

  void carry(int64_t at_ns, std::span<const std::byte> frame) {
    if (occurs(WireFault::kClockStep)) {
      shift_ns_ += kNsOfMs * (prng_.chance(0.5)
                                  ? -int64_t{prng_.below(kStepBackMsMax)}
                                  : int64_t{1} << prng_.below(std::bit_width(kStepAheadMsMax)));
    }
    const int64_t now_ns = std::max<int64_t>(0, at_ns + shift_ns_);
    if (occurs(WireFault::kGarbage)) deliver(now_ns, garbage());
    if (occurs(WireFault::kLoss)) return;
    deliver(now_ns, {frame.begin(), frame.end()});
    if (occurs(WireFault::kDuplication)) deliver(now_ns, {frame.begin(), frame.end()});
  }

 private:
  bool occurs(WireFault fault) {
    const auto kind = static_cast<size_t>(fault);
    const bool does = plan_.rates[kind] > 0 && prng_.chance(plan_.rates[kind]);
    traffic_.faults[kind] += does ? 1 : 0;
    return does;
  }

  [[nodiscard]] uint32_t below(size_t limit) { return prng_.below(static_cast<uint32_t>(limit)); }

  std::vector<std::byte> garbage() {
    std::vector<std::byte> bytes(prng_.below(kGarbageBytesMax));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng_.any_u32());
    return bytes;
  }

  void deliver(int64_t at_ns, std::vector<std::byte> bytes) {
    if (!bytes.empty() && occurs(WireFault::kTruncation)) bytes.resize(below(bytes.size()));
    if (!bytes.empty() && occurs(WireFault::kCorruption)) {
      for (uint32_t bits = 1 + prng_.below(3); bits > 0; bits--) {
        bytes[below(bytes.size())] ^= static_cast<std::byte>(1U << prng_.below(8));
      }
    }
    const auto wire_bytes = static_cast<uint32_t>(bytes.size());
    if (!bytes.empty() && occurs(WireFault::kCut)) bytes.resize(below(bytes.size()));
    traffic_.packets.push_back({at_ns, std::move(bytes), wire_bytes});
    auto& packets = traffic_.packets;
    if (packets.size() > 1 && occurs(WireFault::kReordering)) {
      std::swap(packets[packets.size() - 1], packets[packets.size() - 2]);
    }
  }

  const ProgramFaultPlan& plan_;
  FaultyTraffic& traffic_;
  Prng prng_;
  int64_t shift_ns_ = 0;
};

}  // namespace

Result<FaultyTraffic> faulty_traffic(const ProgramFaultPlan& plan) {
  auto generator = traffic::Generator::create(plan.traffic);
  if (!generator) return tl::unexpected(generator.error());
  FaultyTraffic traffic;
  Wire wire(plan, traffic);
  while (const auto packet = generator->next()) {
    wire.carry(in_nanoseconds(packet->at - Instant()), packet->frame);
  }
  return traffic;
}

}  // namespace tributary::lab
