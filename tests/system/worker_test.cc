// SPDX-License-Identifier: Apache-2.0
// Method:  four `tributary worker` processes and a server. They add under faults, bit-exact. Then
//          one process is killed, and the others must end and name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "io/udp/udp_port.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorld = 4;

Workers start_workers(const Server& server, const std::vector<std::string>& more) {
  Workers workers;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    workers.push_back(start_worker(server, rank, kWorld, more));
  }
  return workers;
}

TEST(Worker, SumsAreBitExactUnderFaults) {
  Server server({"id=1,sources=4"});
  for (const char* type : {"float32", "int32"}) {
    const Workers workers =
        start_workers(server, {"--elements", "20000", "--iterations", "20", "--verify", "--type",
                               type, "--loss", "0.02", "--duplicate", "0.02", "--reorder", "0.05"});
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      EXPECT_EQ(workers[rank]->wait_for_end(), 0) << workers[rank]->errors();
      const auto result = result_of(rank);
      EXPECT_EQ(result["status"], "ok");
      EXPECT_EQ(result["iterations"], 20);
      EXPECT_EQ(result["checked"], 20 * 20'000);
      EXPECT_EQ(result["wrong"], 0);
      EXPECT_EQ(result["degraded"], 0);
    }
  }
  const auto counters = server.stats()["counters"];
  EXPECT_EQ(counters["session_started"], 2);  // One after the other, on the same job.
  // The first session had to end before the second began. These links may drop the second session's
  // leave messages too; then it ends later, by silence.
  EXPECT_GE(counters["session_ended"], 1);
}

TEST(Worker, SumsAreBitExactOverSeveralCores) {
  Server server({"id=1,sources=4"}, {"--cores", "2"});
  const Workers workers = start_workers(
      server, {"--elements", "200000", "--iterations", "10", "--verify", "--loss", "0.005"});
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  for (uint32_t rank = 0; rank < kWorld; rank++) EXPECT_EQ(result_of(rank)["wrong"], 0);
  const auto cores = server.stats()["cores"];
  ASSERT_EQ(cores.size(), 2U);
  for (const auto& core : cores) EXPECT_GT(core["packets"], 0);
}

TEST(Worker, SumsAreBitExactWithSeveralThreads) {
  Server server({"id=1,sources=4,channels=3"}, {"--cores", "2"});
  const Workers workers = start_workers(
      server, {"--threads", "3", "--elements", "100000", "--iterations", "10", "--inflight", "2",
               "--format", "exponent", "--verify", "--loss", "0.005"});
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    EXPECT_EQ(result_of(rank)["wrong"], 0);
    EXPECT_EQ(result_of(rank)["threads"], 3);
  }
  const auto jobs = server.stats()["jobs"];
  ASSERT_EQ(jobs.size(), 3U);
  for (const auto& job : jobs) EXPECT_GT(job["block_total_cnt"], 0);
}

/// A join that takes longer than a second says what it waits for, long before its deadline.
TEST(Worker, WaitingJoinNamesTheMissingRank) {
  const Server server({"id=1,sources=3"});
  const auto alone =
      start_worker(server, 1, 3, {"--iterations", "1", "--local", "off", "--deadline-s", "120"});
  EXPECT_TRUE(alone->wait_for_error("waiting to join: rank 0, 2 has not joined job 1 within "))
      << alone->errors();
  alone->signal(SIGINT);
  EXPECT_EQ(alone->wait_for_end(), 130);
}

TEST(Worker, WaitingJoinNamesTheAggregatorThatDoesNotAnswer) {
  // Bound but never read: the kernel reports no closed port.
  const auto mute = io::UdpPort::open({.local = Endpoint::ipv4(0x7f000001, 0)});
  ASSERT_TRUE(mute.has_value()) << mute.error().text;
  const std::string address = (*mute)->local().to_string();
  Process worker({"worker", "--server", address, "--world", "2", "--deadline-s", "120"});
  EXPECT_TRUE(worker.wait_for_error("waiting to join: aggregator " + address + " does not answer"))
      << worker.errors();
  worker.signal(SIGINT);
  EXPECT_EQ(worker.wait_for_end(), 130);
}

