// SPDX-License-Identifier: Apache-2.0
// Method: a frame by hand. Then random frames, which are the same after a tag was added and
//         removed.
#include "tags.h"

#include <gtest/gtest.h>

#include "tests/programs/interleaved_run.h"
#include "tests/support/seed.h"

namespace tags {
namespace {

namespace trib = tributary::testing;

std::vector<trib::Frame> run(const std::string& setting, const std::vector<trib::Frame>& frames,
                             uint64_t seed) {
  const auto program = trib::make_program<Tags>(setting);
  std::vector<trib::Frame> passed = trib::run_interleaved(**program, frames, seed);
  std::sort(passed.begin(), passed.end());
  return passed;
}

TEST(Tags, TheTagStandsBehindTheAddresses) {
  trib::Frame frame(60);
  for (uint32_t i = 0; i < frame.size(); i++) frame[i] = static_cast<std::byte>(i);
  trib::Frame tagged = frame;
  constexpr std::array kTag{std::byte{0x81}, std::byte{0x00}, std::byte{0x01}, std::byte{0x2c}};
  tagged.insert(tagged.begin() + 12, kTag.begin(), kTag.end());
  EXPECT_EQ(run("vlan-id=300", {frame}, 1), std::vector<trib::Frame>{tagged});
  EXPECT_EQ(run("vlan-id=0", {tagged}, 1), std::vector<trib::Frame>{frame});
  EXPECT_EQ(run("vlan-id=0", {frame}, 1), std::vector<trib::Frame>{frame});
}

TEST(Tags, RemovingUndoesAdding) {
  const uint64_t seed = trib::seed_from_env();
  SCOPED_TRACE(trib::replay_hint(seed));
  Prng prng(seed);
  std::vector<trib::Frame> frames;
  for (uint32_t i = 0; i < 2'000; i++) {
    trib::Frame& frame = frames.emplace_back(prng.below(400));
    for (std::byte& byte : frame) byte = static_cast<std::byte>(prng.below(256));
    if (frame.size() >= 14) frame[12] = std::byte{8};
  }
  std::sort(frames.begin(), frames.end());
  const auto tagged = run("vlan-id=5", frames, prng.any_u64());
  EXPECT_NE(tagged, frames);
  EXPECT_EQ(run("vlan-id=0", tagged, prng.any_u64()), frames);
}

}  // namespace
}  // namespace tags
