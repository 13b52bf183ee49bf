// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked times of single requests, then of several at one bank, in both fidelities.
#include "engine/model/memory_timing.h"

#include <gtest/gtest.h>

#include "memory/hash_buckets.h"

namespace tributary::engine {
namespace {

using memory::RmwKind;
using microcode::Xtxn;
using microcode::XtxnKind;

class MemoryTimingTest : public ::testing::TestWithParam<Fidelity> {
 protected:
  MemoryTimingTest()
      : memory_(*memory::SharedMemory::create({})), timing_(parameters(GetParam()), memory_) {}

  static Parameters parameters(Fidelity fidelity) {
    Parameters p;
    p.fidelity = fidelity;
    p.rmw_engine_count = 4;
    p.dram_cache_bytes = 4096;
    return p;
  }
  const std::byte* allocate(memory::Range range, uint64_t size_bytes = 64) {
    return memory_.at(*memory_.allocate(range, size_bytes, 64));
  }
  /// Returns the nanoseconds from `at_ns` until the reply.
  int64_t ns(const Xtxn& xtxn, int64_t at_ns, uint32_t train = 1) {
    const Instant at(nanoseconds(at_ns));
    return in_nanoseconds(timing_.access(xtxn, at, train).done_at - at);
  }
  int64_t add_ns(const void* lanes, uint32_t size_bytes, int64_t at_ns) {
    const Instant at(nanoseconds(at_ns));
    return in_nanoseconds(timing_.access(RmwKind::kAdd, lanes, size_bytes, at, 1).done_at - at);
  }

