// SPDX-License-Identifier: Apache-2.0
// Method: real servers and workers of a sharded job: a list of aggregators, one that is killed while
// tensors are on their way or hangs, and a directory that plans without it. Every wait has a deadline.
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

/// Starts a worker of each rank.
Workers start_ranks(const std::string& aggregators, const std::vector<std::string>& more) {
  Workers workers;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    std::vector<std::string> words{
        "worker", "--server",           aggregators, "--world",        "3",
        "--rank", std::to_string(rank), "--json",    result_path(rank)};
    words.insert(words.end(), more.begin(), more.end());
    workers.push_back(std::make_unique<Process>(words));
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
  expect_exact(first_.address() + "," + third_.address(), 2);
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
  /// Expects that the directory has left out the third server.
  void expect_left_out() {
    directory_->signal(SIGTERM);
    EXPECT_EQ(directory_->wait_for_end(), 0);
    EXPECT_THAT(directory_->errors(), HasSubstr(third_.address() + " is left out"));
  }

  const std::string own_ = first_.address();
  std::unique_ptr<Process> directory_;
};

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
        Case{first_.address() + "=x", "is not allowed; allowed is a whole number from 0 to 65535"},
        Case{first_.address() + ",", "is not HOST:PORT"}}) {
    Process worker({"worker", "--server", given.list, "--rank", "0", "--world", "3"});
    EXPECT_EQ(worker.wait_for_end(), 2);
    EXPECT_THAT(worker.errors(), HasSubstr(given.text));
    EXPECT_EQ(lines_of(worker.errors()).size(), 1U) << worker.errors();
  }
}

}  // namespace
}  // namespace tributary::system_test
