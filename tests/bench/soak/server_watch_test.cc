// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/server_watch.h"

#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"

namespace tributary::soak {
namespace {

TEST(ServerState, SumsOverPortsAndJobs) {
  const auto state = state_in(R"({
    "ports": [{"rx_packets": 10, "rx_truncated": 1}, {"rx_packets": 5}],
    "jobs": [{"block_curr_cnt": 2, "buffers_free": 100, "session": 7},
             {"block_curr_cnt": 1, "buffers_free": 50, "session": 0}]})");
  ASSERT_TRUE(state);
  EXPECT_EQ(*state, (ServerState{.rx_packets = 16,
                                 .socket_drops = 0,
                                 .blocks_open = 3,
                                 .buffers_free = 150,
                                 .sessions_open = 1,
                                 .resident_bytes = 0,
                                 .open_files = 0}));
}

TEST(ServerState, RefusesOtherText) {
  for (const char* text : {"", "{", "[]", "{}", R"({"ports": []})", "no json"}) {
    EXPECT_FALSE(state_in(text)) << text;
  }
}

TEST(SocketDrops, SumsTheLastColumnOfThePortsLines) {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode ref pointer drops\n"
      "  12: 0100007F:2EE0 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
      "8 2 0000000000000000 42        \n"
      "  13: 00000000:2EE0 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
      "9 2 0000000000000000 8\n"
      "  14: 0100007F:2EE1 0100007F:2EE0 07 00000000:00000000 00:00000000 00000000     0        0 "
      "9 2 0000000000000000 1000\n";
  EXPECT_EQ(socket_drops_in(table, 0x2EE0), 50U);
  EXPECT_EQ(socket_drops_in(table, 0x2EE2), 0U);
  EXPECT_EQ(socket_drops_in("", 1), 0U);
}

TEST(ServerWatch, ReadsTheStateOfANewServer) {
  const testing::ScratchDirectory scratch;
  auto server = ServerWatch::start({.program = TRIBUTARY_PROGRAM,
                                    .jobs = {"id=1,sources=3", "id=2,sources=3"},
                                    .scratch = scratch.path(),
                                    .where = {}});
  ASSERT_TRUE(server) << server.error().text;
  const auto state = server->look();
  ASSERT_TRUE(state) << state.error().text;
  EXPECT_EQ(state->rx_packets, 0U);
  EXPECT_EQ(state->blocks_open, 0U);
  EXPECT_GT(state->buffers_free, 0U);
  EXPECT_GT(state->resident_bytes, 0U);
  EXPECT_GT(state->open_files, 0U);
  EXPECT_EQ(server->look()->buffers_free, state->buffers_free) << "as often as one likes";
}

TEST(ServerWatch, ReportsAProgramThatIsNoServer) {
  const testing::ScratchDirectory scratch;
  EXPECT_FALSE(ServerWatch::start(
      {.program = "/bin/false", .jobs = {}, .scratch = scratch.path(), .where = {}}));
}

}  // namespace
}  // namespace tributary::soak
