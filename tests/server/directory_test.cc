// SPDX-License-Identifier: Apache-2.0
// Method: appliances in this process on loopback ports; one of them is the directory. Communicators
// know its address alone. First the plan that they follow, then an aggregator that goes and comes
// back, then refusals. Every wait has a deadline; nothing sleeps.
#include "server/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "host/communicator.h"
#include "io/udp/udp_port.h"
#include "server/appliance.h"
#include "wire/trio_ml.h"

namespace tributary::server {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorld = 2;
constexpr uint32_t kLoopback = 0x7f000001;

using Joined = Result<std::unique_ptr<host::Communicator>>;

trio_ml::JobConfig small_job(const auth::JobAuth& auth = {}) {
  return {.sources = kWorld, .block_cnt_max = 256, .block_grad_max = 512, .auth = auth};
}

std::unique_ptr<Appliance> start_server(ApplianceConfig config) {
  config.memory_mb = 64;
  auto started = Appliance::start(config);
  EXPECT_TRUE(started.has_value()) << started.error().text;
  return *std::move(started);
}

/// An aggregator that is not a directory.
std::unique_ptr<Appliance> start_aggregator(uint16_t port = 0, const auth::JobAuth& auth = {}) {
  ApplianceConfig config;
  config.listen = Endpoint::ipv4(kLoopback, port);
  config.jobs = {small_job(auth)};
  return start_server(config);
}

/// Two workers' machines without aggregators, this directory, and further aggregators.
class DirectoryTest : public ::testing::Test {
 protected:
  void start_directory(const std::vector<std::string>& further, const auth::JobAuth& auth = {}) {
    ApplianceConfig config;
    config.listen = Endpoint::ipv4(kLoopback, 0);
    config.jobs = {small_job(auth)};
    DirectoryConfig directory;
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      directory.machines.push_back({.name = "worker" + std::to_string(rank),
                                    .link_bytes_per_s = 1e9,
                                    .worker = true,
                                    .aggregator = false});
      directory.endpoints.emplace_back();
    }
    // The directory needs a fixed port, because it is in its own list.
    own_ = start_aggregator()->local();  // Free once the temporary is gone.
    config.listen = own_;
    std::vector<std::string> names = {own_.to_string()};
    names.insert(names.end(), further.begin(), further.end());
    for (const std::string& name : names) {
      directory.machines.push_back(
          {.name = name, .link_bytes_per_s = 1e9, .worker = false, .aggregator = true});
      directory.endpoints.push_back(name);
    }
    config.directory = directory;
    directory_ = start_server(config);
  }
  /// Waits for a plan with this number of aggregators, and returns the aggregators that the
  /// directory knows; fails after 20 s.
  std::vector<DirectoryAggregator> wait_for_plan(size_t aggregators) const {
    const Instant deadline = monotonic_now() + seconds(20);
    std::vector<DirectoryAggregator> known;
    do {
      const std::vector<DirectoryJob> jobs = directory_->snapshot().directory;
      known = jobs.at(0).aggregators;
      const auto in_plan =
          std::ranges::count_if(known, [](const auto& each) { return each.weight > 0; });
      if (static_cast<size_t>(in_plan) == aggregators) return known;
      std::this_thread::yield();
    } while (monotonic_now() < deadline);
    ADD_FAILURE() << "no plan with " << aggregators << " aggregators";
    return known;
  }
  /// Joins all ranks through the directory.
  std::vector<Joined> join(const auth::JobAuth& auth = {}) const {
    std::vector<Joined> joined(kWorld);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      threads.emplace_back([&, rank] {
        host::CommunicatorConfig config;
        config.server = own_;
        config.rank = rank;
        config.world = kWorld;
        config.auth = auth;
        config.gradients = 64;
        config.deadline = seconds(20);
        joined[rank] = host::Communicator::join(config);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return joined;
  }

  Endpoint own_;
  std::unique_ptr<Appliance> directory_;
};

/// Returns a forged refusal. Forging it takes only a question that was read on the way.
std::vector<std::byte> forged_refusal(std::span<const std::byte> question) {
  wire::Message message;
  EXPECT_EQ(wire::decode_message(question, static_cast<uint32_t>(question.size()), message),
            wire::DecodeStatus::kOk);
  message.extension.type = wire::MessageType::kRefusal;
  message.extension.flags = 0;  // No seal.
  message.body = {};
  message.body.reason = wire::Reason::kUnknownJob;
  std::vector<std::byte> bytes(wire::kControlMessageBytes);
  bytes.resize(wire::encode_message(message, bytes.data()));
  return bytes;
}

/// Passes datagrams on to an aggregator, and its answers back after a delay, to the latest sender.
class SlowRelay {
 public:
  /// @param forges Whether it first answers each datagram with forged_refusal().
  SlowRelay(const Endpoint& aggregator, Duration delay, bool forges = false)
      : forges_(forges), thread_([this, aggregator, delay](const std::stop_token& stop) {
          while (!stop.stop_requested()) pass(aggregator, delay);
        }) {}
  [[nodiscard]] Endpoint address() const { return near_->local(); }

 private:
  struct Answer {
    Instant due;
    std::vector<std::byte> bytes;
  };

  void pass(const Endpoint& aggregator, Duration delay) {
    std::array<engine::Packet, engine::kBurstPackets> burst;
    for (uint32_t i = 0, count = near_->queue(0).receive(burst); i < count; i++) {
      asker_ = burst[i].source;
      if (forges_) send(*near_, forged_refusal(burst[i].bytes()), asker_);
      send(*far_, burst[i].bytes(), aggregator);
    }
    for (uint32_t i = 0, count = far_->queue(0).receive(burst); i < count; i++) {
      const auto bytes = burst[i].bytes();
      answers_.push_back({monotonic_now() + delay, {bytes.begin(), bytes.end()}});
    }
    while (!answers_.empty() && answers_.front().due <= monotonic_now()) {
      send(*near_, answers_.front().bytes, asker_);
      answers_.pop_front();
    }
    far_->queue(0).wait(milliseconds(1));
  }
  static void send(io::UdpPort& port, std::span<const std::byte> bytes, const Endpoint& to) {
    const auto size = static_cast<uint32_t>(bytes.size());
    port.queue(0).transmit(std::array{engine::TxPacket{bytes.data(), size, to}});
  }

  const bool forges_;
  const std::unique_ptr<io::UdpPort> near_ =
      io::UdpPort::open({.local = Endpoint::ipv4(kLoopback, 0)}).value();
  const std::unique_ptr<io::UdpPort> far_ =
      io::UdpPort::open({.local = Endpoint::ipv4(kLoopback, 0)}).value();
  Endpoint asker_;
  std::deque<Answer> answers_;
  std::jthread thread_;
};

/// Answers every question at any loopback address, as an aggregator of the job would.
class Answerer {
 public:
  [[nodiscard]] uint16_t port() const { return port_->local().port; }

 private:
  void answer() const {
    std::array<engine::Packet, engine::kBurstPackets> burst;
    for (uint32_t i = 0, count = port_->queue(0).receive(burst); i < count; i++) {
      wire::Message message;
      EXPECT_EQ(wire::decode_message(burst[i].bytes(), burst[i].size, message),
                wire::DecodeStatus::kOk);
      message.extension.type = wire::MessageType::kCookie;
      std::array<std::byte, wire::kControlMessageBytes> bytes;
      const uint32_t size = wire::encode_message(message, bytes.data());
      port_->queue(0).transmit(std::array{engine::TxPacket{bytes.data(), size, burst[i].source}});
    }
    port_->queue(0).wait(milliseconds(1));
  }

  const std::unique_ptr<io::UdpPort> port_ =
      io::UdpPort::open({.local = Endpoint::ipv4(0, 0)}).value();
  std::jthread thread_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) answer();
  }};
};

