// SPDX-License-Identifier: Apache-2.0
// Method: clients written from the Trio paper alone all-reduce through the aggregator over a bad
// network. Virtual time only.
#include "lab/faults/plain_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/seed.h"
#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

constexpr uint32_t kGradients = 3;
constexpr uint32_t kBlocks = 20;
constexpr uint32_t kWindow = 8;

/// A client at an address of the virtual network.
std::unique_ptr<lab::PlainClient> make_client(VirtualNet& net, const Endpoint& at,
                                              const Endpoint& server, uint8_t source,
                                              uint32_t generations) {
  auto client = std::make_unique<lab::PlainClient>(
      lab::PlainClient::Config{.job_id = 1,
                               .source = source,
                               .gradients = kGradients,
                               .blocks = kBlocks,
                               .window = kWindow,
                               .generations = generations},
      [&net, at, server](std::span<const std::byte> bytes) {
        net.send(at, server, {bytes.begin(), bytes.end()});
      },
      [&net](Duration after, std::function<void()> action) {
        net.at(net.now() + after, std::move(action));
      });
  net.add_receiver(at, [&client = *client](std::span<const std::byte> payload, const Endpoint&) {
    client.receive(payload);
  });
  return client;
}

trio_ml::JobConfig job_for(uint32_t sources) {
  trio_ml::JobConfig job;
  job.sources = sources;
  job.block_cnt_max = kWindow;
  job.block_grad_max = 16;
  return job;
}

void expect_sums(const lab::PlainClient& client, uint64_t mask, bool degraded) {
  for (const lab::PlainClient::Result& result : client.results()) {
    ASSERT_EQ(client.check(result, mask, degraded), "");
  }
}

void walk(uint64_t seed) {
  SCOPED_TRACE(replay_hint(seed));
  Prng prng(seed);
  VirtualNet net(seed, {.loss = 0.2 * prng.unit(),
                        .duplicate = 0.2 * prng.unit(),
                        .reorder = 0.2 * prng.unit(),
                        .jitter = microseconds(10),
                        .reorder_max = milliseconds(1)});
  const uint32_t count = 2 + prng.below(4);
  const bool tree = prng.chance(0.3);
  constexpr uint32_t kGenerations = 5;
  const Endpoint root = VirtualNet::address(0, 0);
  trio_ml::JobConfig upper = job_for(tree ? 1 : count);
  upper.sources_are_aggregators = tree;
  upper.world = count;
  net.add_aggregator(upper, root);
  const Endpoint server = tree ? VirtualNet::address(1, 0) : root;
  if (tree) {
    trio_ml::JobConfig lower = job_for(count);
    lower.upstream = root;
    net.add_aggregator(lower, server);
  }
  std::vector<std::unique_ptr<lab::PlainClient>> clients;
  for (uint32_t i = 0; i < count; i++) {
    clients.push_back(
        make_client(net, VirtualNet::address(2, i), server, static_cast<uint8_t>(i), kGenerations));
    clients.back()->run();
  }
  ASSERT_TRUE(net.run_until(Instant(seconds(60)), [&] {
    return std::all_of(clients.begin(), clients.end(), [](auto& client) { return client->done(); });
  }));
  for (const auto& client : clients) {
    ASSERT_EQ(client->results().size(), kBlocks * kGenerations);
    expect_sums(*client, (uint64_t{1} << count) - 1, false);
  }
}

TEST(PlainClient, AllReducesSucceedOverABadNetwork) {
  const uint64_t first = seed_from_env();
  for (uint64_t seed = first; seed < first + 50 && !::testing::Test::HasFailure(); seed++) {
    walk(seed);
  }
}

TEST(PlainClient, MitigationReportsDegradedResults) {
  VirtualNet net(1);
  trio_ml::JobConfig job = job_for(3);
  job.mitigation = true;
  net.add_aggregator(job, VirtualNet::address(0, 0));
  const auto first = make_client(net, VirtualNet::address(2, 0), VirtualNet::address(0, 0), 0, 1);
  const auto second = make_client(net, VirtualNet::address(2, 2), VirtualNet::address(0, 0), 2, 1);
  first->run();
  second->run();  // Source 1 never sends.
  // Three windows, each at most two timeouts of 10 ms.
  EXPECT_TRUE(net.run_until(Instant(milliseconds(61)), [&] { return first->done(); }));
  EXPECT_EQ(first->results().size(), kBlocks);
  expect_sums(*first, 0b101, true);
  expect_sums(*second, 0b101, true);
}

}  // namespace
}  // namespace tributary::testing
