// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small pseudo-random generator for everything that must replay from a seed. Its sequence is the
/// same on every compiler and machine. Not for secrets.
/// Source: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#pragma once

#include <cstdint>

namespace tributary {

class Prng {
 public:
  explicit constexpr Prng(uint64_t seed) : state_(seed) {}

  constexpr uint64_t any_u64() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  constexpr uint32_t any_u32() { return static_cast<uint32_t>(any_u64() >> 32); }
  constexpr int32_t any_i32() { return static_cast<int32_t>(any_u32()); }
  /// Returns a uniform value in [0, bound); 0 for bound 0. The bias is below 2^-32.
  constexpr uint32_t below(uint32_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(any_u32()) * bound) >> 32);
  }
  /// Returns a uniform value in [0, 1).
  constexpr double unit() { return static_cast<double>(any_u64() >> 11) * 0x1.0p-53; }
  constexpr bool chance(double probability) { return unit() < probability; }

 private:
  uint64_t state_;
};

}  // namespace tributary
