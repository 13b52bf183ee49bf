// SPDX-License-Identifier: Apache-2.0
// Method: communicators of two and three ranks on several live aggregators in this process, over
// loopback sockets. First exact sums by every weight, then refusals, then an aggregator that ends.
// Every wait has a deadline; nothing sleeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "host/communicator.h"
#include "tests/host/live_server.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Server;

using Joined = Result<std::unique_ptr<Communicator>>;

constexpr uint32_t kGradients = 64;

Aggregator at(const Endpoint& address, uint32_t weight = 1) {
  return {.name = address.to_string(), .weight = weight, .address = address};
}

class Sharded : public ::testing::Test {
 protected:
  /// Starts aggregators with a job for this many ranks.
  void start(uint32_t count, uint32_t world) {
    world_ = world;
    for (uint32_t i = 0; i < count; i++) servers_.push_back(std::make_unique<Server>(world));
  }
  [[nodiscard]] std::vector<Aggregator> list(const std::vector<uint32_t>& weights) const {
    std::vector<Aggregator> aggregators;
    for (size_t i = 0; i < servers_.size(); i++) {
      aggregators.push_back(at(servers_[i]->local(), weights[i]));
    }
    return aggregators;
  }
  /// Joins all ranks at once, each with its own list.
  std::vector<Joined> join(const std::vector<std::vector<Aggregator>>& lists,
                           Duration deadline = seconds(20)) const {
    std::vector<Joined> joined(world_);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world_; rank++) {
      threads.emplace_back([&, rank] {
        CommunicatorConfig config;
        config.aggregators = lists[rank];
        config.rank = rank;
        config.world = world_;
        config.gradients = kGradients;
        config.deadline = deadline;
        joined[rank] = Communicator::join(config);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return joined;
  }
  std::vector<Joined> join(const std::vector<Aggregator>& list) const {
    return join(std::vector(world_, list));
  }

  uint32_t world_ = 1;
  std::vector<std::unique_ptr<Server>> servers_;
};

/// Returns element i of a rank's tensor.
int32_t element(uint32_t rank, uint64_t i) {
  return static_cast<int32_t>((rank + 1) * 1'000'003 * (i + 7));
}

/// Sums a tensor over all ranks, and expects every element to be exact.
void expect_exact(std::vector<Joined>& ranks, uint64_t elements) {
  std::vector<std::vector<int32_t>> tensors(ranks.size());
  std::vector<Ticket> tickets;
  for (uint32_t rank = 0; rank < ranks.size(); rank++) {
    for (uint64_t i = 0; i < elements; i++) tensors[rank].push_back(element(rank, i));
    tickets.push_back((*ranks[rank])->all_reduce_async(std::span(tensors[rank])));
  }
  for (uint32_t rank = 0; rank < ranks.size(); rank++) {
    const Outcome outcome = (*ranks[rank])->wait(tickets[rank]);
    ASSERT_EQ(outcome.status, Status::kOk) << outcome.text;
  }
  for (uint64_t i = 0; i < elements; i++) {
    uint32_t sum = 0;
    for (uint32_t rank = 0; rank < ranks.size(); rank++) {
      sum += static_cast<uint32_t>(element(rank, i));
    }
    for (const auto& tensor : tensors) ASSERT_EQ(tensor[i], static_cast<int32_t>(sum)) << i;
  }
}

TEST_F(Sharded, SumsAreExactForAnyWeights) {
  start(3, 2);
  for (const auto& weights : std::vector<std::vector<uint32_t>>{{1, 1, 1}, {5, 1, 2}, {0, 3, 1}}) {
    auto ranks = join(list(weights));
    for (const Joined& rank : ranks) ASSERT_TRUE(rank.has_value()) << rank.error().text;
    EXPECT_EQ((*ranks[0])->threads(), weights[0] == 0 ? 2U : 3U);
    for (const uint64_t elements : {1U, 63U, 64U, 4'097U, 100'000U, 1'200'000U}) {
      ASSERT_NO_FATAL_FAILURE(expect_exact(ranks, elements));
    }
  }
}

TEST_F(Sharded, RandomTensorsInFlightTogetherAreExact) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  start(4, 3);
  auto ranks = join(list({1, 2, 3, 4}));
  for (const Joined& rank : ranks) ASSERT_TRUE(rank.has_value()) << rank.error().text;
  for (uint32_t step = 0; step < 20; step++) {
    ASSERT_NO_FATAL_FAILURE(expect_exact(ranks, 1 + prng.below(1 + prng.below(60'000))));
  }
}

TEST_F(Sharded, DifferentListsAreRefusedByRank) {
  start(2, 2);
  const auto list = this->list({1, 1});
  const auto ranks = join({list, {list[1], list[0]}});
  for (const Joined& rank : ranks) {
    ASSERT_FALSE(rank.has_value());
    EXPECT_THAT(rank.error().text,
                AllOf(HasSubstr("rank 1 of job 1 has another list of aggregators"),
                      HasSubstr("give every rank the same list")));
  }
  // Each rank names its own list, so that their errors show the difference.
  EXPECT_THAT(ranks[0].error().text, HasSubstr("rank 0 has " + list_text(list)));
  EXPECT_THAT(ranks[1].error().text, HasSubstr("rank 1 has " + list[1].name + "," + list[0].name));
}

TEST_F(Sharded, DisjointListsAreNamedAtTheDeadline) {
  start(2, 2);
  const auto list = this->list({1, 1});
  const auto ranks = join({{list[0]}, {list[1]}}, milliseconds(300));
  for (uint32_t rank = 0; rank < 2; rank++) {
    ASSERT_FALSE(ranks[rank].has_value());
    EXPECT_THAT(ranks[rank].error().text,
                HasSubstr("its aggregator may differ from this rank's, " + list[rank].name));
  }
}

TEST_F(Sharded, AggregatorsOfDifferentJobsAreRefused) {
  start(1, 2);
  trio_ml::JobConfig narrow = Server::job_of(2);
  narrow.block_cnt_max = 16;
  trio_ml::JobConfig mitigating = Server::job_of(2);
  mitigating.mitigation = true;
  for (const auto& [job, text] : {std::pair{narrow, "a window of 1024 blocks at aggregator "},
                                  {mitigating, "has straggler mitigation at aggregator "}}) {
    Server other(job);
    const std::vector<Aggregator> list{at(servers_[0]->local()), at(other.local())};
    for (const Joined& rank : join(list)) {
      ASSERT_FALSE(rank.has_value());
      EXPECT_THAT(rank.error().text,
                  AllOf(HasSubstr(text), HasSubstr(list[0].name), HasSubstr(list[1].name)));
    }
  }
}

TEST_F(Sharded, OneAggregatorAndTwoAreDifferentLists) {
  start(2, 2);
  const auto list = this->list({1, 1});
  for (const Joined& rank : join({list, {list[0]}})) {
    ASSERT_FALSE(rank.has_value());
    EXPECT_THAT(rank.error().text, HasSubstr("another list of aggregators"));
  }
}

TEST_F(Sharded, RanksJoinAfterARefusal) {
  start(2, 2);
  const auto list = this->list({1, 1});
  EXPECT_FALSE(join({list, {list[1], list[0]}})[0].has_value());
  auto ranks = join(list);
  for (const Joined& rank : ranks) ASSERT_TRUE(rank.has_value()) << rank.error().text;
  expect_exact(ranks, 10'000);
}

TEST_F(Sharded, MissingAggregatorIsNamedBeforeTheStart) {
  start(1, 2);
  auto list = this->list({1});
  list.push_back(at(Endpoint::ipv4(0x7f000001, 9)));  // Nothing listens at the discard port.
  for (const Joined& rank : join({list, list})) {
    ASSERT_FALSE(rank.has_value());
    EXPECT_THAT(rank.error().text, HasSubstr("127.0.0.1:9"));
  }
}

TEST_F(Sharded, OneAddressTwiceIsRefused) {
  start(1, 1);
  auto list = this->list({1});
  list.push_back(list[0]);
  list[1].name = "localhost:1";
  const auto ranks = join({list});
  ASSERT_FALSE(ranks[0].has_value());
  EXPECT_THAT(ranks[0].error().text, HasSubstr("have the same address"));
}

TEST_F(Sharded, AggregatorThatEndsIsNamedToEveryRank) {
  start(3, 3);
  auto ranks = join(list({1, 1, 1}));
  for (const Joined& rank : ranks) ASSERT_TRUE(rank.has_value()) << rank.error().text;
  ASSERT_NO_FATAL_FAILURE(expect_exact(ranks, 10'000));
  const std::string lost = servers_[1]->local().to_string();
  servers_[1].reset();
  std::vector<std::thread> threads;
  for (Joined& rank : ranks) {
    threads.emplace_back([&rank, &lost] {
      std::vector<int32_t> tensor(50'000);
      const Outcome outcome = (*rank)->all_reduce(std::span(tensor));
      EXPECT_EQ(outcome.status, Status::kAggregatorGone) << outcome.text;
      EXPECT_THAT(outcome.text, HasSubstr(lost));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Ranks 0 and 1 lose the aggregator and leave. Rank 2 comes later, and a living aggregator tells it
// the reason.
TEST_F(Sharded, LateRankLearnsWhichAggregatorTheOthersLost) {
  start(2, 3);
  auto ranks = join(list({1, 1}));
  for (const Joined& rank : ranks) ASSERT_TRUE(rank.has_value()) << rank.error().text;
  const std::string lost = servers_[1]->local().to_string();
  servers_[1].reset();
  std::vector<std::vector<int32_t>> tensors(3, std::vector<int32_t>(50'000));
  for (uint32_t rank = 0; rank < 2; rank++) {
    (*ranks[rank])->all_reduce_async(std::span(tensors[rank]));
  }
  for (uint32_t rank = 0; rank < 2; rank++) ranks[rank]->reset();  // Waits for the end.
  const Outcome outcome = (*ranks[2])->all_reduce(std::span(tensors[2]));
  EXPECT_EQ(outcome.status, Status::kAggregatorGone) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr(lost));
}

}  // namespace
}  // namespace tributary::host
