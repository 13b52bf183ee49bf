// SPDX-License-Identifier: Apache-2.0
#include "lab/training/generated_text.h"

#include <array>
#include <vector>

#include "base/prng.h"

namespace tributary::lab {
namespace {

constexpr uint32_t kClasses = 2;  ///< Classes of the letter before the last.
constexpr uint32_t kFollowers = 4;
/// Cumulative shares of the followers, in tenths: 40, 30, 20, 10 %.
constexpr std::array<uint32_t, kFollowers> kUpTo{4, 7, 9, 10};
constexpr char kFirstLetter = '0';

}  // namespace

std::string generated_text(uint64_t seed, uint64_t bytes) {
  Prng prng(seed);
  std::vector<std::array<uint8_t, kFollowers>> followers(kLetters * kClasses);
  for (auto& choices : followers) {
    for (uint8_t& letter : choices) letter = static_cast<uint8_t>(prng.below(kLetters));
  }
  std::string text;
  text.reserve(bytes);
  uint32_t before = 0;
  uint32_t last = 0;
  for (uint64_t i = 0; i < bytes; i++) {
    uint32_t next = prng.below(kLetters);
    if (!prng.chance(kNoise)) {
      const uint32_t drawn = prng.below(kUpTo.back());
      uint32_t choice = 0;
      while (drawn >= kUpTo[choice]) choice++;
      next = followers[last * kClasses + before % kClasses][choice];
    }
    text += static_cast<char>(kFirstLetter + static_cast<char>(next));
    before = last;
    last = next;
  }
  return text;
}

}  // namespace tributary::lab
