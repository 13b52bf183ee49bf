// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked counts of a ring of four, then a reader in another thread that must never see
//         half an event.
#include "recorder/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tributary::recorder {
namespace {

/// Returns an event whose four words depend on its number.
constexpr Words words_of(uint64_t number) { return {number, ~number, number * 3, number ^ 0x55}; }

TEST(Ring, KeepsTheNewestEventsAndSaysWhichAreWhole) {
  Ring ring(4);
  EXPECT_EQ(ring.put_count(), 0U);
  for (uint64_t i = 0; i < 3; i++) ring.put(words_of(i));
  // Three of four slots are used, so everything is whole.
  EXPECT_EQ(Ring::first_whole(ring.put_count(), 4), 0U);
  std::vector<Words> copies(3);
  ring.copy(0, copies);
  for (uint64_t i = 0; i < 3; i++) EXPECT_EQ(copies[i], words_of(i));

  for (uint64_t i = 3; i < 10; i++) ring.put(words_of(i));
  // Events 6 to 9 lie in the slots, but put() may already be writing event 10 over event 6.
  EXPECT_EQ(ring.put_count(), 10U);
  EXPECT_EQ(Ring::first_whole(10, 4), 7U);
  ring.copy(7, copies);
  for (uint64_t i = 0; i < 3; i++) EXPECT_EQ(copies[i], words_of(7 + i));
}

TEST(Ring, FirstWholeEventAtTheEdges) {
  EXPECT_EQ(Ring::first_whole(0, 64), 0U);
  EXPECT_EQ(Ring::first_whole(63, 64), 0U);
  EXPECT_EQ(Ring::first_whole(64, 64), 1U);
  EXPECT_EQ(Ring::first_whole(65, 64), 2U);
}

TEST(Ring, ReaderInAnotherThreadSeesWholeEventsOnly) {
  constexpr uint64_t kEvents = 200'000;
  constexpr uint32_t kCapacity = 64;
  Ring ring(kCapacity);
  std::thread writer([&ring] {
    for (uint64_t i = 0; i < kEvents; i++) ring.put(words_of(i));
  });
  uint64_t seen = 0;
  std::vector<Words> copies;
  for (uint64_t end = 0; end < kEvents;) {
    end = ring.put_count();
    const uint64_t first = Ring::first_whole(end, kCapacity);
    copies.resize(end - first);
    ring.copy(first, copies);
    const uint64_t whole = Ring::first_whole(ring.put_count(), kCapacity);
    for (uint64_t i = std::max(first, whole); i < end; i++) {
      ASSERT_EQ(copies[i - first], words_of(i)) << "event " << i;
      seen++;
    }
  }
  writer.join();
  EXPECT_GT(seen, 0U);
}

}  // namespace
}  // namespace tributary::recorder
