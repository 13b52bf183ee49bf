// SPDX-License-Identifier: Apache-2.0
// Method: a driver of three lines that refuses some frames and has limited room. First by hand,
// then at random until all frames are gone. No driver of a virtual device refuses anything.
#include "io/dpdk/offer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::io {
namespace {

/// Frames are numbers; the driver refuses negative ones.
struct Driver {
  uint32_t room = 0;
  std::vector<int> wire;

  Offered take(std::span<int> frames) {
    return offer(
        frames,
        [](std::span<int> all) {
          const auto bad = std::find_if(all.begin(), all.end(), [](int f) { return f < 0; });
          return static_cast<uint32_t>(bad - all.begin());
        },
        [this](std::span<int> ready) {
          const auto count = std::min(room, static_cast<uint32_t>(ready.size()));
          wire.insert(wire.end(), ready.begin(), ready.begin() + count);
          room -= count;
          return count;
        });
  }
};

TEST(Offer, RefusedFrameDiffersFromAFullRing) {
  std::vector<int> frames{1, 2, -3, 4};
  Driver driver{.room = 1, .wire = {}};
  Offered offered = driver.take(frames);
  EXPECT_EQ(offered.sent, 1U);
  EXPECT_FALSE(offered.refuses_next);  // The second frame waits for room.
  driver.room = 9;
  offered = driver.take(std::span(frames).subspan(1));
  EXPECT_EQ(offered.sent, 1U);
  EXPECT_TRUE(offered.refuses_next);  // The driver refuses the third frame.
  offered = driver.take(std::span(frames).subspan(3));
  EXPECT_EQ(offered.sent, 1U);
  EXPECT_FALSE(offered.refuses_next);
  EXPECT_EQ(driver.wire, (std::vector{1, 2, 4}));
  offered = driver.take(std::span(frames).subspan(2, 1));
  EXPECT_EQ(offered.sent, 0U);
  EXPECT_TRUE(offered.refuses_next);
}

TEST(Offer, RandomGoodFramesAreSentInOrder) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 500; step++) {
    std::vector<int> frames(prng.below(65));
    std::vector<int> good;
    for (size_t i = 0; i < frames.size(); i++) {
      frames[i] = static_cast<int>(i) + 1;
      if (prng.chance(0.2)) {
        frames[i] = -frames[i];
      } else {
        good.push_back(frames[i]);
      }
    }
    Driver driver;
    uint32_t refused = 0;
    for (std::span<int> left(frames); !left.empty();) {
      driver.room = prng.below(8);
      const Offered offered = driver.take(left);
      refused += offered.refuses_next ? 1 : 0;
      left = left.subspan(offered.sent + (offered.refuses_next ? 1 : 0));
    }
    ASSERT_EQ(driver.wire, good) << step;
    ASSERT_EQ(refused, frames.size() - good.size()) << step;
  }
}

}  // namespace
}  // namespace tributary::io
