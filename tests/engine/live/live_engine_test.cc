// SPDX-License-Identifier: Apache-2.0
// Method: whole engines in threads over an in-memory port. First Trio-ML on two and four cores,
// with packets at any queue and inspection while they run. Then starting, stopping and waking. The
// tests check sums, not times.
#include "engine/live/live_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "apps/trio_ml/app.h"
#include "base/byte_order.h"
#include "io/memory/in_memory_port.h"
#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

using Bytes = std::vector<std::byte>;
using trio_ml::Outcome;

constexpr uint32_t kSources = 2;

/// Trio-ML on `core_count` cores.
class Aggregator {
 public:
  Aggregator(uint32_t core_count, PacketLayer layer)
      : port_({.queue_count = core_count,
               .layer = layer,
               .payload_bytes_max = 300,
               .rx_packets_max = 1024,
               .tx_packets_max = 4096}),
        memory_(
            *memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = 64U << 20})),
        session_(kJob, auth::key_of_seed(1)) {
    std::vector<trio_ml::App> apps;
    for (uint32_t i = 0; i < core_count; i++) {
      shards_.push_back(
          std::make_unique<trio_ml::Shard>(i, core_count, port_.local().port, memory_));
      EXPECT_TRUE(shards_.back()->add_job(kJob, session_, monotonic_now()).has_value());
      apps.emplace_back(*shards_.back());
    }
    engine_ =
        std::make_unique<LiveEngine<trio_ml::App>>(port_, std::move(apps), LiveEngineConfig{});
  }

  static Bytes contribution(uint32_t source, uint32_t block_id, int32_t value) {
    Bytes bytes(wire::TrioMlHeader::kBytes + 4);
    wire::encode_header(
        {.job_id = 1, .block_id = block_id, .src_id = static_cast<uint8_t>(source), .grad_cnt = 1},
        bytes.data());
    store_be(bytes.data() + wire::TrioMlHeader::kBytes, static_cast<uint32_t>(value));
    return bytes;
  }
  static Endpoint worker(uint32_t source) {
    return Endpoint::ipv4(0x0a000001 + source, static_cast<uint16_t>(5000 + source));
  }
  /// Waits for room in the queue.
  void send(uint32_t queue, uint32_t source, uint32_t block_id, int32_t value) {
    const Bytes bytes = contribution(source, block_id, value);
    while (!port_.inject_payload(queue, bytes, worker(source))) std::this_thread::yield();
  }
  /// Collects the results that source 0 received, by block.
  void collect(std::map<uint32_t, int32_t>& sums, uint32_t skip_bytes) {
    for (uint32_t queue = 0; queue < port_.queue_count(); queue++) {
      for (const io::SentPacket& sent : port_.take_sent(queue)) {
        if (sent.destination != worker(0)) continue;
        const std::byte* message = sent.bytes.data() + skip_bytes;
        const uint32_t block_id = wire::TrioMlHeader::BlockId::load(message);
        const auto sum =
            static_cast<int32_t>(load_be<uint32_t>(message + wire::TrioMlHeader::kBytes));
        const auto [known, added] = sums.emplace(block_id, sum);
        EXPECT_EQ(known->second, sum);  // A result requested twice is the same.
      }
    }
  }
  LiveEngine<trio_ml::App>& engine() { return *engine_; }
  [[nodiscard]] const trio_ml::Shard& shard(uint32_t index) const { return *shards_[index]; }

 private:
  static constexpr trio_ml::JobConfig kJob{
      .id = 1, .sources = kSources, .block_cnt_max = 1024, .block_grad_max = 4};

  io::InMemoryPort port_;
  memory::SharedMemory memory_;
  trio_ml::Session session_;
  std::vector<std::unique_ptr<trio_ml::Shard>> shards_;
  std::unique_ptr<LiveEngine<trio_ml::App>> engine_;
};

struct Shape {
  uint32_t core_count;
  PacketLayer layer;
};

class LiveEngineTest : public ::testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(
    Shapes, LiveEngineTest,
    ::testing::Values(Shape{1, PacketLayer::kUdpPayload}, Shape{2, PacketLayer::kUdpPayload},
                      Shape{2, PacketLayer::kFrame}, Shape{4, PacketLayer::kUdpPayload},
                      Shape{4, PacketLayer::kFrame}),
    [](const auto& shape) {
      return std::to_string(shape.param.core_count) + "Cores" +
             (shape.param.layer == PacketLayer::kFrame ? "Frame" : "UdpPayload");
    });

