// SPDX-License-Identifier: Apache-2.0
// Method: real servers and workers of a sharded job: a list of aggregators, one that is killed
// while tensors are on their way or hangs, a directory that plans without it, and a late rank with
// mitigation. Every wait has a deadline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/system/server.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kWorld = 3;
constexpr const char* kJob = "id=1,sources=3";

std::unique_ptr<Process> start_rank(const std::string& aggregators, uint32_t rank,
                                    const std::vector<std::string>& more) {
  std::vector<std::string> words{"worker", "--server",           aggregators, "--world",        "3",
                                 "--rank", std::to_string(rank), "--json",    result_path(rank)};
  words.insert(words.end(), more.begin(), more.end());
  return std::make_unique<Process>(words);
}

/// Starts workers of the first ranks.
Workers start_ranks(const std::string& aggregators, const std::vector<std::string>& more,
                    uint32_t ranks = kWorld) {
  Workers workers;
  for (uint32_t rank = 0; rank < ranks; rank++) {
    workers.push_back(start_rank(aggregators, rank, more));
  }
  return workers;
}

/// Expects exact sums of every rank over this many channels.
void expect_exact(const std::string& aggregators, uint32_t channels) {
  const Workers workers = start_ranks(
      aggregators, {"--elements", "200000", "--iterations", "4", "--inflight", "2", "--verify"});
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    EXPECT_EQ(result_of(rank)["wrong"], 0);
    EXPECT_EQ(result_of(rank)["threads"], channels);
  }
}

class ShardedJob : public ::testing::Test {
 protected:
  Server first_{{kJob}};
  Server second_{{kJob}, {}, "127.0.0.2"};
  Server third_{{kJob}, {}, "127.0.0.3"};
};

TEST_F(ShardedJob, SumsOfAllAggregatorsAreExact) {
  expect_exact(first_.address() + "=2," + second_.address() + "=1," + third_.address() + "=1", 3);
}

// `config` has 0 for windows that follow the weights.
TEST_F(ShardedJob, WindowsFollowTheWeightsUnlessTheyAreGiven) {
  const std::vector<std::string> short_run{"--elements", "1000", "--iterations", "1"};
  const auto window_of = [&](const std::string& list, std::vector<std::string> more) {
    more.insert(more.end(), short_run.begin(), short_run.end());
    for (const auto& worker : start_ranks(list, more)) {
      EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
    }
    return result_of(0)["config"]["window"].get<uint32_t>();
  };
  const std::string both = first_.address() + "=3," + second_.address() + "=1";
  EXPECT_EQ(window_of(both, {}), 0U);
  EXPECT_GT(result_of(0)["windows"][0], result_of(0)["windows"][1]);
  EXPECT_EQ(window_of(both, {"--window", "200"}), 200U);
  EXPECT_EQ(result_of(0)["windows"], (nlohmann::json{200, 200}));
  EXPECT_EQ(window_of(first_.address(), {}), 256U);
  EXPECT_EQ(result_of(0)["windows"], nlohmann::json{256});
}

TEST_F(ShardedJob, AggregatorsWithDifferentStragglerTimeoutsAreNamed) {
  const std::string job = std::string(kJob) + ",mitigation=on,timeout_ms=";
  Server fast({job + "20"}, {}, "127.0.0.4"), slow({job + "30"}, {}, "127.0.0.5");
  for (const auto& worker : start_ranks(fast.address() + "," + slow.address(), {})) {
    EXPECT_EQ(worker->wait_for_end(), 1);
    EXPECT_THAT(worker->errors(), HasSubstr("timeout of 20 ms at aggregator " + fast.address() +
                                            ", and of 30 ms at " + slow.address()));
  }
}

TEST(ShardedMitigation, LateRankDelaysNobodyAndAllRanksHoldTheSameResults) {
  const std::string job = std::string(kJob) + ",mitigation=on,timeout_ms=20";
  Server first({job}), second({job}, {}, "127.0.0.2"), third({job}, {}, "127.0.0.3");
  const std::string list = first.address() + "," + second.address() + "," + third.address();
  const std::vector<std::string> common{"--elements",   "60000", "--iterations", "3", "--verify",
                                        "--deadline-s", "20"};
  std::vector<std::string> late = common;
  // Three delays of 0.5 to 2 times 400 ms: at least 0.6 s in each iteration.
  late.insert(late.end(), {"--straggle", "1", "--straggle-iteration-ms", "400"});
  Workers workers = start_ranks(list, common, kWorld - 1);
  workers.push_back(start_rank(list, kWorld - 1, late));
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();

  const std::string checksum = result_of(0)["checksum"];
  EXPECT_EQ(checksum.size(), 16U);
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    const auto result = result_of(rank);
    EXPECT_EQ(result["threads"], 3) << "one channel to each aggregator";
    EXPECT_EQ(result["wrong"], 0);
    EXPECT_EQ(result["checksum"], checksum) << "rank " << rank;
    // Three aggregators have a third of the blocks each, so all of them have degraded ones.
    EXPECT_GT(result["degraded"], result["blocks"].get<uint64_t>() * 2 / 3);
    if (rank < kWorld - 1) {
      EXPECT_LT(result["latency_ms"]["max"], 500) << "two timeouts, and a busy machine";
    }
  }
  EXPECT_GT(result_of(kWorld - 1)["wall_seconds"], 1.8) << "three iterations of at least 0.6 s";
}

