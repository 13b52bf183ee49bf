// SPDX-License-Identifier: Apache-2.0
// Method: counts every call of the global operator new while a core aggregates; after start there
// must be none. A separate program, because it replaces the operator.
#include <gtest/gtest.h>

#include <vector>

#include "apps/trio_ml/app.h"
#include "engine/live/live_core.h"
#include "io/memory/replay_port.h"
#include "tests/apps/allocation_count.h"

namespace tributary::trio_ml {
namespace {

constexpr uint32_t kSources = 4;
constexpr uint32_t kBlocks = 10'000;
constexpr uint32_t kGradients = 64;

/// Every contribution to every block, in the order of an undisturbed run. Every tenth is sent
/// twice.
struct Traffic {
  Traffic() {
    const uint32_t size = wire::TrioMlHeader::kBytes + kGradients * 4;
    bytes.resize(size_t{kBlocks} * kSources * size);
    std::byte* at = bytes.data();
    for (uint32_t block = 0; block < kBlocks; block++) {
      for (uint32_t source = 0; source < kSources; source++) {
        wire::encode_header({.job_id = 1,
                             .block_id = block,
                             .src_id = static_cast<uint8_t>(source),
                             .grad_cnt = kGradients},
                            at);
        const engine::Packet packet{
            .data = at,
            .size = size,
            .layer = engine::PacketLayer::kUdpPayload,
            .source = Endpoint::ipv4(1 + source, static_cast<uint16_t>(1 + source))};
        packets.push_back(packet);
        if (packets.size() % 10 == 0) packets.push_back(packet);
        at += size;
      }
    }
  }
  std::vector<std::byte> bytes;
  std::vector<engine::Packet> packets;
};

TEST(Allocation, TenThousandBlocksAllocateNothing) {
  Traffic traffic;
  const std::array<io::ReplaySource, 1> sources{
      {{.packets = traffic.packets, .packet_count = traffic.packets.size()}}};
  io::ReplayPort port(sources);
  auto memory =
      memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = 16U << 20});
  ASSERT_TRUE(memory.has_value());
  const JobConfig config{
      .id = 1, .sources = kSources, .block_cnt_max = 256, .block_grad_max = 64, .mitigation = true};
  Session session(config, auth::key_of_seed(1));
  Shard shard(0, 1, wire::kTrioMlPort, *memory);
  ASSERT_TRUE(shard.add_job(config, session, Instant()).has_value());
  engine::LiveCore<App> core(0, port.queue(0), App(shard), {});

  const uint64_t before = testing::allocation_count();
  ASSERT_GT(before, 0U) << "the operator is not in place";
  Instant now{milliseconds(1)};
  while (!port.done(0)) {
    static_cast<void>(core.run_once(now));
    now = now + microseconds(100);  // Timers run as well.
  }
  EXPECT_EQ(testing::allocation_count() - before, 0U);

  const auto count = [&](Outcome outcome) {
    return shard.counters()[static_cast<uint32_t>(outcome)].packets;
  };
  EXPECT_EQ(count(Outcome::kBlockCompleted), kBlocks);
  EXPECT_EQ(count(Outcome::kAggregated), kBlocks * kSources);
  EXPECT_EQ(count(Outcome::kDuplicate) + count(Outcome::kLate),
            traffic.packets.size() - kBlocks * kSources);
  EXPECT_EQ(port.queue(0).counters().tx_packets, count(Outcome::kResultSent));
}

}  // namespace
}  // namespace tributary::trio_ml