// A worker that is interrupted while it waits for the others leaves, so that no session starts with
// it and its successor need not wait until the join has expired.
TEST(Worker, InterruptedJoinFreesItsRankAtOnce) {
  Server server({"id=1,sources=2"});
  const std::vector<std::string> few{"--elements", "1000", "--iterations", "2", "--verify"};
  const auto interrupted = start_worker(server, 0, 2, few);
  server.wait_until_counted("join", 1);
  interrupted->signal(SIGINT);
  EXPECT_EQ(interrupted->wait_for_end(), 130);  // 128 + SIGINT.
  EXPECT_EQ(result_of(0)["status"], "interrupted");
  server.wait_until_counted("leave", 1);

  Workers workers;
  for (uint32_t rank = 0; rank < 2; rank++) workers.push_back(start_worker(server, rank, 2, few));
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  EXPECT_EQ(server.stats()["counters"]["session_started"], 1);
}

/// Workers in the middle of more work than they can finish during the test.
class Killing : public ::testing::Test {
 protected:
  /// @param local "off": over UDP although the server runs on this machine.
  explicit Killing(const std::string& threads = "1", const std::string& local = "auto")
      : server_({"id=1,sources=4,channels=" + threads}),
        workers_(
            start_workers(server_, {"--elements", "60000", "--iterations", "10000000",
                                    "--deadline-s", "2", "--threads", threads, "--local", local})) {
    server_.wait_until_counted("block_completed", 1000);
  }
  /// Expects every worker except `except` to end with status 1 and one error that contains `text`.
  void expect_end(const std::string& text, uint32_t except = kWorld) {
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      if (rank == except) continue;
      EXPECT_EQ(workers_[rank]->wait_for_end(), 1);
      const auto lines = lines_of(workers_[rank]->errors());
      ASSERT_FALSE(lines.empty());
      EXPECT_THAT(lines.back(), HasSubstr("rank " + std::to_string(rank) + ": "));
      EXPECT_THAT(lines.back(), HasSubstr(text));
    }
  }
  Server server_;
  Workers workers_;
};

TEST_F(Killing, KilledWorkerIsNamedByTheOthers) {
  workers_[2]->signal(SIGKILL);
  EXPECT_EQ(workers_[2]->wait_for_end(), 128 + SIGKILL);
  expect_end("rank 2 ", 2);
}

class KillingThreads : public Killing {
 protected:
  KillingThreads() : Killing("2") {}
};

TEST_F(KillingThreads, KilledWorkerIsNamedByTheOthers) {
  workers_[2]->signal(SIGKILL);
  EXPECT_EQ(workers_[2]->wait_for_end(), 128 + SIGKILL);
  expect_end("rank 2 ", 2);
}

TEST_F(KillingThreads, KilledServerIsNamedByAll) {
  server_.kill();
  expect_end(server_.address());  // Its machine refuses packets, or nobody answers.
}

TEST_F(Killing, ServerWhoseSharedMemoryIsClosedIsNamedByAll) {
  server_.kill();
  expect_end("aggregator " + server_.address() + " has ended (its shared memory is closed)");
}

class KillingOverUdp : public Killing {
 protected:
  KillingOverUdp() : Killing("1", "off") {}
};

TEST_F(KillingOverUdp, KilledServerIsNamedByAll) {
  server_.kill();
  expect_end(server_.address());  // Its machine refuses packets, or nobody answers.
}

TEST_F(KillingOverUdp, RestartedServerIsNamedByAll) {
  // A worker that runs meanwhile gives up after 0.4 s of closed ports, and a start may take longer.
  for (auto& worker : workers_) worker->signal(SIGSTOP);
  server_.kill();
  server_.start_again();
  for (auto& worker : workers_) worker->signal(SIGCONT);
  expect_end("aggregator " + server_.address() + " was restarted");
}

TEST_F(Killing, StatisticsAppearWhileItRuns) {
  const auto stats = server_.stats();
  EXPECT_EQ(stats["command"], "serve");
  EXPECT_EQ(stats["listen"], server_.address());
  EXPECT_EQ(stats["counters"]["session_started"], 1);
  EXPECT_GT(stats["counters"]["aggregated"], 4000);
  ASSERT_EQ(stats["jobs"].size(), 1U);
  EXPECT_EQ(stats["jobs"][0]["id"], 1);
  EXPECT_NE(stats["jobs"][0]["session"], 0);
  ASSERT_EQ(stats["jobs"][0]["sources"].size(), kWorld);
  EXPECT_GT(stats["ports"][0]["rx_packets"], 4000);
  // Signal all of them at once. Otherwise those interrupted last learn that the first has left.
  for (const int number : {SIGSTOP, SIGINT, SIGCONT}) {
    for (auto& worker : workers_) worker->signal(number);
  }
  for (auto& worker : workers_) EXPECT_EQ(worker->wait_for_end(), 130);  // 128 + SIGINT.
  EXPECT_EQ(server_.stop(), 0);
}

}  // namespace
}  // namespace tributary::system_test
