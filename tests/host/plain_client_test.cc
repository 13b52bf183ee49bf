// SPDX-License-Identifier: Apache-2.0
// Method: a client written from the Trio paper alone (Figure 8; §4, §5), byte by byte and without
// this project's code, all-reduces through the aggregator over a bad network. Virtual time only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/seed.h"
#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

using Bytes = std::vector<std::byte>;

/// Figure 8, most significant byte first.
struct PaperHeader {
  static constexpr size_t kBytes = 12;
  uint8_t job_id = 0;
  uint32_t block_id = 0;
  bool degraded = false;
  uint8_t src_id = 0;
  uint8_t src_cnt = 0;
  uint16_t gen_id = 0;
  uint16_t grad_cnt = 0;
};

void put(Bytes& bytes, uint64_t value, uint32_t byte_count) {
  for (uint32_t i = byte_count; i-- > 0;) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

uint32_t get(std::span<const std::byte> bytes, size_t at, uint32_t byte_count) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < byte_count; i++) {
    value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  }
  return value;
}

Bytes to_bytes(const PaperHeader& header, std::span<const int32_t> gradients) {
  Bytes bytes;
  put(bytes, header.job_id, 1);
  put(bytes, header.block_id, 4);
  put(bytes, 0, 1);
  put(bytes, header.src_id, 1);
  put(bytes, header.src_cnt, 1);
  put(bytes, header.gen_id, 2);
  put(bytes, header.grad_cnt, 2);
  for (const int32_t gradient : gradients) put(bytes, static_cast<uint32_t>(gradient), 4);
  return bytes;
}

PaperHeader from_bytes(std::span<const std::byte> bytes) {
  return {.job_id = static_cast<uint8_t>(get(bytes, 0, 1)),
          .block_id = get(bytes, 1, 4),
          .degraded = (get(bytes, 5, 1) & 4) != 0,
          .src_id = static_cast<uint8_t>(get(bytes, 6, 1)),
          .src_cnt = static_cast<uint8_t>(get(bytes, 7, 1)),
          .gen_id = static_cast<uint16_t>(get(bytes, 8, 2)),
          .grad_cnt = static_cast<uint16_t>(get(bytes, 10, 2) & 0xfff)};
}

constexpr uint32_t kGradients = 3;
constexpr uint32_t kBlocks = 20;
constexpr uint32_t kWindow = 8;

int32_t gradient_of(uint32_t source, uint32_t generation, uint32_t element) {
  return Prng(uint64_t{source} << 40 ^ uint64_t{generation} << 20 ^ element).any_i32();
}

/// Sends each block of a generation until its result arrives, then starts the next generation.
class PaperClient {
 public:
  PaperClient(VirtualNet& net, const Endpoint& at, const Endpoint& server, uint8_t source,
              uint32_t generations)
      : net_(net), at_(at), server_(server), source_(source), generations_(generations) {
    net_.add_receiver(at, [this](std::span<const std::byte> payload, const Endpoint&) {
      if (payload.size() >= PaperHeader::kBytes) receive(payload);
    });
  }

  void run() {
    for (uint32_t block = first_; block < std::min(first_ + kWindow, kBlocks); block++) {
      if (results_.contains(block)) continue;
      std::array<int32_t, kGradients> gradients;
      for (uint32_t i = 0; i < kGradients; i++) {
        gradients[i] = gradient_of(source_, generation_, block * kGradients + i);
      }
      net_.send(at_, server_,
                to_bytes({.job_id = 1,
                          .block_id = block,
                          .src_id = source_,
                          .src_cnt = 1,
                          .gen_id = gen_id(),
                          .grad_cnt = kGradients},
                         gradients));
    }
    const uint64_t round = ++round_;
    net_.at(net_.now() + milliseconds(5), [this, round] {
      if (round == round_ && !done()) run();  // No progress: retransmit.
    });
  }

  [[nodiscard]] bool done() const { return generation_ == generations_; }

  /// A result as it arrived: header, sums, and the generation counted without wrapping.
  struct Result {
    PaperHeader header;
    uint32_t generation;
    std::vector<int32_t> sums;
  };
  std::vector<Result> taken;

