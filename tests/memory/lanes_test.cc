// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked words first. Then every variant that this processor can run against the
// plainest loop, at random lengths and alignments, with guards around the writable lanes.
#include "memory/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

constexpr uint32_t kLaneCountMax = 400;
constexpr uint32_t kGuardLanes = 20;  // More than a vector, on both sides.
constexpr int32_t kGuard = 0x5a5a5a5a;

std::byte operator""_b(unsigned long long value) { return static_cast<std::byte>(value); }

// Runs during static initialisation, before main. The choice of a variant must work there.
const int32_t kStoredBeforeMain = [] {
  const std::array<std::byte, 4> be{0_b, 0_b, 1_b, 2_b};
  int32_t lane = 0;
  store_be32(&lane, be.data(), 1);
  return lane;
}();

TEST(Lanes, KernelsWorkDuringStaticInitialisation) { EXPECT_EQ(kStoredBeforeMain, 258); }

TEST(Lanes, ScalarKernelIsAlwaysAvailableAndLast) {
  ASSERT_FALSE(lane_kernels_available().empty());
  EXPECT_STREQ(lane_kernels_available().back().isa, "scalar");
  EXPECT_STREQ(lanes_isa(), lane_kernels_available().front().isa);
}

TEST(Lanes, StoreReadsMostSignificantByteFirst) {
  for (const LaneKernels& kernels : lane_kernels_available()) {
    SCOPED_TRACE(kernels.isa);
    const std::array<std::byte, 8> be{1_b, 2_b, 3_b, 4_b, 0xff_b, 0xff_b, 0xff_b, 0xfe_b};
    std::array<int32_t, 2> to{7, 7};
    kernels.store_be32(to.data(), be.data(), 2);
    EXPECT_EQ(to, (std::array<int32_t, 2>{0x01020304, -2}));
  }
}

TEST(Lanes, AddWrapsModuloTwoToThe32) {
  for (const LaneKernels& kernels : lane_kernels_available()) {
    SCOPED_TRACE(kernels.isa);
    const std::array<std::byte, 8> be{0x7f_b, 0xff_b, 0xff_b, 0xff_b, 0_b, 0_b, 0_b, 5_b};
    std::array<int32_t, 2> to{1, -7};
    kernels.add_be32(to.data(), be.data(), 2);
    EXPECT_EQ(to, (std::array<int32_t, 2>{INT32_MIN, -2}));
    const std::array<int32_t, 2> from{-1, 9};
    kernels.add_lanes(to.data(), from.data(), 2);
    EXPECT_EQ(to, (std::array<int32_t, 2>{INT32_MAX, 7}));
  }
}

TEST(Lanes, ToBigEndianWritesMostSignificantByteFirst) {
  for (const LaneKernels& kernels : lane_kernels_available()) {
    SCOPED_TRACE(kernels.isa);
    int32_t lane = 0x0a0b0c0d;
    kernels.to_be32_in_place(&lane, 1);
    std::array<std::byte, 4> bytes;
    std::memcpy(bytes.data(), &lane, bytes.size());
    EXPECT_EQ(bytes, (std::array<std::byte, 4>{0xa_b, 0xb_b, 0xc_b, 0xd_b}));
  }
}

TEST(Lanes, ZeroLanesWriteNothing) {
  for (const LaneKernels& kernels : lane_kernels_available()) {
    kernels.store_be32(nullptr, nullptr, 0);
    kernels.add_be32(nullptr, nullptr, 0);
    kernels.to_be32_in_place(nullptr, 0);
    kernels.add_lanes(nullptr, nullptr, 0);
  }
}

/// A payload at a random alignment and a guarded target, both with random content.
struct Case {
  explicit Case(testing::Prng& prng)
      : lane_count(prng.below(kLaneCountMax + 1)),
        payload(lane_count * 4 + prng.below(64)),  // Ends exactly at the allocation's end.
        target(lane_count + 2 * kGuardLanes, kGuard),
        from(lane_count) {
    for (std::byte& byte : payload) byte = static_cast<std::byte>(prng.below(256));
    for (uint32_t i = 0; i < lane_count; i++) to()[i] = prng.any_i32();
    for (int32_t& lane : from) lane = prng.any_i32();
  }
  int32_t* to() { return target.data() + kGuardLanes; }
  [[nodiscard]] const std::byte* be() const {
    return payload.data() + (payload.size() - lane_count * 4);
  }
  [[nodiscard]] uint32_t word(uint32_t i) const {
    uint32_t value = 0;
    for (uint32_t k = 0; k < 4; k++) value = value << 8 | static_cast<uint32_t>(be()[i * 4 + k]);
    return value;
  }

  uint32_t lane_count;
  std::vector<std::byte> payload;
  std::vector<int32_t> target;
  std::vector<int32_t> from;
};

TEST(Lanes, EveryVariantMatchesThePlainLoop) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 2'000; step++) {
    const Case input(prng);
    for (const LaneKernels& kernels : lane_kernels_available()) {
      Case stored = input, added = input, swapped = input, summed = input;
      kernels.store_be32(stored.to(), stored.be(), stored.lane_count);
      kernels.add_be32(added.to(), added.be(), added.lane_count);
      kernels.to_be32_in_place(swapped.to(), swapped.lane_count);
      kernels.add_lanes(summed.to(), summed.from.data(), summed.lane_count);

      for (uint32_t i = 0; i < input.target.size(); i++) {
        const auto before = static_cast<uint32_t>(input.target[i]);
        const bool inside = i >= kGuardLanes && i < kGuardLanes + input.lane_count;
        const uint32_t word = inside ? input.word(i - kGuardLanes) : 0;
        const uint32_t from = inside ? static_cast<uint32_t>(input.from[i - kGuardLanes]) : 0;
        const auto at = [&](const Case& c) { return static_cast<uint32_t>(c.target[i]); };
        ASSERT_EQ(at(stored), inside ? word : before) << kernels.isa << " step " << step;
        ASSERT_EQ(at(added), before + word) << kernels.isa << " step " << step;
        ASSERT_EQ(at(summed), before + from) << kernels.isa << " step " << step;
        ASSERT_EQ(at(swapped), inside ? __builtin_bswap32(before) : before) << kernels.isa;
      }
    }
  }
}

}  // namespace
}  // namespace tributary::memory
