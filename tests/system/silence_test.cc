// SPDX-License-Identifier: Apache-2.0
// Method:  a server and three workers as processes; one or all are stopped. Each effect of silence
//          is seen in the log, the counters and the other workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/system/control_folder.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorld = 3;
constexpr uint32_t kStopped = 2;

class Silence : public ControlFolder {
 protected:
  static Workers start_all(const Server& server, const std::string& iterations) {
    Workers workers;
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      workers.push_back(start_worker(server, rank, kWorld,
                                     {"--elements", "20000", "--iterations", iterations, "--local",
                                      "off", "--deadline-s", "60"}));
    }
    return workers;
  }
  static std::string line(const std::string& outcome) {
    return "warn event=rank_silent job=1 rank=2 silent_ms=3500 outcome=" + outcome;
  }
};

TEST_F(Silence, EndsTheOthersByDefault) {
  Server server({"id=1,sources=3"});
  const Workers workers = start_all(server, "100000000");
  server.wait_until_counted("block_completed", 1000);
  workers[kStopped]->signal(SIGSTOP);
  EXPECT_TRUE(server.wait_for_error(line("end")));
  for (uint32_t rank = 0; rank < kStopped; rank++) {
    EXPECT_EQ(workers[rank]->wait_for_end(), 1);
    EXPECT_THAT(workers[rank]->errors(), HasSubstr("rank 2 has sent nothing to the aggregator"));
  }
  EXPECT_EQ(server.stats()["counters"]["silence_ended"], 1);
  EXPECT_TRUE(server.wait_for_error("warn event=recording_written cause=silence path="));
  workers[kStopped]->signal(SIGKILL);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Silence, OfAllRanksIsReported) {
  Server server({"id=1,sources=3"});
  const Workers workers = start_all(server, "100000000");
  server.wait_until_counted("block_completed", 1000);
  for (const auto& worker : workers) worker->signal(SIGSTOP);
  EXPECT_TRUE(server.wait_for_error(line("end")));
  EXPECT_TRUE(server.wait_for_error("info event=session_ended job=1 reason=all_silent"));
  EXPECT_EQ(server.stats()["counters"]["silence_ended"], 3);
  EXPECT_TRUE(server.wait_for_error("warn event=recording_written cause=silence path="));
  for (const auto& worker : workers) worker->signal(SIGCONT);
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 1);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Silence, OfAllRanksIsWaitedFor) {
  Server server({"id=1,sources=3,silence=wait"}, {"--name", "box"});
  const Workers workers = start_all(server, "100000000");
  server.wait_until_counted("block_completed", 1000);
  for (const auto& worker : workers) worker->signal(SIGSTOP);
  server.wait_until_counted("silence_waited", 3);
  const auto counters = server.stats()["counters"];
  EXPECT_EQ(counters["session_ended"], 0);
  for (const auto& worker : workers) worker->signal(SIGCONT);
  server.wait_until_counted("block_completed", counters["block_completed"].get<uint64_t>() + 1000);
  for (const auto& worker : workers) worker->signal(SIGKILL);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Silence, ExcludesThePausedRank) {
  Server server({"id=1,sources=3,silence=exclude,history=64"}, {"--name", "box"});
  const Workers workers = start_all(server, "100000000");
  server.wait_until_counted("block_completed", 1000);
  workers[kStopped]->signal(SIGSTOP);
  EXPECT_TRUE(server.wait_for_error(line("exclude")));
  const uint64_t before = server.stats()["counters"]["block_degraded"].get<uint64_t>();
  server.wait_until_counted("block_degraded", before + 1000);
  EXPECT_EQ(server.stats()["counters"]["silence_excluded"], 1);
  for (const auto& worker : workers) worker->signal(SIGKILL);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Silence, WaitsForThePausedRank) {
  Server server({"id=1,sources=3"}, {"--name", "box"});
  EXPECT_EQ(run({"job", "set", "1", "--silence", "wait"}), "job 1: silence=wait\n");
  EXPECT_TRUE(server.wait_for_error("info event=job_silence_changed job=1 silence=wait"));
  const Workers workers = start_all(server, "100000000");
  server.wait_until_counted("block_completed", 1000);
  workers[kStopped]->signal(SIGSTOP);
  EXPECT_TRUE(server.wait_for_error(line("wait")));
  EXPECT_EQ(server.stats()["counters"]["silence_waited"], 1);
  workers[kStopped]->signal(SIGCONT);
  EXPECT_TRUE(server.wait_for_error("info event=rank_heard job=1 rank=2"));
  const uint64_t before = server.stats()["counters"]["block_completed"].get<uint64_t>();
  server.wait_until_counted("block_completed", before + 100);
  for (const auto& worker : workers) worker->signal(SIGKILL);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace tributary::system_test
