// SPDX-License-Identifier: Apache-2.0
// Method: real launchers, aggregators and workers. Two launchers play two machines, each with an
// address of the loopback network. Every wait has a deadline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "tests/system/network.h"
#include "tests/system/server.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

/// A shell command for a rank: a worker at the aggregators of TRIBUTARY_URL.
std::vector<std::string> rank_command() {
  return {"sh", "-c",
          "servers=${TRIBUTARY_URL#tributary://} source=$RANK; "
          "case $TRIBUTARY_URL in *source=*) source=$LOCAL_RANK;; esac; exec " TRIBUTARY_PROGRAM
          " worker --server ${servers%%/*} --source $source --rank $RANK --world $WORLD_SIZE "
          "--elements 200000 "
          "--iterations 4 --verify --json " +
              scratch("launched_") + "$RANK.json"};
}

std::unique_ptr<Process> launch(std::vector<std::string> words) {
  words.insert(words.begin(), "launch");
  const auto command = rank_command();
  words.insert(words.end(), command.begin(), command.end());
  return std::make_unique<Process>(words);
}

/// Expects exact sums of every rank over this many channels.
void expect_exact(uint32_t world, uint32_t channels) {
  for (uint32_t rank = 0; rank < world; rank++) {
    std::ifstream file(scratch("launched_") + std::to_string(rank) + ".json");
    const auto result = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    EXPECT_EQ(result["wrong"], 0) << "rank " << rank;
    EXPECT_EQ(result["threads"], channels) << "rank " << rank;
  }
}

class LaunchOnTwoMachines : public VethTest {};

TEST(Launch, SeveralAggregatorsOfOneMachineShareTheTensors) {
  const auto launcher = launch({"-n", "2", "--aggregators", "3"});
  EXPECT_EQ(launcher->wait_for_end(), 0) << launcher->errors();
  expect_exact(2, 3);
}

TEST(Launch, ColocatedAggregatorsServeAllMachines) {
  const std::string machines =
      "127.0.0.2:" + std::to_string(free_port()) + ",127.0.0.3:" + std::to_string(free_port());
  std::vector<std::unique_ptr<Process>> launchers;
  for (const char* node_rank : {"0", "1"}) {
    launchers.push_back(launch({"-n", "2", "--aggregators", "colocated", "--workers", machines,
                                "--local-reduce", "off", "--node-rank", node_rank}));
  }
  for (const auto& launcher : launchers) {
    EXPECT_EQ(launcher->wait_for_end(), 0) << launcher->errors();
  }
  expect_exact(4, 2);
}

// Two machines, each with a network namespace and two ranks. Lower aggregators add the ranks'
// tensors, so two tensors enter each upper aggregator and not four.
TEST_F(LaunchOnTwoMachines, RanksOfAMachineReduceLocally) {
  ASSERT_TRUE(run("ip -n " + ours_ + " link set lo up && ip -n " + theirs_ + " link set lo up"));
  ASSERT_TRUE(run("ip -n " + ours_ + " address add 10.77.0.1/24 dev wire"));
  std::vector<std::unique_ptr<Process>> launchers;
  for (const uint32_t node_rank : {0U, 1U}) {
    const Inside machine(node_rank == 0 ? ours_ : theirs_);
    launchers.push_back(launch({"-n", "2", "--aggregators", "colocated", "--workers",
                                "10.77.0.1,10.77.0.2", "--node-rank", std::to_string(node_rank),
                                "--serve-json", scratch("local_") + std::to_string(node_rank)}));
  }
  for (const auto& launcher : launchers) {
    EXPECT_EQ(launcher->wait_for_end(), 0) << launcher->errors();
  }
  expect_exact(4, 2);
  // 4 tensors of 200,000 elements in packets of 352, half of them at each upper aggregator.
  for (const char* upper : {"local_0-0", "local_1-0"}) {
    std::ifstream file(scratch(upper));
    const auto stats = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(stats.is_object()) << upper;
    EXPECT_NEAR(stats["counters"]["aggregated"].get<double>(), 2 * 4 * 200'000 / 352 / 2, 100)
        << stats["counters"];
  }
}

// A worker that still trains keeps the server; when it has left, the server ends.
TEST(Launch, LingeringServerWaitsForItsWorkers) {
  Server server({"id=1,sources=1"}, {"--linger-s", "60"});
  const auto worker =
      start_worker(server, 0, 1, {"--elements", "2000", "--iterations", "10000000"});
  server.wait_until_counted("block_completed", 10);
  server.terminate();
  const auto before = server.stats()["counters"]["block_completed"].get<uint64_t>();
  server.wait_until_counted("block_completed", before + 100);
  worker->signal(SIGINT);
  EXPECT_TRUE(worker->wait_for_end());
  EXPECT_THAT(worker->errors(), ::testing::Not(HasSubstr("aggregator_gone")));
  EXPECT_EQ(server.wait_for_end(), 0);
}

// With 1 % of a CPU, a core that sums at all uses more than its share.
TEST(Launch, LimitedServerPausesOnItsCpu) {
  Server server({"id=1,sources=1"},
                {"--cpus", std::to_string(cpus_allowed().front()), "--cpu-percent", "1"});
  const auto worker = start_worker(server, 0, 1, {"--elements", "20000", "--verify"});
  EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  EXPECT_GT(server.stats()["cores"][0]["pauses"], 0);
}

TEST(Launch, SecondSignalEndsALingeringServer) {
  Server server({"id=1,sources=1"}, {"--linger-s", "60"});
  const auto worker =
      start_worker(server, 0, 1, {"--elements", "2000", "--iterations", "10000000"});
  server.wait_until_counted("block_completed", 10);
  server.terminate();
  // Two signals that wait together count as one, so the server must take the first one first.
  EXPECT_TRUE(server.wait_for_error("a second signal ends at once"));
  server.terminate();
  EXPECT_EQ(server.wait_for_end(), 0);
  EXPECT_EQ(worker->wait_for_end(), 1);
  EXPECT_THAT(worker->errors(), HasSubstr("aggregator_gone"));
}

}  // namespace
}  // namespace tributary::system_test
