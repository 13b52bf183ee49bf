// SPDX-License-Identifier: Apache-2.0
// Measures the cost of handing a packet to another core: the engine's mailbox, DPDK's ring and
// moodycamel's queue. All copy the packet into one of the same number of buffers. The libraries get
// one queue for packets and one that returns buffers, with single producer and consumer and whole
// bursts. The owner adds the payload to lanes, as an aggregation does.
//
// "between_cores" uses two threads on a CPU each and measures both together, including the transfer
// between the cores. "by_turns" does the same in one thread and measures only the calls.
//
//   ninja -C build/release hand_off_bench && build/release/hand_off_bench --benchmark_repetitions=9
#include <benchmark/benchmark.h>
#include <rte_ring.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define TRIB_HAS_CONCURRENTQUEUE
#endif

#include "bench/measure.h"
#include "engine/live/mailbox.h"
#include "memory/lanes.h"

namespace tributary::engine {
namespace {

constexpr uint32_t kBurst = 64;
constexpr uint32_t kBufferBytes = 4096 + 64;
constexpr uint64_t kPacketsEach = 200'000;

class NoQueue final : public PortQueue {
 public:
  uint32_t receive(std::span<Packet>) override { return 0; }
  void transmit(std::span<const TxPacket>) override {}
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] PortCounters counters() const override { return {}; }
};

/// The engine's mailbox, as LiveCore uses it.
class ByMailbox {
 public:
  /// @return packets handed over; there was no room for the rest of the burst.
  uint32_t post(std::span<const Packet> burst) {
    uint32_t posted = 0;
    while (posted < burst.size() && mailbox_.post(1, burst[posted])) posted++;
    if (posted > 0) mailbox_.deliver(1);
    return posted;
  }
  uint32_t take(std::span<Packet> burst) { return mailbox_.take(burst); }
  void free_taken() { mailbox_.free_taken(); }

 private:
  NoQueue queue_;
  Mailbox mailbox_{kBufferBytes, 2, queue_};
};

/// A buffer that travels there and back as a pointer in two queues.
struct Buffer {
  Packet packet;
  std::byte* bytes;
};

template <class Queue>
class ByQueues {
 public:
  ByQueues() : bytes_(size_t{Mailbox::kLaneBuffers} * kBufferBytes) {
    std::array<Buffer*, Mailbox::kLaneBuffers> all{};
    for (uint32_t i = 0; i < all.size(); i++) {
      buffers_[i].bytes = &bytes_[size_t{i} * kBufferBytes];
      all[i] = &buffers_[i];
    }
    free_.put(all);
  }
  uint32_t post(std::span<const Packet> burst) {
    std::array<Buffer*, kBurst> buffers{};
    const uint32_t count = free_.get(std::span(buffers).first(burst.size()));
    for (uint32_t i = 0; i < count; i++) {
      std::memcpy(buffers[i]->bytes, burst[i].data, burst[i].size);
      buffers[i]->packet = burst[i];
      buffers[i]->packet.data = buffers[i]->bytes;
    }
    if (count > 0) posted_.put(std::span(buffers).first(count));
    return count;
  }
  uint32_t take(std::span<Packet> burst) {
    taken_count_ = posted_.get(std::span(taken_).first(burst.size()));
    for (uint32_t i = 0; i < taken_count_; i++) burst[i] = taken_[i]->packet;
    return taken_count_;
  }
  void free_taken() {
    if (taken_count_ > 0) free_.put(std::span(taken_).first(taken_count_));
    taken_count_ = 0;
  }

 private:
  std::vector<std::byte> bytes_;
  std::array<Buffer, Mailbox::kLaneBuffers> buffers_{};
  Queue posted_;
  Queue free_;
  std::array<Buffer*, kBurst> taken_{};
  uint32_t taken_count_ = 0;
};

class RteRing {
 public:
  RteRing() {
    constexpr uint32_t kSlots = 2 * Mailbox::kLaneBuffers;  // One is never used.
    const auto bytes = static_cast<size_t>(rte_ring_get_memsize(kSlots));
    ring_.reset(static_cast<rte_ring*>(std::aligned_alloc(RTE_CACHE_LINE_SIZE, bytes)));
    rte_ring_init(ring_.get(), "hand_off", kSlots, RING_F_SP_ENQ | RING_F_SC_DEQ);
  }
  void put(std::span<Buffer* const> buffers) {
    rte_ring_sp_enqueue_bulk(ring_.get(), reinterpret_cast<void* const*>(buffers.data()),
                             static_cast<unsigned>(buffers.size()), nullptr);
  }
  uint32_t get(std::span<Buffer*> buffers) {
    return rte_ring_sc_dequeue_burst(ring_.get(), reinterpret_cast<void**>(buffers.data()),
                                     static_cast<unsigned>(buffers.size()), nullptr);
  }