/// Expects exact sums on this many aggregators.
void expect_sums(std::vector<Joined>& ranks, uint32_t aggregators) {
  std::vector<std::vector<int32_t>> tensors(kWorld, std::vector<int32_t>(50'000, 3));
  std::vector<host::Ticket> tickets;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    ASSERT_TRUE(ranks[rank].has_value()) << ranks[rank].error().text;
    EXPECT_EQ((*ranks[rank])->threads(), aggregators);
    tickets.push_back((*ranks[rank])->all_reduce_async(std::span(tensors[rank])));
  }
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    const host::Outcome outcome = (*ranks[rank])->wait(tickets[rank]);
    EXPECT_EQ(outcome.status, host::Status::kOk) << outcome.text;
    EXPECT_EQ(tensors[rank], std::vector<int32_t>(50'000, 3 * kWorld));
  }
}

TEST_F(DirectoryTest, AnswersMayComeAfterTheNextQuestions) {
  const auto second = start_aggregator();
  const SlowRelay relay(second->local(), kAskEvery * 2 + kAskEvery / 2);
  start_directory({relay.address().to_string()});
  EXPECT_TRUE(wait_for_plan(2)[1].answers);
}

TEST_F(DirectoryTest, OneAddressLeadsToAllAggregators) {
  const auto second = start_aggregator();
  const auto third = start_aggregator();
  start_directory({second->local().to_string(), third->local().to_string()});
  auto ranks = join();
  expect_sums(ranks, 3);
}

TEST_F(DirectoryTest, JoinOverOnePortIsRefused) {
  start_directory({});
  wait_for_plan(1);
  for (const uint32_t gradients : {0U, 64U}) {  // 0: chosen by the port's path.
    host::CommunicatorConfig config;
    config.server = own_;
    config.world = kWorld;
    config.gradients = gradients;
    config.deadline = seconds(20);
    auto port = io::UdpPort::open({.peer = own_});
    ASSERT_TRUE(port.has_value()) << port.error().text;
    const Joined joined = host::Communicator::join(config, *std::move(port));
    ASSERT_FALSE(joined.has_value());
    EXPECT_EQ(joined.error().text,
              "the server is a directory; join it with ports that the library opens");
  }
}

TEST_F(DirectoryTest, SecretsHoldForTheDirectory) {
  const auth::JobAuth auth{.mode = auth::Mode::kHeader, .key = auth::random_key()};
  const auto second = start_aggregator(0, auth);
  const auto stranger = start_aggregator(0, {.mode = auth::Mode::kHeader, .key = {}});
  start_directory({second->local().to_string(), stranger->local().to_string()}, auth);
  const auto known = wait_for_plan(2);
  EXPECT_EQ(known.at(2).name, stranger->local().to_string());
  EXPECT_EQ(known.at(2).fault, "it has another secret or mode");
  auto ranks = join(auth);
  expect_sums(ranks, 2);
}

// A refusal without a seal leaves its question open for the sealed answer.
TEST_F(DirectoryTest, ForgedRefusalsChangeNoPlanOfAJobWithASecret) {
  const auth::JobAuth auth{.mode = auth::Mode::kHeader, .key = auth::random_key()};
  const auto second = start_aggregator(0, auth);
  const SlowRelay relay(second->local(), Duration(), /*forges=*/true);
  start_directory({relay.address().to_string()}, auth);
  EXPECT_EQ(wait_for_plan(2).at(1).fault, "");
}

TEST_F(DirectoryTest, AggregatorsComeAndGoBetweenSessions) {
  auto second = start_aggregator();
  const Endpoint address = second->local();
  start_directory({address.to_string()});
  auto ranks = join();
  expect_sums(ranks, 2);
  ranks.clear();

  second.reset();
  EXPECT_THAT(wait_for_plan(1).at(1).fault, HasSubstr("no answer for"));
  ranks = join();
  expect_sums(ranks, 1);
  ranks.clear();

  second = start_aggregator(address.port);
  wait_for_plan(2);
  ranks = join();
  expect_sums(ranks, 2);
}

TEST_F(DirectoryTest, AggregatorWithoutTheJobIsLeftOut) {
  ApplianceConfig config;
  config.listen = Endpoint::ipv4(kLoopback, 0);
  config.jobs = {small_job()};
  config.jobs[0].id = 77;
  const auto other = start_server(config);
  start_directory({other->local().to_string()});
  EXPECT_EQ(wait_for_plan(1).at(1).fault, "it has no job 1");
  auto ranks = join();
  expect_sums(ranks, 1);
  const nlohmann::json stats = directory_->stats();
  EXPECT_EQ(stats["directory"][0]["aggregators"][1]["answers"], false);
  EXPECT_EQ(stats["directory"][0]["aggregators"][1]["fault"], "it has no job 1");
  // The control API has the same; an aggregator that is no directory has nothing.
  EXPECT_EQ(directory_json(directory_->snapshot().directory), stats["directory"]);
  EXPECT_TRUE(other->snapshot().directory.empty());
}

// The plan of all machines has one aggregator. That one is gone, so 65 others have a share.
TEST_F(DirectoryTest, ListKeepsThe64AggregatorsOfTheLargestWeights) {
  const std::array<Answerer, 2> answerers;  // A port tells 64 of its addresses apart.
  DirectoryConfig directory;
  for (uint32_t i = 0; i < 65; i++) {
    const Endpoint own = Endpoint::ipv4(kLoopback + i, answerers[i % 2].port());
    directory.endpoints.push_back(own.to_string());
    directory.machines.push_back(
        {.name = directory.endpoints.back(), .link_bytes_per_s = i == 64 ? 2e9 : 1e9});
  }
  directory.endpoints.push_back(start_aggregator()->local().to_string());
  directory.machines.push_back({.name = "gone", .link_bytes_per_s = 1e12, .worker = false});
  ApplianceConfig config;
  config.listen = Endpoint::ipv4(kLoopback, 0);
  config.jobs = {small_job()};
  config.directory = directory;
  directory_ = start_server(config);

  const Instant deadline = monotonic_now() + seconds(20);
  std::vector<DirectoryAggregator> known;
  const auto count = [&known](auto has) { return std::ranges::count_if(known, has); };
  const auto has_weight = [](const DirectoryAggregator& each) { return each.weight > 0; };
  do {
    known = directory_->snapshot().directory.at(0).aggregators;
    std::this_thread::yield();
  } while (monotonic_now() < deadline &&
           (count(has_weight) == 0 || count([](const auto& each) { return each.answers; }) < 65));
  EXPECT_EQ(count(has_weight), 64);
  EXPECT_GT(known.at(64).weight, known.at(0).weight);
  EXPECT_EQ(known.at(63).weight, 0U);
}

TEST_F(DirectoryTest, RefusesAPlanOfMoreThan64Aggregators) {
  ApplianceConfig config;
  config.listen = Endpoint::ipv4(kLoopback, 0);
  config.jobs = {small_job()};
  config.directory = DirectoryConfig{};
  for (uint32_t i = 0; i < 65; i++) {
    const std::string name = Endpoint::ipv4(kLoopback + i, 12000).to_string();
    config.directory->machines.push_back({.name = name, .link_bytes_per_s = 1e9});
    config.directory->endpoints.push_back(name);
  }
  const auto started = Appliance::start(config);
  ASSERT_FALSE(started.has_value());
  EXPECT_THAT(started.error().text,
              HasSubstr("--workers, --servers: 65 machines run an aggregator; allowed: up to 64"));
}

TEST_F(DirectoryTest, RefusesAddressesThatAreGivenTwiceOrOnlyReachedHere) {
  const auto refusal = [](const std::string& first, const std::string& second) {
    ApplianceConfig config;
    config.listen = Endpoint::ipv4(kLoopback, 0);
    config.jobs = {small_job()};
    config.directory = DirectoryConfig{};
    for (const std::string& name : {first, second}) {
      config.directory->machines.push_back({.name = name, .link_bytes_per_s = 1e9});
      config.directory->endpoints.push_back(name);
    }
    const auto started = Appliance::start(config);
    return started ? "" : started.error().text;
  };
  EXPECT_THAT(refusal("127.0.0.1:12000", "127.0.0.1"),
              HasSubstr("127.0.0.1:12000 and 127.0.0.1 have the same address 127.0.0.1:12000"));
  EXPECT_THAT(refusal("10.0.0.1:12000", "127.0.1.1:12000"),
              HasSubstr("127.0.1.1:12000 has the address 127.0.1.1:12000, which ranks on other"));
  EXPECT_THAT(refusal("127.0.0.1", "10.0.0.1:12000"),
              HasSubstr("127.0.0.1 has the address 127.0.0.1:12000, which ranks on other"));
}

// Lower aggregators have no list to ask for, so none could join.
TEST_F(DirectoryTest, RefusesLowerAggregators) {
  ApplianceConfig config;
  config.listen = Endpoint::ipv4(kLoopback, 0);
  config.jobs = {small_job()};
  config.jobs[0].sources_are_aggregators = true;
  config.directory =
      DirectoryConfig{.machines = {{.name = "a", .link_bytes_per_s = 1}}, .endpoints = {"a"}};
  const auto started = Appliance::start(config);
  ASSERT_FALSE(started.has_value());
  EXPECT_THAT(started.error().text, HasSubstr("job 1: sources_are_aggregators=on is not allowed "
                                              "on a directory (--workers), which serves ranks"));
}

TEST_F(DirectoryTest, RefusesAPlanWithoutAggregators) {
  ApplianceConfig config;
  config.listen = Endpoint::ipv4(kLoopback, 0);
  config.jobs = {small_job()};
  config.directory = DirectoryConfig{
      .machines = {{.name = "a", .link_bytes_per_s = 1, .worker = true, .aggregator = false}},
      .endpoints = {""}};
  const auto started = Appliance::start(config);
  ASSERT_FALSE(started.has_value());
  EXPECT_THAT(started.error().text, HasSubstr("no machine runs an aggregator"));
}

}  // namespace
}  // namespace tributary::server
