// SPDX-License-Identifier: Apache-2.0
// Method: communicators of several threads against a live engine in this process, over loopback
// sockets. First the agreed terms and the use of the sockets. Then the bits of one thread compared
// with those of several, then failures in one channel only. Last, random tensors under faults
// against plain sums. Every wait has a deadline; nothing sleeps and no time is asserted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "host/communicator.h"
#include "host/tensor_parts.h"
#include "io/faults/impaired_port.h"
#include "io/udp/udp_port.h"
#include "tests/host/live_server.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Server;

using OpenedPort = Result<std::unique_ptr<engine::Port>>;
using OpenPort = std::function<OpenedPort(uint32_t rank, uint32_t channel)>;

constexpr uint32_t kGradients = 64;
/// With blocks of one packet each, a tensor of this length is just large enough for two parts.
constexpr uint32_t kTwoParts = 2 * plan::kPartBlocksMin * kGradients;
/// Deadline of tests that wait for it to expire; far longer than a busy machine needs to answer.
constexpr Duration kShort = milliseconds(1500);

trio_ml::JobConfig job_of(uint32_t sources, uint32_t channels) {
  trio_ml::JobConfig job = Server::job_of(sources);
  job.channels = channels;
  return job;
}

CommunicatorConfig config_for(const Endpoint& server, uint32_t rank, uint32_t world,
                              uint32_t threads) {
  CommunicatorConfig config;
  config.server = server;
  config.rank = rank;
  config.world = world;
  config.gradients = kGradients;
  config.threads = threads;
  config.deadline = seconds(20);  // Far longer than a busy machine needs.
  return config;
}

std::unique_ptr<io::UdpPort> open_socket(const Endpoint& server) {
  io::UdpPortConfig config;
  config.peer = server;
  auto port = io::UdpPort::open(config);
  EXPECT_TRUE(port.has_value());
  return *std::move(port);
}

/// A socket that carries no packets after it is cut, as if its machine had died.
class CuttablePort final : public engine::Port, public engine::PortQueue {
 public:
  CuttablePort(std::unique_ptr<engine::Port> inner, const std::atomic<bool>& is_cut)
      : inner_(std::move(inner)), is_cut_(is_cut) {}

  [[nodiscard]] uint32_t queue_count() const override { return 1; }
  [[nodiscard]] engine::PortQueue& queue(uint32_t) override { return *this; }
  [[nodiscard]] Endpoint local() const override { return inner_->local(); }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return inner_->payload_bytes_max(); }
  [[nodiscard]] uint32_t receive(std::span<engine::Packet> burst) override {
    const uint32_t count = inner_->queue(0).receive(burst);
    return is_cut_ ? 0 : count;
  }
  void transmit(std::span<const engine::TxPacket> packets) override {
    if (!is_cut_) inner_->queue(0).transmit(packets);
  }
  void wait(Duration at_most) override { inner_->queue(0).wait(at_most); }
  void wake() override { inner_->queue(0).wake(); }
  [[nodiscard]] engine::PortCounters counters() const override {
    return inner_->queue(0).counters();
  }

 private:
  const std::unique_ptr<engine::Port> inner_;
  const std::atomic<bool>& is_cut_;
};

using Ranks = std::vector<std::unique_ptr<Communicator>>;

/// Joins one rank for each entry of `threads`, each in its own thread.
Ranks join_all(const Endpoint& server, const std::vector<uint32_t>& threads,
               const OpenPort& open_port,
               const std::function<Duration(uint32_t rank)>& deadline_of) {
  const auto world = static_cast<uint32_t>(threads.size());
  Ranks ranks(world);
  std::vector<std::thread> joining;
  for (uint32_t rank = 0; rank < world; rank++) {
    joining.emplace_back([&, rank] {
      CommunicatorConfig config = config_for(server, rank, world, threads[rank]);
      config.deadline = deadline_of(rank);
      auto joined = Communicator::join(
          config, [&](uint32_t channel, const Endpoint&) { return open_port(rank, channel); });
      ASSERT_TRUE(joined.has_value()) << joined.error().text;
      ranks[rank] = *std::move(joined);
    });
  }
  for (std::thread& thread : joining) thread.join();
  return ranks;
}