 private:
  /// Starts near the end of the 16 bits, so that it wraps.
  [[nodiscard]] uint16_t gen_id() const { return static_cast<uint16_t>(65'534 + generation_); }

  void receive(std::span<const std::byte> payload) {
    const PaperHeader header = from_bytes(payload);
    if (done() || header.gen_id != gen_id() || !results_.insert(header.block_id).second) return;
    Result& result = taken.emplace_back(Result{header, generation_, {}});
    for (size_t at = PaperHeader::kBytes; at < payload.size(); at += 4) {
      result.sums.push_back(static_cast<int32_t>(get(payload, at, 4)));
    }
    const uint32_t first_before = first_;
    while (results_.contains(first_)) first_++;
    if (first_ == kBlocks) {
      first_ = 0;
      results_.clear();
      generation_++;
    }
    if (first_ != first_before && !done()) run();
  }

  VirtualNet& net_;
  const Endpoint at_;
  const Endpoint server_;
  const uint8_t source_;
  const uint32_t generations_;
  uint32_t generation_ = 0;
  uint32_t first_ = 0;  ///< First block without a result.
  std::set<uint32_t> results_;
  uint64_t round_ = 0;
};

trio_ml::JobConfig job_for(uint32_t sources) {
  trio_ml::JobConfig job;
  job.sources = sources;
  job.block_cnt_max = kWindow;
  job.block_grad_max = 16;
  return job;
}

/// Returns the sum over the sources in `mask` (0 to 63).
int32_t sum_of(uint64_t mask, uint32_t generation, uint32_t element) {
  uint32_t sum = 0;
  for (; mask != 0; mask &= mask - 1) {
    const auto source = static_cast<uint32_t>(std::countr_zero(mask));
    sum += static_cast<uint32_t>(gradient_of(source, generation, element));
  }
  return static_cast<int32_t>(sum);
}

void expect_sums(const PaperClient& client, uint64_t mask, bool degraded) {
  for (const PaperClient::Result& result : client.taken) {
    ASSERT_EQ(result.header.degraded, degraded);
    ASSERT_EQ(result.header.src_cnt, std::popcount(mask));
    ASSERT_EQ(result.header.grad_cnt, kGradients);
    ASSERT_EQ(result.sums.size(), kGradients);
    for (uint32_t i = 0; i < kGradients; i++) {
      ASSERT_EQ(result.sums[i],
                sum_of(mask, result.generation, result.header.block_id * kGradients + i));
    }
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
  std::vector<std::unique_ptr<PaperClient>> clients;
  for (uint32_t i = 0; i < count; i++) {
    clients.push_back(std::make_unique<PaperClient>(net, VirtualNet::address(2, i), server,
                                                    static_cast<uint8_t>(i), kGenerations));
    clients.back()->run();
  }
  ASSERT_TRUE(net.run_until(Instant(seconds(60)), [&] {
    return std::all_of(clients.begin(), clients.end(), [](auto& client) { return client->done(); });
  }));
  for (const auto& client : clients) {
    ASSERT_EQ(client->taken.size(), kBlocks * kGenerations);
    expect_sums(*client, (uint64_t{1} << count) - 1, false);
  }
}

TEST(PaperClient, AllReducesSucceedOverABadNetwork) {
  const uint64_t first = seed_from_env();
  for (uint64_t seed = first; seed < first + 50 && !::testing::Test::HasFailure(); seed++) {
    walk(seed);
  }
}

TEST(PaperClient, MitigationReportsDegradedResults) {
  VirtualNet net(1);
  trio_ml::JobConfig job = job_for(3);
  job.mitigation = true;
  net.add_aggregator(job, VirtualNet::address(0, 0));
  PaperClient first(net, VirtualNet::address(2, 0), VirtualNet::address(0, 0), 0, 1);
  PaperClient second(net, VirtualNet::address(2, 2), VirtualNet::address(0, 0), 2, 1);
  first.run();
  second.run();  // Source 1 never sends.
  // Three windows, each at most two timeouts of 10 ms.
  EXPECT_TRUE(net.run_until(Instant(milliseconds(61)), [&] { return first.done(); }));
  EXPECT_EQ(first.taken.size(), kBlocks);
  expect_sums(first, 0b101, true);
  expect_sums(second, 0b101, true);
}

}  // namespace
}  // namespace tributary::testing
