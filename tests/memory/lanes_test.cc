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

TEST(Lanes, HalfWordsKeepTheirSign) {
  for (const LaneKernels& kernels : lane_kernels_available()) {
    SCOPED_TRACE(kernels.isa);
    const std::array<std::byte, 6> be{0x7f_b, 0xff_b, 0x80_b, 0_b, 0xff_b, 0xfe_b};
    std::array<int32_t, 3> to{7, 7, 7};
    kernels.store_be16(to.data(), be.data(), 3);
    EXPECT_EQ(to, (std::array<int32_t, 3>{32767, -32768, -2}));
    kernels.add_be16(to.data(), be.data(), 3);
    EXPECT_EQ(to, (std::array<int32_t, 3>{65534, -65536, -4}));
  }
}

TEST(Lanes, QuotientsRoundToEvenAndKeepWithinHalfWords) {
  struct Case {
    int32_t sum;
    uint32_t shift;
    int16_t quotient;
  };
  for (const Case& one : std::initializer_list<Case>{{5, 0, 5},
                                                     {1, 1, 0},  // A tie goes to the even one.
                                                     {3, 1, 2},
                                                     {-1, 1, 0},
                                                     {-3, 1, -2},
                                                     {2, 2, 0},
                                                     {6, 2, 2},
                                                     {7, 2, 2},
                                                     {-7, 2, -2},
                                                     {256 * 32767, 8, 32767},
                                                     {-256 * 32767, 8, -32767},
                                                     {-256 * 32768, 8, -32767},
                                                     {40'000, 0, 32767},
                                                     {-40'000, 0, -32767}}) {
    for (const LaneKernels& kernels : lane_kernels_available()) {
      SCOPED_TRACE(kernels.isa);
      std::array<int32_t, 17> lanes;
      lanes.fill(one.sum);
      auto* be = reinterpret_cast<std::byte*>(lanes.data());  // In place.
      kernels.to_be16(be, lanes.data(), lanes.size(), one.shift);
      for (uint32_t i = 0; i < lanes.size(); i++) {
        const uint32_t word =
            static_cast<uint32_t>(be[2 * i]) << 8 | static_cast<uint32_t>(be[2 * i + 1]);
        EXPECT_EQ(static_cast<int16_t>(word), one.quotient) << one.sum << " >> " << one.shift;
      }
    }
  }
}

TEST(Lanes, ZeroLanesWriteNothing) {
  for (const LaneKernels& kernels : lane_kernels_available()) {
    kernels.store_be32(nullptr, nullptr, 0);
    kernels.add_be32(nullptr, nullptr, 0);
    kernels.to_be32_in_place(nullptr, 0);
    kernels.add_lanes(nullptr, nullptr, 0);
    kernels.store_be16(nullptr, nullptr, 0);
    kernels.add_be16(nullptr, nullptr, 0);
    kernels.to_be16(nullptr, nullptr, 0, 3);
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

// The scalar variant is the definition; the hand-worked cases above pin it down.
TEST(Lanes, EveryVariantOfHalfWordsMatchesTheScalarOne) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  const LaneKernels& scalar = lane_kernels_available().back();
  for (uint32_t step = 0; step < 1'000; step++) {
    Case input(prng);
    const bool small = prng.chance(0.5);  // Otherwise most quotients are at the limits.
    for (uint32_t i = 0; small && i < input.lane_count; i++) input.to()[i] >>= 9;
    const uint32_t shift = prng.below(9);
    Case stored = input, added = input, narrowed = input;
    scalar.store_be16(stored.to(), stored.be(), stored.lane_count);
    scalar.add_be16(added.to(), added.be(), added.lane_count);
    scalar.to_be16(reinterpret_cast<std::byte*>(narrowed.to()), narrowed.to(), narrowed.lane_count,
                   shift);
    for (const LaneKernels& kernels : lane_kernels_available()) {
      Case other = input;
      kernels.store_be16(other.to(), other.be(), other.lane_count);
      ASSERT_EQ(other.target, stored.target) << kernels.isa << " step " << step;
      other = input;
      kernels.add_be16(other.to(), other.be(), other.lane_count);
      ASSERT_EQ(other.target, added.target) << kernels.isa << " step " << step;
      other = input;
      kernels.to_be16(reinterpret_cast<std::byte*>(other.to()), other.to(), other.lane_count,
                      shift);
      // Behind the half words the variants may leave anything.
      const auto* bytes = reinterpret_cast<const std::byte*>(other.to());
      ASSERT_EQ(std::memcmp(bytes, narrowed.to(), size_t{other.lane_count} * 2), 0) << kernels.isa;
      for (uint32_t i = 0; i < kGuardLanes; i++) {
        ASSERT_EQ(other.target[i], kGuard);
        ASSERT_EQ(other.target[other.target.size() - 1 - i], kGuard);
      }
    }
  }
}

}  // namespace
}  // namespace tributary::memory