// Steering is wrong on purpose: each packet goes to a random queue. A block's contributions arrive
// at different cores, and only its owner adds them.
TEST_P(LiveEngineTest, PacketsReachTheirOwnerFromAnyQueue) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const uint32_t cores = GetParam().core_count;
  const uint32_t skip = GetParam().layer == PacketLayer::kFrame ? io::kUdpFrameHeaderBytesIpv4 : 0;
  constexpr uint32_t kBlocks = 3000;
  constexpr uint32_t kWindow = 512;
  Aggregator aggregator(cores, GetParam().layer);
  aggregator.engine().start();
  std::map<uint32_t, int32_t> sums;
  uint64_t looks = 0;
  for (uint32_t base = 0; base < kBlocks;) {
    // A full mailbox or queue loses packets, so send missing contributions repeatedly.
    for (uint32_t block = base; block < std::min(base + kWindow, kBlocks); block++) {
      if (sums.contains(block)) continue;
      for (uint32_t source = 0; source < kSources; source++) {
        aggregator.send(prng.below(cores), source, block, static_cast<int32_t>(block + source));
      }
    }
    aggregator.engine().inspect(
        [&](LiveEngine<trio_ml::App>::Core& core) { looks += core.counters().bursts > 0 ? 1 : 0; });
    aggregator.collect(sums, skip);
    while (sums.contains(base)) base++;
  }
  aggregator.engine().stop();
  ASSERT_EQ(sums.size(), kBlocks);
  for (const auto& [block, sum] : sums) ASSERT_EQ(sum, static_cast<int32_t>(2 * block + 1));

  uint64_t handed_over = 0;
  uint64_t packets = 0;
  aggregator.engine().inspect([&](LiveEngine<trio_ml::App>::Core& core) {
    handed_over += core.counters().handed_over;
    packets += core.counters().packets;
  });
  EXPECT_EQ(handed_over > 0, cores > 1);
  EXPECT_GT(looks, 0U);
  uint64_t completed = 0;
  uint64_t refused = 0;
  for (uint32_t i = 0; i < cores; i++) {
    const auto& counters = aggregator.shard(i).counters();
    completed += counters[static_cast<uint32_t>(Outcome::kBlockCompleted)].packets;
    refused += counters[static_cast<uint32_t>(Outcome::kWindowExceeded)].packets;
    EXPECT_GT(counters[static_cast<uint32_t>(Outcome::kAggregated)].packets, 0U);
  }
  EXPECT_EQ(completed, kBlocks);
  EXPECT_EQ(refused, 0U);
}

TEST_P(LiveEngineTest, InspectVisitsEachCoreOnceRunningOrNot) {
  Aggregator aggregator(GetParam().core_count, GetParam().layer);
  const auto visited = [&] {
    std::vector<const void*> cores;
    aggregator.engine().inspect(
        [&](LiveEngine<trio_ml::App>::Core& core) { cores.push_back(&core); });
    std::sort(cores.begin(), cores.end());
    EXPECT_EQ(std::unique(cores.begin(), cores.end()), cores.end());
    return cores.size();
  };
  EXPECT_EQ(visited(), GetParam().core_count);  // Not started.
  aggregator.engine().start();
  for (uint32_t i = 0; i < 20; i++) EXPECT_EQ(visited(), GetParam().core_count);
  aggregator.engine().stop();
  EXPECT_EQ(visited(), GetParam().core_count);
}

TEST_P(LiveEngineTest, VisitComesAgainUntilTheVisitorHasEnough) {
  const uint32_t cores = GetParam().core_count;
  Aggregator aggregator(cores, GetParam().layer);
  const auto visit = [&] {
    std::vector<uint32_t> visits(cores);
    std::vector<std::set<const void*>> visited(cores);
    aggregator.engine().visit([&](LiveEngine<trio_ml::App>::Core& core, uint32_t index) {
      visited[index].insert(&core);
      return ++visits[index] <= index;
    });
    for (uint32_t i = 0; i < cores; i++) {
      EXPECT_EQ(visits[i], i + 1);
      EXPECT_EQ(visited[i].size(), 1U);
    }
  };
  visit();  // Not started.
  aggregator.engine().start();
  for (uint32_t i = 0; i < 20; i++) visit();
  aggregator.engine().stop();
  visit();
}

// No visitor returns before all have begun, so visits in turn would hang this test.
TEST_P(LiveEngineTest, VisitConcernsAllRunningCoresAtOnce) {
  Aggregator aggregator(GetParam().core_count, GetParam().layer);
  aggregator.engine().start();
  std::latch all_begun(GetParam().core_count);
  aggregator.engine().visit([&](LiveEngine<trio_ml::App>::Core&, uint32_t) {
    all_begun.arrive_and_wait();
    return false;
  });
  EXPECT_TRUE(all_begun.try_wait());
  aggregator.engine().stop();
}

TEST_P(LiveEngineTest, StopIsIdempotent) {
  Aggregator aggregator(GetParam().core_count, GetParam().layer);
  aggregator.engine().stop();  // Before start.
  Aggregator started(GetParam().core_count, GetParam().layer);
  started.engine().start();
  started.engine().stop();
  started.engine().stop();
}

// --- Sleeping and waking -------------------------------------------------------------------------

