// SPDX-License-Identifier: Apache-2.0
// Method:  the choice of a port for each use, with and without an aggregator on this machine; then
//          communicators of two ranks over shared memory, and over both ways at once. Every wait
//          has a deadline; nothing sleeps.
#include "host/worker_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "host/communicator.h"
#include "host/trio_ml/worker_protocol.h"
#include "tests/host/live_server.h"

namespace tributary::host {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Server;

using Joined = Result<std::unique_ptr<Communicator>>;

std::unique_ptr<Server> local_server(uint32_t sources, uint16_t port = 0) {
  return std::make_unique<Server>(Server::job_of(sources), port,
                                  io::UdpPortConfig{}.receive_buffer_bytes, /*local=*/true);
}

CommunicatorConfig rank_of(const Endpoint& server, uint32_t rank, LocalUse local) {
  CommunicatorConfig config;
  config.server = server;
  config.rank = rank;
  config.world = 2;
  config.gradients = 0;
  config.window = 0;
  config.deadline = seconds(20);
  config.local = local;
  return config;
}

/// Joins two ranks at once, each with its own use of shared memory.
std::vector<Joined> join(const Endpoint& server, LocalUse first, LocalUse second,
                         const auth::JobAuth& auth = {}) {
  std::vector<Joined> joined(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; rank++) {
    threads.emplace_back([&, rank] {
      CommunicatorConfig config = rank_of(server, rank, rank == 0 ? first : second);
      config.auth = auth;
      joined[rank] = Communicator::join(config);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Joined& each : joined) EXPECT_TRUE(each.has_value()) << each.error().text;
  return joined;
}

/// Checks sums of tensors that differ from rank to rank. @return the outcomes' wrong elements.
uint64_t wrong_elements(std::vector<Joined>& joined, uint32_t elements) {
  std::vector<std::vector<int32_t>> tensors(2, std::vector<int32_t>(elements));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; rank++) {
    threads.emplace_back([&, rank] {
      for (uint32_t i = 0; i < elements; i++) {
        tensors[rank][i] = static_cast<int32_t>(i * (rank + 3));
      }
      const Outcome outcome = (*joined[rank])->all_reduce(std::span(tensors[rank]));
      EXPECT_EQ(outcome.status, Status::kOk) << outcome.text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t wrong = 0;
  for (const auto& tensor : tensors) {
    for (uint32_t i = 0; i < elements; i++) wrong += tensor[i] != static_cast<int32_t>(i * 7);
  }
  return wrong;
}

TEST(WorkerPortTest, ReadsTheUse) {
  EXPECT_EQ(parse_local_use("auto"), LocalUse::kAuto);
  EXPECT_EQ(parse_local_use("on"), LocalUse::kOn);
  EXPECT_EQ(parse_local_use("off"), LocalUse::kOff);
  EXPECT_EQ(parse_local_use("yes"), std::nullopt);
  EXPECT_EQ(parse_local_use(""), std::nullopt);
}

TEST(WorkerPortTest, ChoosesSharedMemoryIfItCan) {
  const auto server = local_server(1);
  const Server udp_only(1);
  // Only a UDP socket has a port number of its own.
  const auto is_udp = [](const Endpoint& at, LocalUse use) {
    const auto port = open_worker_port(at, use);
    EXPECT_TRUE(port.has_value()) << port.error().text;
    return (*port)->local().is_set();
  };
  EXPECT_FALSE(is_udp(server->local(), LocalUse::kAuto));
  EXPECT_FALSE(is_udp(server->local(), LocalUse::kOn));
  EXPECT_TRUE(is_udp(server->local(), LocalUse::kOff));
  EXPECT_TRUE(is_udp(udp_only.local(), LocalUse::kAuto));
}

TEST(WorkerPortTest, ForcedSharedMemoryIsRefusedByName) {
  const Server udp_only(1);
  const auto none = open_worker_port(udp_only.local(), LocalUse::kOn);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().text, HasSubstr("local=on: no aggregator for 127.0.0.1:"));
  const auto other = open_worker_port(*Endpoint::parse("192.0.2.1:12000"), LocalUse::kOn);
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().text, HasSubstr("not an address of this machine"));
}

TEST(WorkerPortTest, SumsOverSharedMemory) {
  const auto server = local_server(2);
  auto joined = join(server->local(), LocalUse::kOn, LocalUse::kAuto);
  EXPECT_EQ(server->local_server()->stats().connections, 2U);
  EXPECT_EQ(wrong_elements(joined, 300'000), 0U);
  EXPECT_GT(server->local_server()->stats().packets.rx_packets, 0U);
}

TEST(WorkerPortTest, SumsOfAMixedJobAreExact) {
  const auto server = local_server(2);
  auto joined = join(server->local(), LocalUse::kOn, LocalUse::kOff);
  EXPECT_EQ(server->local_server()->stats().connections, 1U);
  EXPECT_EQ((*joined[0])->gradients(), (*joined[1])->gradients());
  for (const uint32_t elements : {1U, 5000U, 300'000U}) {
    EXPECT_EQ(wrong_elements(joined, elements), 0U);
  }
}

TEST(WorkerPortTest, JobWithASecretTakesNobodyWithoutItOverSharedMemory) {
  const auth::JobAuth secret{auth::Mode::kHeader, auth::key_of_seed(1)};
  trio_ml::JobConfig job = Server::job_of(2);
  job.auth = secret;
  const Server server(job, 0, io::UdpPortConfig{}.receive_buffer_bytes, /*local=*/true);
  for (const auth::JobAuth& other :
       {auth::JobAuth{}, auth::JobAuth{auth::Mode::kHeader, auth::key_of_seed(2)}}) {
    CommunicatorConfig stranger = rank_of(server.local(), 0, LocalUse::kOn);
    stranger.auth = other;
    stranger.deadline = milliseconds(300);
    EXPECT_FALSE(Communicator::join(stranger).has_value());
  }
  auto joined = join(server.local(), LocalUse::kOn, LocalUse::kOn, secret);
  EXPECT_EQ(wrong_elements(joined, 1000), 0U);
}

TEST(WorkerPortTest, WorkerLearnsOfTheServersEndAndJoinsTheNextOne) {
  auto server = local_server(2);
  const Endpoint address = server->local();
  auto joined = join(address, LocalUse::kOn, LocalUse::kOn);
  EXPECT_EQ(wrong_elements(joined, 1000), 0U);
  server.reset();
  std::vector<int32_t> tensor(1000);
  const Outcome outcome = (*joined[0])->all_reduce(std::span(tensor));
  EXPECT_EQ(outcome.status, Status::kAggregatorGone);
  EXPECT_THAT(outcome.text, AnyOf(HasSubstr("has ended"), HasSubstr("was stopped")));
  joined.clear();
  server = local_server(2, address.port);
  auto after = join(address, LocalUse::kOn, LocalUse::kOn);
  EXPECT_EQ(wrong_elements(after, 1000), 0U);
}

TEST(WorkerPortTest, ClosedConnectionEndsTheProtocol) {
  CommunicatorConfig config;
  config.server = *Endpoint::parse("127.0.0.1:12000");
  WorkerProtocol protocol(config, /*nonce=*/1, monotonic_now());
  protocol.on_closed();
  EXPECT_EQ(protocol.phase(), TensorProtocol::Phase::kEnded);
  EXPECT_EQ(protocol.status(), Status::kAggregatorGone);
  EXPECT_EQ(protocol.status_text(),
            "aggregator 127.0.0.1:12000 has ended (its shared memory is closed)");
  protocol.on_closed();
}

}  // namespace
}  // namespace tributary::host
