// SPDX-License-Identifier: Apache-2.0
// Runs each target over its seeds, over random damage to them, and over the files of
// tests/fuzz/regressions/TARGET/. Needs no fuzzer, so any compiler will do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/seed.h"

namespace tributary::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kDamagedRuns = 20;

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Replay : public ::testing::TestWithParam<Target> {};

TEST_P(Replay, Seeds) {
  const auto seeds = GetParam().seeds();
  EXPECT_FALSE(seeds.empty());
  for (size_t i = 0; i < seeds.size(); i++) {
    SCOPED_TRACE(fmt::format("seed {}", i));
    GetParam().run(seeds[i]);
  }
  GetParam().run({});
}

TEST_P(Replay, DamagedSeeds) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  const auto seeds = GetParam().seeds();
  for (uint32_t run = 0; run < kDamagedRuns; run++) {
    Bytes input = seeds[prng.below(static_cast<uint32_t>(seeds.size()))];
    if (input.empty()) continue;
    for (uint32_t damage = prng.below(8); damage > 0; damage--) {
      input[prng.below(static_cast<uint32_t>(input.size()))] = static_cast<uint8_t>(prng.any_u32());
    }
    if (prng.below(4) == 0) input.resize(prng.below(static_cast<uint32_t>(input.size())));
    GetParam().run(input);
  }
}

TEST_P(Replay, Regressions) {
  const fs::path folder = fs::path(TRIBUTARY_FUZZ_REGRESSIONS) / GetParam().name;
  if (!fs::exists(folder)) return;  // Nothing was found with this target.
  for (const auto& entry : fs::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    GetParam().run(read_file(entry.path()));
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace tributary::fuzz
