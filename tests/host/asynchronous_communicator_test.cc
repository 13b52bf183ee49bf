// SPDX-License-Identifier: Apache-2.0
// Method: the client library of an asynchronous job over loopback sockets that lose packets. Each
// rank pushes at its own speed; in the end every push is in the parameters once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "host/communicator.h"
#include "io/faults/impaired_port.h"
#include "io/udp/udp_port.h"
#include "tests/host/live_server.h"

namespace tributary::host {
namespace {

using ::testing::Each;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using testing::Server;

constexpr uint32_t kParameters = 10'000;

trio_ml::JobConfig asynchronous_job(uint32_t sources) {
  trio_ml::JobConfig job = Server::job_of(sources);
  job.asynchronous = true;
  job.parameters = kParameters;
  return job;
}

Result<std::unique_ptr<engine::Port>> lossy_port(uint32_t channel, const Endpoint& server) {
  io::UdpPortConfig config;
  config.peer = server;
  auto socket = io::UdpPort::open(config);
  if (!socket) return tl::unexpected(socket.error());
  auto port = io::ImpairedPort::make(
      *std::move(socket), {.rx = {.loss = 0.02}, .tx = {.loss = 0.02}, .seed = channel + 1});
  if (!port) return tl::unexpected(port.error());
  return *std::move(port);
}

Result<std::unique_ptr<Communicator>> join(const Endpoint& server, uint32_t rank, uint32_t world,
                                           bool asynchronous) {
  CommunicatorConfig config;
  config.server = server;
  config.rank = rank;
  config.world = world;
  config.asynchronous = asynchronous;
  config.deadline = seconds(20);
  auto port = lossy_port(rank, server);
  if (!port) return tl::unexpected(port.error());
  return Communicator::join(config, *std::move(port));
}

TEST(AsynchronousCommunicator, EveryPushIsInTheParametersOnce) {
  constexpr uint32_t kWorld = 2;
  constexpr AllReduceOptions kScale{.scale = 1024.0F};
  Server server(asynchronous_job(kWorld));
  std::atomic<uint32_t> pushing = kWorld;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    threads.emplace_back([&, rank] {
      auto joined = join(server.local(), rank, kWorld, /*asynchronous=*/true);
      ASSERT_TRUE(joined.has_value()) << joined.error().text;
      Communicator& communicator = **joined;
      std::vector<float> tensor(kParameters, rank == 0 ? 100.0F : 0.0F);
      Outcome outcome = communicator.all_reduce(tensor, kScale);
      ASSERT_EQ(outcome.status, Status::kOk) << outcome.text;
      EXPECT_GE(tensor[0], 100.0F);
      // Rank 0 pushes 20 times 1, rank 1 five times 0.5.
      for (uint32_t i = 0; i < (rank == 0 ? 20 : 5); i++) {
        std::fill(tensor.begin(), tensor.end(), rank == 0 ? 1.0F : 0.5F);
        outcome = communicator.all_reduce(tensor, kScale);
        ASSERT_EQ(outcome.status, Status::kOk) << outcome.text;
      }
      pushing--;
      while (pushing > 0) std::this_thread::yield();
      std::fill(tensor.begin(), tensor.end(), 0.0F);
      outcome = communicator.all_reduce(tensor, kScale);
      ASSERT_EQ(outcome.status, Status::kOk) << outcome.text;
      EXPECT_THAT(tensor, Each(FloatEq(122.5F)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AsynchronousCommunicator, OtherTrainingIsRefusedByName) {
  Server server(asynchronous_job(1));
  const auto joined = join(server.local(), 0, 1, /*asynchronous=*/false);
  ASSERT_FALSE(joined.has_value());
  EXPECT_THAT(joined.error().text, HasSubstr("is asynchronous"));
}

TEST(AsynchronousCommunicator, BlockExponentsAreRefusedByName) {
  Server server(asynchronous_job(1));
  auto joined = join(server.local(), 0, 1, /*asynchronous=*/true);
  ASSERT_TRUE(joined.has_value()) << joined.error().text;
  std::vector<float> tensor(kParameters, 1.0F);
  const Outcome outcome = (*joined)->all_reduce(tensor, {.format = FloatFormat::kBlockExponent});
  EXPECT_EQ(outcome.status, Status::kMismatch);
  EXPECT_THAT(outcome.text, HasSubstr("with a fixed scale"));
}

// Three aggregators with weights 1, 2 and 1. The packets of all of them get lost now and then.
TEST(AsynchronousCommunicator, SeveralAggregatorsKeepTheParameters) {
  constexpr uint32_t kWorld = 2;
  constexpr uint32_t kPushes = 10;
  std::vector<std::unique_ptr<Server>> servers;
  CommunicatorConfig config;
  for (const uint32_t weight : {1U, 2U, 1U}) {
    servers.push_back(std::make_unique<Server>(asynchronous_job(kWorld)));
    const Endpoint address = servers.back()->local();
    config.aggregators.push_back(
        {.name = address.to_string(), .weight = weight, .address = address});
  }
  config.world = kWorld;
  config.asynchronous = true;
  config.deadline = seconds(20);
  std::atomic<uint32_t> pushing = kWorld;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    threads.emplace_back([&, rank, mine = config]() mutable {
      mine.rank = rank;
      auto joined = Communicator::join(mine, lossy_port);
      ASSERT_TRUE(joined.has_value()) << joined.error().text;
      Communicator& communicator = **joined;
      std::vector<int32_t> tensor(kParameters);
      if (rank == 0) std::iota(tensor.begin(), tensor.end(), 0);
      for (uint32_t i = 0; i <= kPushes; i++) {
        const Outcome outcome = communicator.all_reduce(std::span(tensor));
        ASSERT_EQ(outcome.status, Status::kOk) << outcome.text;
        std::fill(tensor.begin(), tensor.end(), i == kPushes ? 0 : 1);
      }
      pushing--;
      while (pushing > 0) std::this_thread::yield();
      const Outcome outcome = communicator.all_reduce(std::span(tensor));
      ASSERT_EQ(outcome.status, Status::kOk) << outcome.text;
      for (uint32_t i = 0; i < kParameters; i++) {
        ASSERT_EQ(tensor[i], static_cast<int32_t>(i + kWorld * kPushes)) << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tributary::host