 private:
  struct Free {
    void operator()(rte_ring* ring) const { std::free(ring); }
  };
  std::unique_ptr<rte_ring, Free> ring_;
};

#ifdef TRIB_HAS_CONCURRENTQUEUE
class Moodycamel {
 public:
  void put(std::span<Buffer* const> buffers) {
    queue_.try_enqueue_bulk(producer_, buffers.data(), buffers.size());
  }
  uint32_t get(std::span<Buffer*> buffers) {
    return static_cast<uint32_t>(
        queue_.try_dequeue_bulk(consumer_, buffers.data(), buffers.size()));
  }

 private:
  moodycamel::ConcurrentQueue<Buffer*> queue_{8 * Mailbox::kLaneBuffers};
  moodycamel::ProducerToken producer_{queue_};
  moodycamel::ConsumerToken consumer_{queue_};
};
#endif

/// A receive queue's packets, used repeatedly, and the lanes to which they are added.
class Work {
 public:
  explicit Work(uint32_t payload_bytes)
      : bytes_(size_t{kBurst} * kBufferBytes), lanes_(payload_bytes / sizeof(int32_t)) {
    for (uint32_t i = 0; i < kBurst; i++) {
      burst_[i].data = &bytes_[size_t{i} * kBufferBytes];
      burst_[i].size = payload_bytes;
    }
  }
  [[nodiscard]] std::span<const Packet> burst() const { return burst_; }
  void aggregate(std::span<const Packet> packets) {
    for (const Packet& packet : packets) {
      memory::add_be32(lanes_.data(), packet.data, static_cast<uint32_t>(lanes_.size()));
    }
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<int32_t> lanes_;
  std::array<Packet, kBurst> burst_{};
};

template <class HandOff>
uint32_t serve(HandOff& hand_off, Work& work) {
  std::array<Packet, kBurst> burst;
  const uint32_t count = hand_off.take(burst);
  work.aggregate(std::span(burst).first(count));
  hand_off.free_taken();
  return count;
}

template <class HandOff>
void by_turns(benchmark::State& state) {
  HandOff hand_off;
  Work work(static_cast<uint32_t>(state.range(0)));
  int64_t packets = 0;
  for (auto _ : state) {
    hand_off.post(work.burst());
    packets += serve(hand_off, work);
  }
  state.SetItemsProcessed(packets);
}

template <class HandOff>
void between_cores(benchmark::State& state) {
  const std::vector<int> cpus = cpus_allowed();
  if (cpus.size() < 2) return state.SkipWithError("one CPU");
  HandOff hand_off;
  Work work(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) {
    std::atomic<bool> ready{false};
    std::thread poster([&] {
      pin_to_cpu(cpus[0]);
      ready.store(true, std::memory_order_release);
      for (uint64_t posted = 0; posted < kPacketsEach;) {
        const size_t left = std::min<size_t>(kBurst, kPacketsEach - posted);
        posted += hand_off.post(work.burst().first(left));
      }
    });
    std::thread owner([&] {
      pin_to_cpu(cpus[1]);
      while (!ready.load(std::memory_order_acquire)) {
      }
      const auto begin = std::chrono::steady_clock::now();
      for (uint64_t taken = 0; taken < kPacketsEach;) taken += serve(hand_off, work);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      state.SetIterationTime(took.count());
    });
    poster.join();
    owner.join();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kPacketsEach));
}

#define HAND_OFF(Kind)                                                \
  BENCHMARK_TEMPLATE(by_turns, Kind)->Arg(256)->Arg(1024)->Arg(4096); \
  BENCHMARK_TEMPLATE(between_cores, Kind)->Arg(256)->Arg(1024)->Arg(4096)->UseManualTime()

HAND_OFF(ByMailbox);
HAND_OFF(ByQueues<RteRing>);
#ifdef TRIB_HAS_CONCURRENTQUEUE
HAND_OFF(ByQueues<Moodycamel>);
#endif

}  // namespace
}  // namespace tributary::engine
