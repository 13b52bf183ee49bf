// SPDX-License-Identifier: Apache-2.0
// Method: the protocol alone for packets held back; then communicators against a live engine in
// this process. Ranks that submit in different orders show that each priority has a stream of its
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "host/communicator.h"
#include "host/send_gate.h"
#include "tests/host/live_server.h"
#include "tests/host/trio_ml/protocol_bed.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::Server;

constexpr uint32_t kWorld = 2;
constexpr uint32_t kPriorities = 2;

using Ranks = std::vector<std::unique_ptr<Communicator>>;

/// Runs `work(rank)` for each rank in its own thread.
void for_each_rank(const std::function<void(uint32_t)>& work) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; rank++) threads.emplace_back([&, rank] { work(rank); });
  for (std::thread& thread : threads) thread.join();
}

Ranks join_all(const Server& server, uint32_t priorities) {
  Ranks ranks(kWorld);
  for_each_rank([&](uint32_t rank) {
    CommunicatorConfig config;
    config.server = server.local();
    config.rank = rank;
    config.world = kWorld;
    config.gradients = 64;
    config.priorities = priorities;
    config.deadline = seconds(20);  // Far longer than a busy machine needs.
    auto joined = Communicator::join(config);
    ASSERT_TRUE(joined.has_value()) << joined.error().text;
    ranks[rank] = *std::move(joined);
  });
  return ranks;
}

trio_ml::JobConfig job_with(uint32_t channels) {
  trio_ml::JobConfig job = Server::job_of(kWorld);
  job.channels = channels;
  return job;
}

TEST(Priority, HeldProtocolRepairsButStartsNothing) {
  testing::ProtocolBed bed;
  bed.join();
  testing::IntTransfer first({1, 2, 3});
  bed.protocol.submit(first.transfer, bed.now);
  EXPECT_TRUE(bed.protocol.has_new_packets());
  EXPECT_EQ(bed.take_sent().size(), 1U);
  EXPECT_FALSE(bed.protocol.has_new_packets());
  testing::IntTransfer second({4, 5, 6});
  bed.protocol.submit(second.transfer, bed.now);
  bed.protocol.hold(true);
  EXPECT_TRUE(bed.protocol.has_new_packets());
  EXPECT_TRUE(bed.take_sent().empty());
  bed.pass(milliseconds(500));  // The first is overdue.
  for (const auto& sent : bed.take_sent()) {
    EXPECT_EQ(sent.message.extension.type, wire::MessageType::kProbe);
    EXPECT_EQ(sent.message.header.block_id, 0U);
  }
  bed.protocol.hold(false);
  EXPECT_FALSE(bed.take_sent().empty());
}

// Position 0 has the first tensor's exponent, 1 its gradients, 2 the second tensor's exponent.
TEST(Priority, HeldProtocolSendsGradientsThatHaveGotTheirExponent) {
  testing::ProtocolBed bed;
  bed.join();
  std::vector<float> values{1.5F};
  Transfer first;
  first.floats = values;
  first.format = wire::ElementFormat::kBlockExponent;
  Transfer second = first;
  bed.protocol.submit(first, bed.now);
  EXPECT_EQ(bed.take_sent().size(), 1U);
  bed.protocol.hold(true);
  bed.protocol.submit(second, bed.now);
  EXPECT_TRUE(bed.take_sent().empty());

  wire::Message agreed = bed.result(0, 0, first);
  agreed.extension.exponent = 1;
  bed.receive(agreed);
  const auto sent = bed.take_sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].block(), 1U);
  EXPECT_TRUE(bed.protocol.has_new_packets());
}

// One rank waits for the urgent tensor before it submits the other one. In a single stream, both
// would wait for each other.
TEST(Priority, UrgentTensorOvertakes) {
  const Server server(job_with(kPriorities));
  Ranks ranks = join_all(server, kPriorities);
  for_each_rank([&](uint32_t rank) {
    Communicator& own = *ranks[rank];
    std::vector<int32_t> large(100'000, 1);
    std::vector<float> urgent(10, 0.5F);
    Ticket patient = own.all_reduce_async(std::span(urgent).first(0));
    if (rank == 0) patient = own.all_reduce_async(large, ReduceOp::kSum, false, /*priority=*/1);
    const Ticket first = own.all_reduce_async(urgent, {.priority = 0});
    EXPECT_EQ(own.wait(first).status, Status::kOk);
    EXPECT_THAT(urgent, Each(1.0F));
    if (rank == 1) patient = own.all_reduce_async(large, ReduceOp::kSum, false, /*priority=*/9);
    EXPECT_EQ(own.wait(patient).status, Status::kOk);
    EXPECT_THAT(large, Each(2));
  });
}

TEST(Priority, FewerChannelsMakeFewerPriorities) {
  const Server server(job_with(1));
  Ranks ranks = join_all(server, kPriorities);
  for_each_rank([&](uint32_t rank) {
    EXPECT_EQ(ranks[rank]->threads(), 1U);
    std::vector<int32_t> tensor(1000, 1);
    const Ticket ticket = ranks[rank]->all_reduce_async(tensor, ReduceOp::kSum, false, 1);
    EXPECT_EQ(ranks[rank]->wait(ticket).status, Status::kOk);
    EXPECT_THAT(tensor, Each(2));
  });
}

TEST(Priority, RefusesMoreThanThereAre) {
  CommunicatorConfig config;
  config.server = Endpoint::ipv4(0x7f000001, 9);
  for (const uint32_t bad : {0U, kPrioritiesMax + 1}) {
    config.priorities = bad;
    const auto joined = Communicator::join(config);
    ASSERT_FALSE(joined.has_value());
    EXPECT_THAT(joined.error().text, HasSubstr("allowed: 1 to 4"));
  }
  config.priorities = 4;
  config.threads = 8;
  EXPECT_THAT(Communicator::join(config).error().text, HasSubstr("a product of at most 16"));
}

TEST(Priority, RandomTensorsMatchPlainSums) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  const Server server(job_with(3));
  Ranks ranks = join_all(server, 3);
  for_each_rank([&](uint32_t rank) {
    testing::Prng prng(seed);  // The same on all ranks.
    Communicator& own = *ranks[rank];
    for (uint32_t step = 0; step < 20; step++) {
      std::vector<std::vector<int32_t>> tensors;
      std::vector<uint32_t> priorities;
      for (uint32_t i = 0; i < 6; i++) {
        tensors.emplace_back(1 + prng.below(20'000), static_cast<int32_t>(rank + i));
        priorities.push_back(prng.below(3));
      }
      std::vector<Ticket> tickets;
      for (uint32_t i = 0; i < tensors.size(); i++) {
        tickets.push_back(own.all_reduce_async(tensors[i], ReduceOp::kSum, false, priorities[i]));
      }
      for (uint32_t i = 0; i < tensors.size(); i++) {
        ASSERT_EQ(own.wait(tickets[i]).status, Status::kOk);
        ASSERT_THAT(tensors[i], Each(static_cast<int32_t>(2 * i + 1))) << "step " << step;
      }
    }
  });
}

}  // namespace
}  // namespace tributary::host
