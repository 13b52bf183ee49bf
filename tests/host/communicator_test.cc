// SPDX-License-Identifier: Apache-2.0
// Method: communicators in separate threads against a live engine in this process, over real
// loopback sockets, both good and impaired. Every wait has a deadline; nothing sleeps and no time
// is asserted. tests/lab/faults tests exact sums under every fault.
#include "host/communicator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/faults/impaired_port.h"
#include "io/udp/udp_port.h"
#include "tests/host/live_server.h"

namespace tributary::host {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::Server;

/// Deadline of tests that wait for it to expire; far longer than a busy machine needs to answer.
constexpr Duration kShort = milliseconds(1500);

CommunicatorConfig config_for(const Endpoint& server, uint32_t rank, uint32_t world) {
  CommunicatorConfig config;
  config.server = server;
  config.rank = rank;
  config.world = world;
  config.deadline = seconds(20);  // Far longer than a busy machine needs.
  return config;
}

/// Joins all ranks, then runs `work(rank, communicator)` for each rank in its own thread. With a
/// loss rate, the sockets lose packets in both directions.
void for_each_rank(const Endpoint& server, uint32_t world, double loss,
                   const std::function<void(uint32_t, Communicator&)>& work) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; rank++) {
    threads.emplace_back([&, rank] {
      io::UdpPortConfig port_config;
      port_config.peer = server;
      auto socket = io::UdpPort::open(port_config);
      ASSERT_TRUE(socket.has_value());
      auto port =
          io::ImpairedPort::make(*std::move(socket), {.rx = {.loss = loss, .reorder = loss},
                                                      .tx = {.loss = loss, .duplicate = loss},
                                                      .seed = rank + 1});
      ASSERT_TRUE(port.has_value());
      auto joined = Communicator::join(config_for(server, rank, world), *std::move(port));
      ASSERT_TRUE(joined.has_value()) << joined.error().text;
      work(rank, **joined);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Two ranks that have joined; the main thread drives both.
struct Pair {
  explicit Pair(const Endpoint& server, Duration deadline = seconds(20)) {
    std::array<std::thread, 2> threads;
    for (uint32_t rank = 0; rank < 2; rank++) {
      threads[rank] = std::thread([&, rank] {
        CommunicatorConfig config = config_for(server, rank, 2);
        config.deadline = deadline;
        auto joined = Communicator::join(config);
        ASSERT_TRUE(joined.has_value()) << joined.error().text;
        ranks[rank] = *std::move(joined);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::array<std::unique_ptr<Communicator>, 2> ranks;
};

TEST(Communicator, ComputesSumsAndMeansOfIntegersAndFloats) {
  Server server(3);
  for_each_rank(server.local(), 3, 0, [](uint32_t rank, Communicator& communicator) {
    std::vector<int32_t> one{static_cast<int32_t>(rank) + 1};
    EXPECT_EQ(communicator.all_reduce(one).status, Status::kOk);
    EXPECT_THAT(one, Each(6));
    std::vector<int32_t> integers(1000, static_cast<int32_t>(rank) * 3);
    EXPECT_EQ(communicator.all_reduce(integers, ReduceOp::kMean).status, Status::kOk);
    EXPECT_THAT(integers, Each(3));
    std::vector<float> floats(777, 0.5F * static_cast<float>(rank));
    EXPECT_EQ(communicator.all_reduce(floats).status, Status::kOk);
    EXPECT_THAT(floats, Each(1.5F));
    std::vector<float> small(777, 1e-20F);
    const AllReduceOptions exponent{.op = ReduceOp::kMean, .format = FloatFormat::kBlockExponent};
    const Outcome outcome = communicator.all_reduce(small, exponent);
    EXPECT_EQ(outcome.status, Status::kOk);
    EXPECT_EQ(outcome.blocks, 3U);  // 352 elements each.
    EXPECT_THAT(small, Each(::testing::FloatEq(1e-20F)));
    std::vector<float> none;
    EXPECT_EQ(communicator.all_reduce(none).status, Status::kOk);
    EXPECT_EQ(communicator.gradients(), 352U);
    EXPECT_EQ(communicator.window(), 256U);
  });
}

TEST(Communicator, ReducesLargeTensorsOverLossyPorts) {
  Server server(4);
  for (const double loss : {0.0, 0.01, 0.05}) {
    for_each_rank(server.local(), 4, loss, [loss](uint32_t rank, Communicator& communicator) {
      std::vector<int32_t> tensor(100'000);
      for (uint32_t i = 0; i < tensor.size(); i++) tensor[i] = static_cast<int32_t>(i + rank);
      ASSERT_EQ(communicator.all_reduce(tensor).status, Status::kOk);
      for (uint32_t i = 0; i < tensor.size(); i++) {
        ASSERT_EQ(tensor[i], static_cast<int32_t>(4 * i + 6));
      }
      EXPECT_EQ(communicator.counters().degraded_blocks, 0U);
      if (loss > 0) {
        EXPECT_GT(communicator.counters().probes, 0U);
      }
    });
  }
}

TEST(Communicator, WindowsFitTheServersSocketWithoutRetransmission) {
  // Windows may fill three quarters of the buffer: 73,728 bytes hold 50 packets of 1472, from four
  // workers.
  Server server(Server::job_of(4), /*port=*/0, /*receive_buffer_bytes=*/96 << 10);
  for_each_rank(server.local(), 4, /*loss=*/0, [](uint32_t, Communicator& communicator) {
    EXPECT_EQ(communicator.window(), 12U);
    std::vector<int32_t> tensor(300'000, 1);
    ASSERT_EQ(communicator.all_reduce(tensor).status, Status::kOk);
    EXPECT_THAT(tensor, Each(4));
    EXPECT_EQ(communicator.counters().retransmitted, 0U);
  });
}

TEST(Communicator, ConcurrentOperationsMayBeAwaitedInAnyOrder) {
  Server server(2);
  for_each_rank(server.local(), 2, 0, [](uint32_t, Communicator& communicator) {
    std::vector<std::vector<int32_t>> tensors;
    for (uint32_t i = 0; i < 20; i++) tensors.emplace_back(i % 4 * 500, static_cast<int32_t>(i));
    std::vector<Ticket> tickets;
    for (auto& tensor : tensors) tickets.push_back(communicator.all_reduce_async(tensor));
    for (size_t i = tickets.size(); i-- > 0;) {
      EXPECT_EQ(communicator.wait(tickets[i]).status, Status::kOk);
      EXPECT_THAT(tensors[i], Each(2 * static_cast<int32_t>(i)));
    }
  });
}

TEST(Communicator, SeveralThreadsMayShareACommunicator) {
  Server server(1);
  auto joined = Communicator::join(config_for(server.local(), 0, 1));
  ASSERT_TRUE(joined.has_value()) << joined.error().text;
  std::vector<std::thread> threads;
  for (int32_t thread = 0; thread < 4; thread++) {
    threads.emplace_back([&, thread] {
      for (int32_t round = 0; round < 50; round++) {
        std::vector<int32_t> tensor(100, thread);
        ASSERT_EQ((*joined)->all_reduce(tensor).status, Status::kOk);
        ASSERT_THAT(tensor, Each(thread));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- Failures ---

std::string join_error(CommunicatorConfig config, Duration deadline) {
  config.deadline = deadline;
  const auto joined = Communicator::join(config);
  return joined ? "joined" : joined.error().text;
}

TEST(Communicator, RefusalsNameTheKeyAndAllowedValues) {
  CommunicatorConfig config;
  EXPECT_THAT(join_error(config, seconds(1)), HasSubstr("HOST:PORT"));
  config.server = Endpoint::ipv4(0x7f000001, 1);
  config.world = 257;
  EXPECT_EQ(join_error(config, seconds(1)), "world=257 is not allowed; allowed: 1 to 256");
  config.world = 2;
  config.rank = 2;
  EXPECT_EQ(join_error(config, seconds(1)), "rank=2 is not allowed; allowed: 0 to 1");
  config.rank = 0;
  config.gradients = 4096;
  EXPECT_EQ(join_error(config, seconds(1)),
            "gradients=4096 is not allowed; allowed: 1 to 4095, or 0 for auto");
  config.gradients = 1;
  config.window = 65'537;
  EXPECT_EQ(join_error(config, seconds(1)),
            "window=65537 is not allowed; allowed: 1 to 65536, or 0 for auto");
  config.window = 1;
  EXPECT_EQ(join_error(config, Duration()), "deadline must be longer than 0");
}

TEST(Communicator, ReportsTheServersRefusalsAtOnce) {
  Server server(2);
  EXPECT_THAT(join_error(config_for(server.local(), 0, 3), seconds(20)),
              HasSubstr("has 2 ranks, not 3"));
  CommunicatorConfig config = config_for(server.local(), 0, 2);
  config.job_id = 9;
  EXPECT_THAT(join_error(config, seconds(20)), HasSubstr("has no job 9"));
  config.job_id = 1;
  config.gradients = 2000;
  EXPECT_THAT(join_error(config, seconds(20)), HasSubstr("at most 1024 gradients a packet"));
}

TEST(Communicator, HopelessJoinsEndAtTheirDeadline) {
  Server server(2);
  EXPECT_THAT(join_error(config_for(server.local(), 0, 2), kShort),
              HasSubstr("rank 1 has not joined job 1"));
  // The first join ended with a leave, so its rank is free and does not count as present.
  EXPECT_THAT(join_error(config_for(server.local(), 1, 2), kShort),
              HasSubstr("rank 0 has not joined job 1"));
}

TEST(Communicator, JoinWithoutAServerFails) {
  uint16_t port = 0;
  { port = Server(1).local().port; }  // The server has ended, so nothing answers on this port.
  const CommunicatorConfig config = config_for(Endpoint::ipv4(0x7f000001, port), 0, 1);
  EXPECT_THAT(join_error(config, kShort), HasSubstr("does not answer"));
  // The machine refuses the packets, which ends a join long before this deadline.
  EXPECT_THAT(join_error(config, seconds(1000)),
              HasSubstr(fmt::format("nothing listens at 127.0.0.1:{}", port)));
}

TEST(Communicator, WaitersLearnWhichRankClosed) {
  Server server(2);
  Pair pair(server.local());
  pair.ranks[1]->close();
  std::vector<int32_t> tensor(10, 1);
  const Outcome outcome = pair.ranks[0]->all_reduce(tensor);
  EXPECT_EQ(outcome.status, Status::kPeerLeft);
  EXPECT_THAT(outcome.text, HasSubstr("rank 1 has left job 1"));
  EXPECT_EQ(pair.ranks[1]->all_reduce(tensor).status, Status::kClosed);
  EXPECT_EQ(pair.ranks[0]->all_reduce(tensor).status, Status::kPeerLeft);  // It has ended.
}

TEST(Communicator, ClosingEndsPendingOperations) {
  Server server(2);
  Pair pair(server.local());
  std::vector<int32_t> tensor(10, 1);
  const Ticket ticket = pair.ranks[0]->all_reduce_async(tensor);
  pair.ranks[0]->close();
  EXPECT_EQ(pair.ranks[0]->wait(ticket).status, Status::kClosed);
}

TEST(Communicator, StoppedJoinEndsAtOnce) {
  Server server(2);
  CommunicatorConfig config = config_for(server.local(), 0, 2);
  config.deadline = seconds(3600);
  std::stop_source stop;
  config.join_stop = stop.get_token();
  std::thread stopper([&stop] { stop.request_stop(); });
  EXPECT_FALSE(Communicator::join(config).has_value());
  stopper.join();
  EXPECT_FALSE(Communicator::join(config).has_value());  // Stopped before it begins.
}

// A server that ends sends a notice, so nobody waits until the deadline.
TEST(Communicator, ReportsAStoppedServerAtOnce) {
  auto server = std::make_unique<Server>(2);
  Pair pair(server->local(), seconds(3600));
  server.reset();
  std::vector<int32_t> tensor(10, 1);
  for (const auto& rank : pair.ranks) {
    const Outcome outcome = rank->all_reduce(tensor);
    EXPECT_EQ(outcome.status, Status::kAggregatorGone);
    EXPECT_THAT(outcome.text, HasSubstr("was stopped"));
  }
}

TEST(Communicator, RestartedServerServesNewProcesses) {
  auto server = std::make_unique<Server>(2);
  Pair before(server->local());
  const uint16_t port = server->local().port;
  server.reset();
  Server again(2, port);
  Pair after(again.local());
  std::vector<int32_t> tensor(10, 1);
  EXPECT_EQ(before.ranks[0]->all_reduce(tensor).status, Status::kAggregatorGone);
  std::vector<int32_t> other(10, 2);
  const Ticket ticket = after.ranks[0]->all_reduce_async(tensor);
  EXPECT_EQ(after.ranks[1]->all_reduce(other).status, Status::kOk);
  EXPECT_EQ(after.ranks[0]->wait(ticket).status, Status::kOk);
  EXPECT_THAT(tensor, Each(3));
}

TEST(Communicator, CompletesSubmissionsThatRaceWithTheEnd) {
  Server server(2);
  for (uint32_t round = 0; round < 20; round++) {
    Pair pair(server.local());
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < 2; thread++) {
      threads.emplace_back([&pair] {
        Status status = Status::kOk;
        std::vector<int32_t> tensor(1, 1);
        while (status == Status::kOk) status = pair.ranks[0]->all_reduce(tensor).status;
        EXPECT_EQ(status, Status::kClosed);
      });
    }
    pair.ranks[0]->close();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tributary::host
