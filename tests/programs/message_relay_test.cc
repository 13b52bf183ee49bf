// SPDX-License-Identifier: Apache-2.0
// Method: a handler that the test holds back, so that the buffer is empty, part full and full when
// the test wants it; then threads that push as fast as they can.
#include "programs/message_relay.h"

#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <string_view>
#include <thread>

namespace tributary::programs {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(MessageRelay, PassesMessagesOnInOrder) {
  std::vector<std::string> seen;
  MessageRelay relay([&](std::span<const std::byte> message) -> Result<void> {
    seen.push_back(text_of(message));
    return {};
  });
  relay.push(bytes_of("one"));
  relay.push(bytes_of(""));
  relay.push(bytes_of("three"));
  relay.finish();
  EXPECT_EQ(seen, (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(relay.lost(), 0U);
  EXPECT_FALSE(relay.problem());
}

TEST(MessageRelay, LosesAllMessagesFromAnErrorOn) {
  uint32_t handled = 0;
  MessageRelay relay([&](std::span<const std::byte>) -> Result<void> {
    if (++handled == 2) return failure("no space");
    return {};
  });
  for (const char* text : {"one", "two", "three", "four"}) relay.push(bytes_of(text));
  relay.finish();
  EXPECT_EQ(handled, 2U);
  EXPECT_EQ(relay.lost(), 3U);
  ASSERT_TRUE(relay.problem());
  EXPECT_EQ(relay.problem()->text, "no space");
}

TEST(MessageRelay, LosesAndCountsWhatFindsNoRoom) {
  std::latch began(1), may_end(1);
  uint32_t handled = 0;
  // Room for two messages of six bytes, with their sizes.
  MessageRelay relay(
      [&](std::span<const std::byte>) -> Result<void> {
        if (handled++ == 0) {
          began.count_down();
          may_end.wait();
        }
        return {};
      },
      /*room_bytes=*/20);
  relay.push(bytes_of("first."));
  began.wait();  // It is out of the buffer.
  relay.push(bytes_of("second"));
  relay.push(bytes_of("third."));
  relay.push(bytes_of("fourth"));
  EXPECT_EQ(relay.lost(), 1U);
  relay.push(bytes_of("longer than the whole buffer"));
  EXPECT_EQ(relay.lost(), 2U);
  may_end.count_down();
  relay.finish();
  EXPECT_EQ(handled, 3U);
}

TEST(MessageRelay, WaitsForRoomAtTheEnd) {
  uint64_t handled = 0;
  MessageRelay relay(
      [&](std::span<const std::byte>) -> Result<void> {
        handled++;
        return {};
      },
      /*room_bytes=*/100);
  relay.begin_end();
  {
    std::vector<std::jthread> cores;
    for (uint32_t core = 0; core < 3; core++) {
      cores.emplace_back([&] {
        for (uint32_t i = 0; i < 10'000; i++) relay.push(bytes_of("message"));
      });
    }
  }
  relay.push(bytes_of(std::string(97, 'x')));  // Can never fit, so it does not wait.
  relay.finish();
  EXPECT_EQ(handled, 30'000U);
  EXPECT_EQ(relay.lost(), 1U);
}

TEST(MessageRelay, KeepsTheFirstProblemAndDiscardsTheRest) {
  uint32_t handled = 0;
  MessageRelay relay([&](std::span<const std::byte>) -> Result<void> {
    handled++;
    return failure(std::to_string(handled));
  });
  for (uint32_t i = 0; i < 3; i++) relay.push(bytes_of("x"));
  relay.finish();
  ASSERT_TRUE(relay.problem());
  EXPECT_EQ(relay.problem()->text, "1");
  EXPECT_EQ(handled, 1U);
}

}  // namespace
}  // namespace tributary::programs