/// A port of one queue that never receives anything. Its wait() really sleeps, until woken.
class SleepingPort final : public Port, public PortQueue {
 public:
  [[nodiscard]] uint32_t queue_count() const override { return 1; }
  PortQueue& queue(uint32_t) override { return *this; }
  [[nodiscard]] Endpoint local() const override { return {}; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return 1500; }

  uint32_t receive(std::span<Packet>) override { return 0; }
  void transmit(std::span<const TxPacket>) override {}
  void wait(Duration) override {
    std::unique_lock lock(mutex_);
    asleep_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return woken_; });
    woken_ = false;
    asleep_ = false;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] PortCounters counters() const override { return {}; }

  void wait_until_asleep() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return asleep_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asleep_ = false;
  bool woken_ = false;
};

class Idle {
 public:
  static void begin_burst() {}
  static void process(LiveMachine&) {}
  static void run_timers(LiveMachine&, Instant) {}
  [[nodiscard]] static Instant next_due() { return Instant::never(); }
  static uint32_t owner(std::span<const std::byte>, bool, uint32_t) { return 0; }
};

// Only wake() ends the port's wait(), so a forgotten wake() would hang this test.
TEST(LiveEngineSleep, InspectAndStopWakeASleepingCore) {
  SleepingPort port;
  std::vector<Idle> programs(1);
  LiveEngine<Idle> engine(port, std::move(programs), {});
  engine.start();
  for (uint32_t i = 0; i < 10; i++) {
    port.wait_until_asleep();
    uint32_t looks = 0;
    engine.inspect(
        [&](LiveEngine<Idle>::Core& core) { looks += core.counters().waits > 0 ? 1 : 0; });
    EXPECT_EQ(looks, 1U);
  }
  port.wait_until_asleep();
  engine.stop();
}

// Nobody wakes the core for the later visits.
TEST(LiveEngineSleep, CoreDoesNotSleepWhileAVisitorComesAgain) {
  SleepingPort port;
  LiveEngine<Idle> engine(port, std::vector<Idle>(1), {});
  engine.start();
  port.wait_until_asleep();
  std::vector<uint64_t> bursts;
  engine.visit([&](LiveEngine<Idle>::Core& core, uint32_t) {
    bursts.push_back(core.counters().bursts);
    return bursts.size() < 5;
  });
  ASSERT_EQ(bursts.size(), 5U);
  for (uint32_t i = 1; i < 5; i++) EXPECT_EQ(bursts[i], bursts[0] + i);  // One burst between two.
  engine.stop();
}

// Neither visitor returns before both have begun, so visits in turn would hang this test.
TEST(LiveEngineSleep, TheHalvesOfAVisitReachSeveralEnginesAtOnce) {
  SleepingPort ports[2];
  LiveEngine<Idle> first(ports[0], std::vector<Idle>(1), {});
  LiveEngine<Idle> second(ports[1], std::vector<Idle>(1), {});
  first.start();
  second.start();
  std::latch both_begun(2);
  const LiveEngine<Idle>::Visitor visitor = [&](LiveEngine<Idle>::Core&, uint32_t) {
    both_begun.arrive_and_wait();
    return false;
  };
  first.begin_visit(visitor);
  second.begin_visit(visitor);
  first.end_visit(visitor);
  second.end_visit(visitor);
  EXPECT_TRUE(both_begun.try_wait());
}

TEST(LiveEngineSleep, DestructorStopsTheEngine) {
  SleepingPort port;
  LiveEngine<Idle> engine(port, std::vector<Idle>(1), {});
  engine.start();
  port.wait_until_asleep();
}

TEST(LiveEngineSleep, ACoreIsAwaitedUntilItAnswersAndUntilItEnds) {
  SleepingPort port;
  LiveEngine<Idle> engine(port, std::vector<Idle>(1), {});
  EXPECT_FALSE(engine.is_awaited());
  engine.start();
  bool was_awaited = false;
  engine.inspect([&](LiveEngine<Idle>::Core&) { was_awaited = engine.is_awaited(); });
  EXPECT_TRUE(was_awaited);
  EXPECT_FALSE(engine.is_awaited());
  engine.stop();
  EXPECT_FALSE(engine.is_awaited());
}

TEST(LiveEngineSleep, SpinningCoreDoesNotSleepAtOnce) {
  SleepingPort port;
  LiveEngine<Idle> engine(port, std::vector<Idle>(1), {.spin = seconds(1000)});
  engine.start();
  uint64_t waits = 0;
  uint64_t bursts = 0;
  while (bursts < 1000) {
    engine.inspect([&](LiveEngine<Idle>::Core& core) {
      waits = core.counters().waits;
      bursts = core.counters().bursts;
    });
  }
  EXPECT_EQ(waits, 0U);
  engine.stop();
}

}  // namespace
}  // namespace tributary::engine