TEST_F(ShardedJob, KilledAggregatorIsNamedAndTheOthersGoOn) {
  const Workers workers =
      start_ranks(first_.address() + "," + second_.address() + "," + third_.address(),
                  {"--elements", "200000", "--iterations", "10000000"});
  second_.wait_until_counted("block_completed", 1000);
  second_.kill();
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->wait_for_end(), 1);
    EXPECT_THAT(worker->errors(),
                AllOf(HasSubstr("aggregator_gone"), HasSubstr(second_.address())));
  }
  expect_exact(first_.address() + "," + third_.address(), 2);
}

// A stopped process stands for a machine that has died: it answers nothing, and refuses nothing.
TEST_F(ShardedJob, SilentAggregatorIsNamedAndTheOthersGoOn) {
  const Workers workers = start_ranks(
      first_.address() + "," + second_.address() + "," + third_.address(),
      {"--elements", "200000", "--iterations", "10000000", "--server-silent-ms", "500"});
  second_.wait_until_counted("block_completed", 1000);
  second_.signal(SIGSTOP);
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->wait_for_end(), 1);
    EXPECT_THAT(worker->errors(),
                AllOf(HasSubstr("aggregator_gone"), HasSubstr(second_.address())));
  }
  EXPECT_EQ(result_of(0)["config"]["server-silent-ms"], 500);
  expect_exact(first_.address() + "," + third_.address(), 2);
  EXPECT_TRUE(result_of(0)["config"]["server-silent-ms"].is_null());
  second_.signal(SIGCONT);
}

/// The directory takes the first server's port.
class DirectoryJob : public ShardedJob {
 protected:
  DirectoryJob() {
    first_.stop();
    directory_ = std::make_unique<Process>(std::vector<std::string>{
        "serve", "--listen", own_, "--job", kJob, "--workers", "10.255.0.1,10.255.0.2,10.255.0.3",
        "--colocated", "off", "--servers",
        own_ + "," + second_.address() + "," + third_.address()});
    EXPECT_TRUE(directory_->wait_for_line("ready")) << directory_->errors();
    expect_exact(own_, 3);
  }
  /// Expects that the directory logs a plan without the third server.
  void expect_left_out() {
    EXPECT_TRUE(directory_->wait_for_error("warn event=plan_changed")) << directory_->errors();
    directory_->signal(SIGTERM);
    EXPECT_EQ(directory_->wait_for_end(), 0);
    EXPECT_THAT(directory_->errors(), HasSubstr("left_out=\"" + third_.address() + " (no answer"));
  }

  const std::string own_ = first_.address();
  std::unique_ptr<Process> directory_;
};

TEST_F(DirectoryJob, WindowsOfItsListFollowTheWeightsUnlessTheyAreGiven) {
  const auto windows_of = [](const std::string& servers, std::vector<std::string> more) {
    more.insert(more.end(), {"--elements", "1000", "--iterations", "1"});
    for (const auto& worker : start_ranks(servers, more)) {
      EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
    }
    return result_of(0)["windows"];
  };
  const auto listed = windows_of(second_.address() + "," + third_.address() + "," + own_, {});
  EXPECT_GT(listed[0], 256);
  EXPECT_EQ(windows_of(own_, {}), listed);
  EXPECT_EQ(windows_of(own_, {"--window", "200"}), (nlohmann::json{200, 200, 200}));
}

// The directory notices within a second. Until then it hands out a list that cannot be joined, so
// the ranks ask it again.
TEST_F(DirectoryJob, RanksJoinWithoutAnAggregatorThatHasJustDied) {
  third_.kill();
  expect_exact(own_, 2);
  expect_left_out();
}

TEST_F(DirectoryJob, RanksJoinWithoutAnAggregatorThatHasJustFallenSilent) {
  third_.signal(SIGSTOP);
  expect_exact(own_, 2);
  expect_left_out();
  third_.signal(SIGCONT);
}

TEST_F(ShardedJob, BadListsAreRefusedInOneLine) {
  struct Case {
    std::string list;
    const char* text;
  };
  for (const Case& given :
       {Case{first_.address() + "," + first_.address(), "is given twice"},
        Case{first_.address() + "=0", "every aggregator has weight 0"},
        Case{first_.address() + "=x", "is not allowed; allowed: a whole number from 0 to 65535"},
        Case{first_.address() + ",", "is not HOST:PORT"}}) {
    Process worker({"worker", "--server", given.list, "--rank", "0", "--world", "3"});
    EXPECT_EQ(worker.wait_for_end(), 2);
    EXPECT_THAT(worker.errors(), HasSubstr(given.text));
    EXPECT_EQ(lines_of(worker.errors()).size(), 1U) << worker.errors();
  }
}

}  // namespace
}  // namespace tributary::system_test