  memory::SharedMemory memory_;
  MemoryTiming timing_;
};

TEST_P(MemoryTimingTest, SramReadTakesLatencyAndACyclePer8Bytes) {
  const std::byte* word = allocate(memory::Range::kSram);
  EXPECT_EQ(ns({XtxnKind::kRead, word, 8}, 1000), 71);
  EXPECT_EQ(ns({XtxnKind::kRead, word, 64}, 2000), 78);
  EXPECT_EQ(ns({XtxnKind::kCounterIncrement, word, 16}, 3000), 72);
  EXPECT_EQ(ns({XtxnKind::kFetchAndOp, word, 4}, 4000), 71);  // Part of a word costs a whole word.
}

TEST_P(MemoryTimingTest, DramAccessMissesThenHitsTheCache) {
  const std::byte* word = allocate(memory::Range::kDram);
  EXPECT_EQ(ns({XtxnKind::kRead, word, 8}, 1000), 351);
  EXPECT_EQ(ns({XtxnKind::kRead, word, 8}, 2000), 71);
  // 4096 bytes further on, another line uses the same place in the cache.
  const std::byte* other = allocate(memory::Range::kDram, 8192);
  EXPECT_EQ(ns({XtxnKind::kRead, other + 4096 - 64, 8}, 3000), 351);
  EXPECT_EQ(ns({XtxnKind::kRead, word, 8}, 4000), 351);
  EXPECT_EQ(timing_.counters().cache_hits, 1U);
  EXPECT_EQ(timing_.counters().cache_misses, 3U);
}

TEST_P(MemoryTimingTest, AddTakesTwoCyclesPerLane) {
  const std::byte* lanes = allocate(memory::Range::kSram);
  EXPECT_EQ(add_ns(lanes, 64, 1000), 70 + 32);
  EXPECT_EQ(add_ns(lanes, 4, 2000), 70 + 4);  // The smallest request has 8 bytes.
}

TEST_P(MemoryTimingTest, RequestsToSeveralEnginesRunInParallel) {
  const std::byte* bytes = allocate(memory::Range::kSram, 256);
  EXPECT_EQ(ns({XtxnKind::kRead, bytes, 256}, 1000), 78);  // Four times 64 bytes on four engines.
  EXPECT_EQ(timing_.counters().requests, 4U);
  EXPECT_EQ(ns({XtxnKind::kRead, bytes + 32, 64}, 2000), 74);  // 32 bytes on each of two.
}

TEST_P(MemoryTimingTest, HashOperationsReadTheirBucketFirst) {
  const std::byte* record = allocate(memory::Range::kSram, 1024);
  EXPECT_EQ(ns({XtxnKind::kHashLookup, record, 8}, 1000), 70 + 71);
  // A scan: 64 records of 8 bytes, so 512 bytes over four engines: two requests of 8 cycles each.
  // In burst, requests of one instant do not wait for each other while the slot has room.
  const int64_t cycles = GetParam() == Fidelity::kExact ? 16 : 8;
  EXPECT_EQ(ns({XtxnKind::kHashScan, record, 8}, 2000), 70 + 70 + cycles);
}

TEST_P(MemoryTimingTest, AScanOfATrainVisitsAWordOfFlagsForEach64Records) {
  const std::byte* flags = allocate(memory::Range::kSram, 1024);
  const auto scan = [&](uint32_t records, uint32_t train) {
    const uint64_t before = timing_.counters().requests;
    (void)ns({XtxnKind::kHashScan, flags, records * memory::kRefFlagBytes}, 1000, train);
    return timing_.counters().requests - before;
  };
  EXPECT_EQ(scan(64, 1), 8U);  // 64 records of 8 bytes: eight requests of 64 bytes.
  EXPECT_EQ(scan(1, 1), 8U);
  EXPECT_EQ(scan(2, 32), 8U);
  EXPECT_EQ(scan(3, 32), 2 * 8U);  // 96 records.
  EXPECT_EQ(scan(64, 32), 32 * 8U);
}

TEST_P(MemoryTimingTest, AHashOperationVisitsTheBucketsOfItsKey) {
  const std::byte* const first = allocate(memory::Range::kSram, 512);
  memory::HashBuckets table({.first = first, .bucket_mask = 7});
  const Xtxn look_up{XtxnKind::kHashLookup, table.home_of(6), memory::kHashBucketBytes, &table};
  EXPECT_EQ(ns(look_up, 1000), 70 + 78);
  EXPECT_EQ(timing_.busy(2), nanoseconds(8));  // Bucket 6 of four banks.
  for (uint32_t i = 0; i < 9; i++) table.insert(6);
  // Three buckets, one after the other, in banks 2, 3 and 0.
  EXPECT_EQ(ns(look_up, 2000), 70 + 3 * 78);
  EXPECT_EQ(timing_.busy(2), nanoseconds(16));
  EXPECT_EQ(timing_.busy(3), nanoseconds(8));
  EXPECT_EQ(timing_.busy(0), nanoseconds(8));
}

TEST_P(MemoryTimingTest, HashOperationsOfOneBucketQueueAtItsBank) {
  if (GetParam() == Fidelity::kBurst) GTEST_SKIP() << "within a slot, burst has no order";
  memory::HashBuckets table({.first = allocate(memory::Range::kSram, 512), .bucket_mask = 7});
  const Xtxn one{XtxnKind::kHashLookup, table.home_of(1), memory::kHashBucketBytes, &table};
  const Xtxn same_bank{XtxnKind::kHashLookup, table.home_of(5), memory::kHashBucketBytes, &table};
  const Xtxn other{XtxnKind::kHashLookup, table.home_of(2), memory::kHashBucketBytes, &table};
  EXPECT_EQ(ns(one, 1000), 70 + 78);
  EXPECT_EQ(ns(same_bank, 1000), 70 + 78 + 8);
  EXPECT_EQ(ns(other, 1000), 70 + 78);
}

TEST_P(MemoryTimingTest, TargetsOutsideSharedMemoryGetSramInOrderOfUse) {
  std::array<uint64_t, 3> counters{};
  EXPECT_EQ(ns({XtxnKind::kCounterIncrement, &counters[2], 16}, 1000), 72);
  EXPECT_EQ(ns({XtxnKind::kCounterIncrement, &counters[0], 16}, 1000), 72);  // Another bank.
  EXPECT_EQ(timing_.busy(0), nanoseconds(2));
  EXPECT_EQ(timing_.busy(1), nanoseconds(2));
}

TEST_P(MemoryTimingTest, TailsDoNotTouchBanks) {
  for (const XtxnKind kind : {XtxnKind::kTailRead, XtxnKind::kTailWrite}) {
    EXPECT_EQ(ns({kind, nullptr, 64}, 0), in_nanoseconds(Parameters().tail_read_latency));
  }
  EXPECT_EQ(timing_.counters().requests, 0U);
}

TEST_P(MemoryTimingTest, TrainOccupiesTheBankForAllAndWaitsForOne) {
  const std::byte* lanes = allocate(memory::Range::kSram);
  const Instant at(nanoseconds(1000));
  EXPECT_EQ(in_nanoseconds(timing_.access(RmwKind::kAdd, lanes, 64, at, 8).done_at - at), 102);
  EXPECT_EQ(timing_.counters().busy, nanoseconds(8 * 32));
  EXPECT_EQ(timing_.counters().requests, 8U);
}

TEST_P(MemoryTimingTest, BackpressureBeginsAtAFullBankQueue) {
  const std::byte* lanes = allocate(memory::Range::kSram);
  const Instant at(nanoseconds(655'360));  // The start of a slot.
  EXPECT_EQ(timing_.backpressure(lanes, at), Duration());
  // 16 requests of 32 cycles fit into the bank's queue; 100 exceed it by far.
  for (uint32_t i = 0; i < 100; i++) (void)timing_.access(RmwKind::kAdd, lanes, 64, at, 1);
  EXPECT_GT(timing_.backpressure(lanes, at), microseconds(1));
  EXPECT_GT(timing_.counters().crossbar_held, Duration());
  EXPECT_EQ(timing_.backpressure(lanes, at + microseconds(20)), Duration());
}

INSTANTIATE_TEST_SUITE_P(Both, MemoryTimingTest,
                         ::testing::Values(Fidelity::kExact, Fidelity::kBurst),
                         [](const auto& param) {
                           return param.param == Fidelity::kExact ? "Exact" : "Burst";
                         });

using ExactMemoryTiming = MemoryTimingTest;
TEST_P(ExactMemoryTiming, BankServesInOrderOfArrival) {
  const std::byte* lanes = allocate(memory::Range::kSram);
  // Each is 32 cycles long; the second arrives 10 ns after the first and waits 22, the third 44.
  EXPECT_EQ(add_ns(lanes, 64, 1000), 102);
  EXPECT_EQ(add_ns(lanes, 64, 1010), 102 + 22);
  EXPECT_EQ(add_ns(lanes, 64, 1020), 102 + 44);
  EXPECT_EQ(add_ns(lanes, 64, 1200), 102);  // All are done at 1035 + 96.
  EXPECT_EQ(timing_.counters().queued, nanoseconds(66));
}
INSTANTIATE_TEST_SUITE_P(Exact, ExactMemoryTiming, ::testing::Values(Fidelity::kExact));

}  // namespace
}  // namespace tributary::engine
