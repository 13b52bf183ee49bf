// SPDX-License-Identifier: Apache-2.0
#include "lab/training/generated_text.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tributary::lab {
namespace {

TEST(GeneratedText, TextDependsOnlyOnItsSeed) {
  EXPECT_EQ(generated_text(1, 1000), generated_text(1, 1000));
  EXPECT_NE(generated_text(1, 1000), generated_text(2, 1000));
  // Equal on every machine: a replayable generator, with a single floating-point comparison.
  EXPECT_EQ(generated_text(1, 3000).substr(0, 1000), generated_text(1, 1000));
}

TEST(GeneratedText, TextUsesItsAlphabet) {
  const std::string text = generated_text(3, 20'000);
  const std::set<char> letters(text.begin(), text.end());
  EXPECT_EQ(letters.size(), kLetters);
  EXPECT_EQ(*letters.begin(), '0');
}

TEST(GeneratedText, FourLettersFollowMostOfTheTime) {
  const std::string text = generated_text(5, 200'000);
  std::map<std::pair<int, char>, std::map<char, int>> followers;
  for (size_t i = 2; i < text.size(); i++) {
    followers[{(text[i - 2] - '0') % 2, text[i - 1]}][text[i]]++;
  }
  int among_four = 0;
  int all = 0;
  for (const auto& [context, counts] : followers) {
    std::multiset<int, std::greater<>> sorted;
    for (const auto& [letter, count] : counts) sorted.insert(count);
    int taken = 0;
    for (const int count : sorted) {
      if (taken++ < 4) among_four += count;
      all += count;
    }
  }
  // 97 % plus a small part of the noise.
  EXPECT_NEAR(static_cast<double>(among_four) / all, 1.0 - kNoise, 0.005);
}

}  // namespace
}  // namespace tributary::lab