Ranks join_all(const Endpoint& server, const std::vector<uint32_t>& threads,
               const OpenPort& open_port, Duration deadline = seconds(20)) {
  return join_all(server, threads, open_port, [deadline](uint32_t) { return deadline; });
}

Ranks join_all(const Endpoint& server, const std::vector<uint32_t>& threads,
               Duration deadline = seconds(20)) {
  const auto open = [&](uint32_t, uint32_t) -> OpenedPort { return open_socket(server); };
  return join_all(server, threads, open, deadline);
}

/// Runs `work(rank, communicator)` for each rank in its own thread.
void for_each_rank(Ranks& ranks, const std::function<void(uint32_t, Communicator&)>& work) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks.size(); rank++) {
    threads.emplace_back([&, rank] { work(rank, *ranks[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- Agreed terms ---

TEST(CommunicatorThreads, ThreadCountIsTheSmallestRequestWithinTheJob) {
  Server server(job_of(2, 4));
  struct Case {
    std::vector<uint32_t> wanted;
    uint32_t agreed;
  };
  for (const Case& ranks : {Case{{2, 3}, 2}, Case{{1, 3}, 1}, Case{{9, 5}, 4}}) {
    Ranks joined = join_all(server.local(), ranks.wanted);
    for_each_rank(joined, [&](uint32_t, Communicator& communicator) {
      EXPECT_EQ(communicator.threads(), ranks.agreed);
      std::vector<int32_t> tensor(3 * kTwoParts, 1);
      EXPECT_EQ(communicator.all_reduce(tensor).status, Status::kOk);
      EXPECT_THAT(tensor, Each(2));
      EXPECT_EQ(communicator.gradients(), kGradients);
    });
  }
}

TEST(CommunicatorThreads, RefusesThreadCountsOutOfRange) {
  const Endpoint server = Endpoint::ipv4(0x7f000001, 1);
  for (const uint32_t threads : {0U, 17U}) {
    const auto joined = Communicator::join(config_for(server, 0, 1, threads));
    ASSERT_FALSE(joined.has_value());
    EXPECT_THAT(joined.error().text, HasSubstr("is not allowed; allowed: 1 to 16"));
  }
  const auto joined = Communicator::join(config_for(server, 0, 1, 2), open_socket(server));
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().text,
            "threads=2 and priorities=1 are not allowed over one port; allowed: 1");
}

TEST(CommunicatorThreads, OnlyLargeTensorsUseAllSockets) {
  Server server(job_of(2, 2));
  std::array<engine::Port*, 2> sockets{};
  const auto open = [&](uint32_t rank, uint32_t channel) -> OpenedPort {
    auto socket = open_socket(server.local());
    if (rank == 0) sockets[channel] = socket.get();
    return socket;
  };
  Ranks ranks = join_all(server.local(), {2, 2}, open);
  const auto sent = [&](uint32_t channel) {
    return sockets[channel]->queue(0).counters().tx_packets;
  };
  const uint64_t before = sent(1);
  for_each_rank(ranks, [](uint32_t, Communicator& communicator) {
    std::vector<int32_t> tensor(kTwoParts - kGradients, 1);  // One block short of two parts.
    EXPECT_EQ(communicator.all_reduce(tensor).status, Status::kOk);
  });
  EXPECT_LT(sent(1) - before, plan::kPartBlocksMin);  // Keep-alives at most.
  EXPECT_GE(sent(0), 2 * plan::kPartBlocksMin - 1);
  for_each_rank(ranks, [](uint32_t, Communicator& communicator) {
    std::vector<int32_t> tensor(kTwoParts, 1);
    const Outcome outcome = communicator.all_reduce(tensor);
    EXPECT_EQ(outcome.status, Status::kOk);
    EXPECT_EQ(outcome.blocks, 2 * plan::kPartBlocksMin);
    EXPECT_GE(communicator.counters().blocks, outcome.blocks);
  });
  EXPECT_GE(sent(1) - before, plan::kPartBlocksMin);
}

// --- Sums ---

TEST(CommunicatorThreads, SumsMatchOneThreadBitForBit) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  constexpr uint32_t kElements = 5 * kTwoParts + 17;
  std::vector<std::vector<float>> sums;
  for (const uint32_t threads : {1U, 2U, 3U, 4U}) {
    Server server(job_of(2, threads));
    Ranks ranks = join_all(server.local(), {threads, threads});
    std::array<std::vector<float>, 2> tensors;
    for_each_rank(ranks, [&](uint32_t rank, Communicator& communicator) {
      testing::Prng prng(seed + rank);
      for (uint32_t i = 0; i < kElements; i++) {
        // Gives each block its own exponent.
        const double magnitude = std::ldexp(1.0, static_cast<int>(i / kGradients % 60) - 30);
        tensors[rank].push_back(static_cast<float>((prng.unit() - 0.5) * magnitude));
      }
      const AllReduceOptions options{.op = ReduceOp::kMean, .format = FloatFormat::kBlockExponent};
      EXPECT_EQ(communicator.all_reduce(tensors[rank], options).status, Status::kOk);
    });
    EXPECT_EQ(tensors[0], tensors[1]);
    sums.push_back(tensors[0]);
    EXPECT_EQ(sums.back(), sums.front()) << threads << " threads";
  }
}

/// A tensor of random length and kind, with its expected result, the same on every rank.
struct RandomTensor {
  RandomTensor(testing::Prng& prng, uint32_t rank, uint32_t world)
      : is_float(prng.chance(0.5)), mean(prng.chance(0.3)) {
    const uint32_t count = prng.below(1 + prng.below(6 * kTwoParts));
    const int32_t start = static_cast<int32_t>(prng.below(1000));
    const auto ranks = static_cast<int32_t>(world);
    for (uint32_t i = 0; i < count; i++) {
      const int32_t value = start + static_cast<int32_t>(i % 1009);
      // Multiples of the number of ranks, so that a mean is a whole number.
      const int32_t mine = value * ranks + static_cast<int32_t>(rank) * ranks;
      const int32_t sum = value * ranks * ranks + ranks * (ranks - 1) / 2 * ranks;
      const int32_t wanted = mean ? sum / ranks : sum;
      if (is_float) {
        floats.push_back(static_cast<float>(mine));
        floats_wanted.push_back(static_cast<float>(wanted));
      } else {
        integers.push_back(mine);
        integers_wanted.push_back(wanted);
      }
    }
  }
  Ticket start(Communicator& communicator) {
    const ReduceOp op = mean ? ReduceOp::kMean : ReduceOp::kSum;
    if (!is_float) return communicator.all_reduce_async(integers, op);
    return communicator.all_reduce_async(floats, {.op = op, .format = FloatFormat::kBlockExponent});
  }
  bool is_float;
  bool mean;
  std::vector<float> floats, floats_wanted;
  std::vector<int32_t> integers, integers_wanted;
};

/// Starts overlapping all-reduces and waits for them in random order.
void walk(uint64_t seed, uint32_t rank, uint32_t world, Communicator& communicator) {
  testing::Prng prng(seed);              // The same for all ranks, so they make the same calls,
  testing::Prng order(seed + 1 + rank);  // but each waits in its own order.
  for (uint32_t round = 0; round < 4; round++) {
    std::vector<std::unique_ptr<RandomTensor>> tensors;
    std::vector<Ticket> tickets;
    for (uint32_t i = 0; i < 4; i++) {
      tensors.push_back(std::make_unique<RandomTensor>(prng, rank, world));
      tickets.push_back(tensors.back()->start(communicator));
    }
    while (!tensors.empty()) {
      const auto i = static_cast<ptrdiff_t>(order.below(static_cast<uint32_t>(tensors.size())));
      const Outcome outcome = communicator.wait(tickets[static_cast<size_t>(i)]);
      const RandomTensor& tensor = *tensors[static_cast<size_t>(i)];
      ASSERT_EQ(outcome.status, Status::kOk) << outcome.text;
      ASSERT_TRUE(outcome.degraded.empty());
      ASSERT_EQ(tensor.integers, tensor.integers_wanted) << "round " << round;
      ASSERT_EQ(tensor.floats, tensor.floats_wanted) << "round " << round;
      tensors.erase(tensors.begin() + i);
      tickets.erase(tickets.begin() + i);
    }
  }
}

TEST(CommunicatorThreads, RandomTensorsUnderFaultsMatchPlainSums) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  testing::Prng prng(seed);
  for (uint32_t threads = 1; threads <= 4; threads++) {
    const uint32_t world = 2 + prng.below(2);
    const double loss = threads % 2 == 0 ? 0.01 : 0;
    Server server(job_of(world, threads));
    const auto open = [&](uint32_t rank, uint32_t channel) -> OpenedPort {
      return io::ImpairedPort::make(open_socket(server.local()),
                                    {.rx = {.loss = loss, .reorder = loss},
                                     .tx = {.loss = loss, .duplicate = loss},
                                     .seed = seed + 100 * rank + channel});
    };
    Ranks ranks = join_all(server.local(), std::vector(world, threads), open);
    const uint64_t tensors = prng.any_u64();
    for_each_rank(ranks, [&](uint32_t rank, Communicator& communicator) {
      EXPECT_EQ(communicator.threads(), threads);
      walk(tensors, rank, world, communicator);
    });
  }
}

// --- Failures in one channel ---

TEST(CommunicatorThreads, OverflowInOnePartFailsOnlyItsTensor) {
  Server server(job_of(2, 2));
  Ranks ranks = join_all(server.local(), {2, 2});
  for_each_rank(ranks, [](uint32_t rank, Communicator& communicator) {
    std::vector<float> tensor(kTwoParts, 1);
    if (rank == 1) tensor.back() = 1e6F;
    Outcome outcome = communicator.all_reduce(tensor);
    EXPECT_EQ(outcome.status, Status::kOverflow);
    EXPECT_THAT(outcome.text, HasSubstr("does not fit"));
    std::vector<float> infinite(kTwoParts, 1);
    if (rank == 0) infinite.front() = std::numeric_limits<float>::infinity();
    if (rank == 1) infinite.back() = 1e6F;
    EXPECT_EQ(communicator.all_reduce(infinite).status, Status::kNotFinite);
    std::vector<float> good(kTwoParts, 1);
    EXPECT_EQ(communicator.all_reduce(good).status, Status::kOk);
    EXPECT_THAT(good, Each(2));
  });
}

TEST(CommunicatorThreads, MismatchStatesTheWholeLength) {
  Server server(job_of(2, 2));
  Ranks ranks = join_all(server.local(), {2, 2});
  for_each_rank(ranks, [](uint32_t rank, Communicator& communicator) {
    std::vector<int32_t> tensor(kTwoParts + rank, 1);  // The first parts have equal lengths.
    const Outcome outcome = communicator.all_reduce(tensor);
    EXPECT_TRUE(outcome.status == Status::kMismatch || outcome.status == Status::kPeerLeft);
    if (outcome.status != Status::kMismatch) return;
    EXPECT_THAT(outcome.text, HasSubstr(std::to_string(kTwoParts + 0)));
    EXPECT_THAT(outcome.text, HasSubstr(std::to_string(kTwoParts + 1)));
  });
}

/// Runs three ranks. Rank 1 loses the sockets named by `dies` at its last all-reduce.
std::vector<Outcome> outcomes_when_dying(const std::function<bool(uint32_t channel)>& dies,
                                         Duration deadline, const trio_ml::JobConfig& job,
                                         std::vector<std::vector<float>>& tensors) {
  Server server(job);
  const std::atomic<bool> alive{false};
  std::atomic<bool> is_cut{false};
  const auto open = [&](uint32_t rank, uint32_t channel) -> OpenedPort {
    const bool dying = rank == 1 && dies(channel);
    return std::make_unique<CuttablePort>(open_socket(server.local()), dying ? is_cut : alive);
  };
  std::vector<Outcome> outcomes(3);
  Ranks ranks = join_all(server.local(), {2, 2, 2}, open, deadline);
  const AllReduceOptions mean{.op = ReduceOp::kMean};
  for_each_rank(ranks, [&](uint32_t, Communicator& communicator) {
    std::vector<float> tensor(kTwoParts, 3);
    EXPECT_EQ(communicator.all_reduce(tensor, mean).status, Status::kOk);
    EXPECT_THAT(tensor, Each(3));
  });
  is_cut = true;
  tensors.assign(3, {});
  for_each_rank(ranks, [&](uint32_t rank, Communicator& communicator) {
    tensors[rank].assign(kTwoParts, static_cast<float>(rank));
    outcomes[rank] = communicator.all_reduce(tensors[rank], mean);
    if (goes_on_after(outcomes[rank].status)) return;
    // The communicator has ended, and repeats the same error.
    std::vector<float> again(1, 1);
    const Outcome later = communicator.all_reduce(again);
    EXPECT_EQ(later.status, outcomes[rank].status);
    EXPECT_EQ(later.text, outcomes[rank].text);
  });
  return outcomes;
}

TEST(CommunicatorThreads, OtherRanksNameADeadRank) {
  std::vector<std::vector<float>> tensors;
  const auto outcomes =
      outcomes_when_dying([](uint32_t) { return true; }, kShort, job_of(3, 2), tensors);
  EXPECT_EQ(outcomes[1].status, Status::kAggregatorGone);
  for (const uint32_t rank : {0U, 2U}) {
    EXPECT_EQ(outcomes[rank].status, Status::kPeerMissing);
    EXPECT_THAT(outcomes[rank].text, HasSubstr("rank 1 has not contributed"));
  }
}

TEST(CommunicatorThreads, DeadSocketEndsTheCallOnEveryRank) {
  std::vector<std::vector<float>> tensors;
  const auto outcomes = outcomes_when_dying([](uint32_t channel) { return channel == 1; }, kShort,
                                            job_of(3, 2), tensors);
  EXPECT_EQ(outcomes[1].status, Status::kAggregatorGone);
  EXPECT_THAT(outcomes[1].text, HasSubstr("(channel 1 of job 1)"));
  for (const uint32_t rank : {0U, 2U}) {
    EXPECT_THAT(outcomes[rank].text, HasSubstr("rank 1 has"));  // … not contributed, or … left.
    EXPECT_THAT(outcomes[rank].text, HasSubstr("(channel 1 of job 1)"));
    EXPECT_THAT(outcomes[rank].text, Not(HasSubstr("rank 0")));
  }
}

TEST(CommunicatorThreads, FirstFailureEndsTheOtherChannels) {
  Server server(job_of(2, 2));
  const std::atomic<bool> alive{false};
  std::atomic<bool> is_cut{false};
  const auto open = [&](uint32_t rank, uint32_t channel) -> OpenedPort {
    const bool dying = rank == 0 && channel == 1;
    return std::make_unique<CuttablePort>(open_socket(server.local()), dying ? is_cut : alive);
  };
  // Rank 0 has the shorter deadline.
  Ranks ranks = join_all(server.local(), {2, 2}, open,
                         [](uint32_t rank) { return rank == 0 ? kShort : seconds(20); });
  is_cut = true;
  std::array<std::vector<int32_t>, 2> large{std::vector<int32_t>(kTwoParts, 1),
                                            std::vector<int32_t>(kTwoParts, 1)};
  std::vector<int32_t> small(1, 1);
  std::array<Ticket, 3> tickets{ranks[0]->all_reduce_async(large[0]),
                                ranks[1]->all_reduce_async(large[1]),
                                ranks[1]->all_reduce_async(small)};
  EXPECT_EQ(ranks[0]->wait(tickets[0]).status, Status::kAggregatorGone);
  // Rank 0 has left on its good channel, so rank 1's wait there ends long before its deadline.
  const Outcome outcome = ranks[1]->wait(tickets[2]);
  EXPECT_EQ(outcome.status, Status::kPeerLeft);
  EXPECT_THAT(outcome.text, HasSubstr("rank 0 has left job 1 "));
  EXPECT_EQ(ranks[1]->wait(tickets[1]).status, Status::kPeerLeft);
}

TEST(CommunicatorThreads, DegradedPartDegradesOnlyItsResult) {
  trio_ml::JobConfig job = job_of(3, 2);
  job.mitigation = true;
  job.timeout = milliseconds(50);
  std::vector<std::vector<float>> tensors;
  const auto outcomes =
      outcomes_when_dying([](uint32_t channel) { return channel == 1; }, kShort, job, tensors);
  EXPECT_EQ(outcomes[1].status, Status::kAggregatorGone);
  for (const uint32_t rank : {0U, 2U}) {
    ASSERT_EQ(outcomes[rank].status, Status::kOk) << outcomes[rank].text;
    EXPECT_EQ(outcomes[rank].blocks, 2 * plan::kPartBlocksMin);
    // The first half has all ranks, unless the machine was slow. The second half never has rank 1.
    uint64_t next = kTwoParts / 2;
    for (const DegradedRange& range : outcomes[rank].degraded) {
      if (range.element_first < kTwoParts / 2) continue;
      EXPECT_EQ(range.element_first, next);
      EXPECT_FALSE(contains(range.sources, 1));
      next = range.element_first + range.element_count;
    }
    EXPECT_EQ(next, kTwoParts);
    for (uint32_t i = kTwoParts / 2; i < kTwoParts; i++) ASSERT_EQ(tensors[rank][i], 1);  // 0, 2.
  }
}

TEST(CommunicatorThreads, ClosingEndsAllPartsAndCompletesSubmissions) {
  Server server(job_of(2, 3));
  for (uint32_t round = 0; round < 10; round++) {
    Ranks ranks = join_all(server.local(), {3, 3});
    std::vector<int32_t> waiting(3 * kTwoParts, 1);
    const Ticket ticket = ranks[0]->all_reduce_async(waiting);
    std::thread submitting([&ranks] {
      Status status = Status::kOk;
      std::vector<int32_t> tensor(kTwoParts, 1);
      while (status == Status::kOk) status = ranks[0]->all_reduce(tensor).status;
      EXPECT_EQ(status, Status::kClosed);
    });
    ranks[0]->close();
    EXPECT_EQ(ranks[0]->wait(ticket).status, Status::kClosed);
    submitting.join();
    // Rank 1 makes the same calls. The first one may complete.
    Outcome outcome = ranks[1]->all_reduce(waiting);
    std::vector<int32_t> tensor(kTwoParts, 1);
    while (outcome.status == Status::kOk) outcome = ranks[1]->all_reduce(tensor);
    EXPECT_EQ(outcome.status, Status::kPeerLeft);
    EXPECT_THAT(outcome.text, HasSubstr("rank 0 has left job"));
  }
}

}  // namespace
}  // namespace tributary::host
