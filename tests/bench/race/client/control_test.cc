// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/control.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "tests/support/scratch_directory.h"

namespace tributary::race {
namespace {

TEST(Control, LapSurvivesARoundTrip) {
  const LapReport report{.start_ns = 5,
                         .end_ns = 7'000'000'000'000,
                         .cpu_ns = 12,
                         .rx_bytes = UINT64_MAX,
                         .tx_bytes = 0,
                         .wrong = 3,
                         .partial = 4,
                         .digest = UINT64_MAX};
  const auto decoded = decode_lap(encode(report));
  ASSERT_TRUE(decoded) << decoded.error().text;
  EXPECT_EQ(*decoded, report);
}

TEST(Control, RefusesOtherLines) {
  for (const char* line :
       {"", "lap", "lap 1 2 3 4 5 6 7", "lap 1 2 3 4 5 6 7 8 9", "lap 1 2 3 4 5 6 7 x",
        "lap 2 1 3 4 5 6 7 8", "lap 1 2 -3 4 5 6 7 8", "lap 1 2 3 4 5 6 7 -8",
        "lap  1 2 3 4 5 6 7 8", "lapse 1 2 3 4 5 6 7 8"}) {
    EXPECT_FALSE(decode_lap(line)) << line;
  }
  EXPECT_EQ(decode_hello("hello 3").value(), 3U);
  for (const char* line : {"", "hello", "hello -1", "hello 3 4", "hallo 3"}) {
    EXPECT_FALSE(decode_hello(line)) << line;
  }
}

TEST(Control, ReassemblesSplitLines) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  LineSocket here(ends[0]);
  {
    LineSocket there(ends[1]);
    ASSERT_EQ(send(there.file(), "one\ntw", 6, 0), 6);
    EXPECT_EQ(here.take_lines().value(), std::vector<std::string>{"one"});
    EXPECT_TRUE(here.take_lines().value().empty());
    ASSERT_EQ(send(there.file(), "o\n", 2, 0), 2);
    EXPECT_EQ(here.read_line().value(), "two");
    ASSERT_TRUE(there.send_line("a line\nwith a break"));
  }
  EXPECT_EQ(here.read_line().value(), "a line with a break");
  EXPECT_FALSE(here.take_lines()) << "the other end has gone";
  EXPECT_FALSE(here.read_line());
}

TEST(Control, RefusesAnEndlessLine) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  LineSocket here(ends[0]);
  LineSocket there(ends[1]);
  const std::string endless(2 * kControlLineBytesMax, 'x');
  ASSERT_EQ(send(there.file(), endless.data(), endless.size(), 0),
            static_cast<ssize_t>(endless.size()));
  EXPECT_TRUE(here.take_lines());
  EXPECT_FALSE(here.take_lines());
}

TEST(Control, ListenerRemovesItsPath) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.path() / "control";
  {
    auto listener = ControlListener::open(path);
    ASSERT_TRUE(listener) << listener.error().text;
    EXPECT_EQ(listener->accept_now(), -1);
    const auto client = LineSocket::connect(path);
    ASSERT_TRUE(client) << client.error().text;
    const LineSocket accepted(listener->accept_now());
    EXPECT_GE(accepted.file(), 0);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(LineSocket::connect(path));
  EXPECT_FALSE(ControlListener::open(std::string(200, 'x')));
}

}  // namespace
}  // namespace tributary::race
