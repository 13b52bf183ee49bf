// SPDX-License-Identifier: Apache-2.0
// Method: the C interface as a program uses it. The ranks of one process use a live aggregator in
// the same process over loopback sockets. Sums by hand, every type, several operations at once,
// reports of missing ranks. c_api_failures_test.cc tests failures. Every wait has a deadline;
// nothing sleeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host/formats/half_format.h"
#include "tests/host/c_api/c_api_bed.h"
#include "tests/host/live_server.h"

namespace tributary::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CApi, ReportsAbiVersionAndStatusNames) {
  EXPECT_EQ(tributary_abi(), static_cast<uint32_t>(TRIBUTARY_ABI));
  EXPECT_STREQ(tributary_version(), "0.1.0");
  EXPECT_STREQ(tributary_status_name(TRIBUTARY_OK), "ok");
  EXPECT_STREQ(tributary_status_name(TRIBUTARY_DESYNCHRONISED), "desynchronised");
  EXPECT_STREQ(tributary_status_name(TRIBUTARY_CLOSED), "closed");
  EXPECT_STREQ(tributary_status_name(TRIBUTARY_OVERLAP), "overlap");
  EXPECT_STREQ(tributary_status_name(11), "unknown");
  EXPECT_STREQ(tributary_status_name(-1), "unknown");
}

/// Reduces `tensors[rank]` on all ranks; each operation must succeed.
template <class T>
void reduce_all(const std::vector<Rank>& ranks, std::vector<std::vector<T>>& tensors, int32_t type,
                int32_t op) {
  std::vector<Reduction> operations;
  for (size_t rank = 0; rank < ranks.size(); rank++) {
    operations.push_back(start(ranks[rank], tensors[rank], type, op));
  }
  for (const Reduction& operation : operations) {
    ASSERT_EQ(wait(operation), TRIBUTARY_OK) << tributary_error_text();
    EXPECT_STREQ(tributary_operation_text(operation.get()), "");
  }
}

TEST(CApi, ComputesSumsAndMeansOfEveryType) {
  const Server server(3);
  const std::vector<Rank> ranks = join_all(server.local(), 3);

  std::vector<std::vector<int32_t>> integers;
  for (int32_t rank = 0; rank < 3; rank++) integers.emplace_back(3000, rank * 10 - 7);
  reduce_all(ranks, integers, TRIBUTARY_INT32, TRIBUTARY_SUM);
  EXPECT_THAT(integers, Each(Each(9)));  // -7 + 3 + 13
  reduce_all(ranks, integers, TRIBUTARY_INT32, TRIBUTARY_MEAN);
  EXPECT_THAT(integers, Each(Each(9)));

  // Large and small values side by side: no scale has to be chosen.
  std::vector<std::vector<float>> floats;
  for (uint32_t rank = 0; rank < 3; rank++) {
    floats.emplace_back(2500, 1e6F);
    floats.back().resize(5000, 1e-12F * static_cast<float>(rank));
  }
  reduce_all(ranks, floats, TRIBUTARY_FLOAT32, TRIBUTARY_SUM);
  for (const auto& tensor : floats) {
    EXPECT_EQ(tensor[0], 3e6F);
    EXPECT_FLOAT_EQ(tensor[4999], 3e-12F);
  }

  for (const auto& [type, half] : {std::pair{TRIBUTARY_FLOAT16, host::HalfType::kFloat16},
                                   std::pair{TRIBUTARY_BFLOAT16, host::HalfType::kBfloat16}}) {
    std::vector<std::vector<uint16_t>> halves;
    for (const double value : {1.0, 2.0, 0.25}) {
      halves.emplace_back(1500, host::narrow_half(value, half));
    }
    reduce_all(ranks, halves, type, TRIBUTARY_SUM);
    EXPECT_THAT(halves, Each(Each(host::narrow_half(3.25, half))));
    reduce_all(ranks, halves, type, TRIBUTARY_MEAN);
    EXPECT_THAT(halves, Each(Each(host::narrow_half(3.25, half))));
  }
}

TEST(CApi, OneRankGetsTheResultOfAReduction) {
  const Server server(3);
  const std::vector<Rank> ranks = join_all(server.local(), 3);
  for (uint32_t root = 0; root < 3; root++) {
    std::vector<std::vector<float>> tensors{std::vector<float>(3000, 1.0F),
                                            std::vector<float>(3000, 2.0F),
                                            std::vector<float>(3000, 6.0F)};
    const auto before = tensors;
    std::vector<Reduction> operations;
    for (uint32_t rank = 0; rank < 3; rank++) {
      tributary_operation* raw = nullptr;
      ASSERT_EQ(tributary_reduce_async(ranks[rank].get(), tensors[rank].data(), 3000,
                                       TRIBUTARY_FLOAT32, TRIBUTARY_MEAN, root, 0, &raw),
                TRIBUTARY_OK);
      operations.emplace_back(raw);
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
      ASSERT_EQ(wait(operations[rank]), TRIBUTARY_OK) << tributary_error_text();
      EXPECT_EQ(report_of(operations[rank]).blocks, report_of(operations[0]).blocks);
      EXPECT_THAT(tensors[rank], Each(rank == root ? 3.0F : before[rank][0]));
    }
  }
}

TEST(CApi, RefusesARootOutsideTheJob) {
  const Server server(1);
  const std::vector<Rank> ranks = join_all(server.local(), 1);
  float value = 1;
  tributary_operation* raw = nullptr;
  EXPECT_EQ(tributary_reduce_async(ranks[0].get(), &value, 1, TRIBUTARY_FLOAT32, TRIBUTARY_SUM, 1,
                                   0, &raw),
            TRIBUTARY_INVALID);
  EXPECT_STREQ(tributary_error_text(), "root=1 is not allowed; allowed: 0 to 0");
  EXPECT_EQ(raw, nullptr);
}

// Nobody would answer: an asynchronous job answers pushes.
TEST(CApi, RefusesToReceiveFromAnAsynchronousJob) {
  trio_ml::JobConfig job = Server::job_of(1);
  job.asynchronous = true;
  job.parameters = 10;
  const Server server(job);
  const std::vector<Rank> ranks = join_all(server.local(), 1, "&asynchronous=on");
  std::vector<float> tensor(10);
  tributary_operation* raw = nullptr;
  EXPECT_EQ(tributary_receive_async(ranks[0].get(), tensor.data(), tensor.size(), TRIBUTARY_FLOAT32,
                                    TRIBUTARY_SUM, &raw),
            TRIBUTARY_INVALID);
  EXPECT_THAT(tributary_error_text(), HasSubstr("only receives is not allowed with asynchronous"));
  EXPECT_EQ(raw, nullptr);
}

TEST(CApi, SixteenBitSumsAreRoundedOnce) {
  const Server server(3);
  const std::vector<Rank> ranks = join_all(server.local(), 3);
  // In binary16, 2048 + 1 is 2048: a sum rounded after each addition would stay there.
  std::vector<std::vector<uint16_t>> halves;
  for (const double value : {2048.0, 1.0, 1.0}) {
    halves.emplace_back(10, host::narrow_half(value, host::HalfType::kFloat16));
  }
  reduce_all(ranks, halves, TRIBUTARY_FLOAT16, TRIBUTARY_SUM);
  EXPECT_THAT(halves, Each(Each(host::narrow_half(2050.0, host::HalfType::kFloat16))));
}

TEST(CApi, AnyThreadMayWaitForConcurrentOperations) {
  const Server server(2);
  const std::vector<Rank> ranks = join_all(server.local(), 2);
  std::vector<std::vector<float>> tensors(2, std::vector<float>(20'000, 1.0F));
  std::vector<std::thread> waiters;
  std::vector<Reduction> operations;
  for (uint32_t part = 0; part < 10; part++) {
    for (uint32_t rank = 0; rank < 2; rank++) {  // Adjacent ranges touch, but do not overlap.
      tributary_operation* operation = nullptr;
      ASSERT_EQ(tributary_all_reduce_async(ranks[rank].get(), &tensors[rank][part * 2000], 2000,
                                           TRIBUTARY_FLOAT32, TRIBUTARY_SUM, &operation),
                TRIBUTARY_OK)
          << tributary_error_text();
      operations.emplace_back(operation);
    }
  }
  for (size_t i = operations.size(); i-- > 0;) {
    for (uint32_t times = 0; times < 2; times++) {
      waiters.emplace_back(
          [operation = operations[i].get()] { EXPECT_EQ(tributary_wait(operation, -1), 0); });
    }
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_THAT(tensors, Each(Each(2.0F)));
}

TEST(CApi, ReducesManySmallAndEmptyTensors) {
  const Server server(2);
  const std::vector<Rank> ranks = join_all(server.local(), 2);
  std::vector<std::thread> threads;
  for (const Rank& rank : ranks) {
    threads.emplace_back([&rank] {
      for (int32_t i = 0; i < 500; i++) {
        auto value = static_cast<float>(i);
        ASSERT_EQ(tributary_all_reduce(rank.get(), &value, 1, TRIBUTARY_FLOAT32, TRIBUTARY_MEAN),
                  TRIBUTARY_OK)
            << tributary_error_text();
        ASSERT_FLOAT_EQ(value, static_cast<float>(i));
      }
      EXPECT_EQ(tributary_all_reduce(rank.get(), nullptr, 0, TRIBUTARY_FLOAT16, TRIBUTARY_SUM),
                TRIBUTARY_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
  tributary_counters counters{};
  ASSERT_EQ(tributary_get_counters(ranks[0].get(), &counters, sizeof counters), TRIBUTARY_OK);
  EXPECT_GE(counters.blocks, 1000U);  // One for the exponent and one for the value of each call.
  EXPECT_GE(counters.packets_sent, 1000U);
  EXPECT_GE(counters.packets_received, 1000U);
  EXPECT_EQ(counters.degraded_blocks, 0U);
}

TEST(CApi, RanksAgreeOnTheSmallestRequest) {
  const Server server(2);
  std::vector<Rank> ranks(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; rank++) {
    threads.emplace_back([&, rank] {
      const char* terms = rank == 0 ? "&gradients=100&window=5" : "&gradients=64&window=10";
      tributary_communicator* joined = nullptr;
      ASSERT_EQ(tributary_join(url_of(server.local(), rank, 2, terms).c_str(), &joined), 0)
          << tributary_error_text();
      ranks[rank].reset(joined);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t rank = 0; rank < 2; rank++) {
    const tributary_info info = info_of(ranks[rank]);
    EXPECT_EQ(info.rank, rank);
    EXPECT_EQ(info.world, 2U);
    EXPECT_EQ(info.job, 1U);
    EXPECT_EQ(info.gradients, 64U);
    EXPECT_EQ(info.window, 5U);
    EXPECT_EQ(info.straggler_timeout_us, 0U);
    EXPECT_EQ(info.deadline_ms, kLongMs);
  }
  std::vector<std::vector<float>> tensors(2, std::vector<float>(1000, 0.5F));
  reduce_all(ranks, tensors, TRIBUTARY_FLOAT32, TRIBUTARY_SUM);
  EXPECT_THAT(tensors, Each(Each(1.0F)));
}

TEST(CApi, AutoStaysWithinTheJobsLimits) {
  const Server server(1);  // The job allows at most 1024 gradients.
  const std::vector<Rank> ranks = join_all(server.local(), 1);
  EXPECT_LE(info_of(ranks[0]).gradients, 1024U);
  EXPECT_GE(info_of(ranks[0]).window, 16U);
}

TEST(CApi, CallersWithShorterStructsGetTheirPart) {
  const Server server(1);
  const std::vector<Rank> ranks = join_all(server.local(), 1);
  tributary_info info;
  std::memset(&info, 0xee, sizeof info);
  ASSERT_EQ(tributary_get_info(ranks[0].get(), &info, 2 * sizeof(uint32_t)), TRIBUTARY_OK);
  EXPECT_EQ(info.world, 1U);
  EXPECT_EQ(info.job, 0xeeeeeeeeU);
  struct {
    tributary_info known;
    uint64_t added_later = 7;
  } newer;
  ASSERT_EQ(tributary_get_info(ranks[0].get(), &newer.known, sizeof newer), TRIBUTARY_OK);
  EXPECT_EQ(newer.known.world, 1U);
  EXPECT_EQ(newer.added_later, 0U);
}

TEST(CApi, ReportsNameTheMissingRankOfEachRange) {
  trio_ml::JobConfig job = Server::job_of(3);
  job.mitigation = true;
  const Server server(job);
  const std::vector<Rank> ranks = join_all(server.local(), 3, "&gradients=100");
  EXPECT_EQ(info_of(ranks[0]).straggler_timeout_us, 10'000U);
  // Rank 1 does not take part, so every block of the others ages out.
  std::vector<std::vector<float>> tensors(3, std::vector<float>(950, 6.0F));
  const Reduction first = start(ranks[0], tensors[0], TRIBUTARY_FLOAT32, TRIBUTARY_MEAN);
  const Reduction third = start(ranks[2], tensors[2], TRIBUTARY_FLOAT32, TRIBUTARY_MEAN);
  for (const Reduction* operation : {&first, &third}) {
    ASSERT_EQ(wait(*operation), TRIBUTARY_OK) << tributary_error_text();
    const tributary_report report = report_of(*operation);
    EXPECT_EQ(report.status, TRIBUTARY_OK);
    EXPECT_EQ(report.blocks, 10U);
    EXPECT_EQ(report.degraded_blocks, 10U);
    EXPECT_EQ(report.missing[0], 2U);  // Rank 1.
    ASSERT_EQ(report.range_count, 1U);
    tributary_degraded_range range{};
    ASSERT_EQ(tributary_operation_degraded(operation->get(), 0, &range, sizeof range), 0);
    EXPECT_EQ(range.element_first, 0U);
    EXPECT_EQ(range.element_count, 950U);
    EXPECT_EQ(range.missing[0], 2U);
    EXPECT_EQ(tributary_operation_degraded(operation->get(), 1, &range, sizeof range),
              TRIBUTARY_INVALID);
    EXPECT_STREQ(tributary_error_text(),
                 "index=1 is not allowed; the operation has 1 degraded ranges");
  }
  EXPECT_THAT(tensors[0], Each(6.0F));  // Divided by the two ranks that took part.
}

TEST(CApi, UnderflowIsReportedWithAWarning) {
  const Server server(Server::job_of(1));
  const std::vector<Rank> ranks = join_all(server.local(), 1, "&format=fixed&scale=100");
  std::vector<float> tensor{1.0F, 0.001F, 0.0F, -0.001F};
  const Reduction operation = start(ranks[0], tensor, TRIBUTARY_FLOAT32);
  ASSERT_EQ(wait(operation), TRIBUTARY_OK);
  const tributary_report report = report_of(operation);
  EXPECT_EQ(report.nonzero, 3U);
  EXPECT_EQ(report.underflowed, 2U);
  EXPECT_EQ(report.imprecise_blocks, 0U);
  EXPECT_THAT(tributary_operation_warning(operation.get()),
              StartsWith("2 of 3 non-zero elements were too small and counted as 0"));
  tributary_counters counters{};
  ASSERT_EQ(tributary_get_counters(ranks[0].get(), &counters, sizeof counters), TRIBUTARY_OK);
  EXPECT_EQ(counters.underflowed, 2U);

  tensor = {1.0F, 2.0F};
  const Reduction exact = start(ranks[0], tensor, TRIBUTARY_FLOAT32);
  ASSERT_EQ(wait(exact), TRIBUTARY_OK);
  EXPECT_STREQ(tributary_operation_warning(exact.get()), "");
  EXPECT_STREQ(tributary_operation_warning(nullptr), "");
}

TEST(CApi, LateRankReceivesTheOthersResults) {
  trio_ml::JobConfig job = Server::job_of(2);
  job.mitigation = true;
  const Server server(job);
  const std::vector<Rank> ranks = join_all(server.local(), 2, "&gradients=100&window=4");
  const auto progress_of = [](const Rank& rank) {
    tributary_progress progress{};
    EXPECT_EQ(tributary_get_progress(rank.get(), &progress, sizeof progress), TRIBUTARY_OK);
    return progress;
  };
  EXPECT_EQ(progress_of(ranks[1]).submitted, 0U);
  std::vector<float> made(950, 6.0F);
  std::vector<float> taken(950, 99.0F);
  ASSERT_EQ(wait(start(ranks[0], made, TRIBUTARY_FLOAT32)), TRIBUTARY_OK);
  // Ten blocks, and the exponents of the first window.
  EXPECT_EQ(progress_of(ranks[0]).submitted, 14U);
  tributary_operation* raw = nullptr;
  ASSERT_EQ(tributary_receive_async(ranks[1].get(), taken.data(), taken.size(), TRIBUTARY_FLOAT32,
                                    TRIBUTARY_SUM, &raw),
            TRIBUTARY_OK);
  const Reduction late(raw);
  ASSERT_EQ(wait(late), TRIBUTARY_OK) << tributary_error_text();
  EXPECT_EQ(taken, made);
  EXPECT_EQ(report_of(late).missing[0], 2U);  // Rank 1 itself.
  EXPECT_EQ(tributary_get_progress(ranks[0].get(), nullptr, 0), TRIBUTARY_INVALID);
  EXPECT_STREQ(tributary_error_text(), "progress is NULL");
}

TEST(CApi, LargerValuesOfAStragglerFit) {
  trio_ml::JobConfig job = Server::job_of(2);
  job.mitigation = true;
  const Server server(job);
  const std::vector<Rank> ranks = join_all(server.local(), 2, "&gradients=100&window=4");
  std::vector<std::vector<float>> tensors{std::vector<float>(2000, 1.0F),
                                          std::vector<float>(2000, 100.0F)};
  // Rank 1 starts after the exponents of the first blocks have been agreed without it. The value
  // 100 must fit into every sum that includes rank 1, although 1 was the largest value known.
  const Reduction first = start(ranks[0], tensors[0], TRIBUTARY_FLOAT32);
  while (tributary_wait(first.get(), 0) == TRIBUTARY_PENDING) {
    tributary_counters counters{};
    ASSERT_EQ(tributary_get_counters(ranks[0].get(), &counters, sizeof counters), 0);
    if (counters.degraded_blocks > 0) break;
    std::this_thread::yield();
  }
  const Reduction second = start(ranks[1], tensors[1], TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(first), TRIBUTARY_OK) << tributary_error_text();
  const tributary_status late = wait(second);
  EXPECT_TRUE(late == TRIBUTARY_OK || late == TRIBUTARY_DESYNCHRONISED) << tributary_error_text();
}

/// Keeps the events of one rank.
struct Watcher {
  struct Seen {
    int32_t kind;
    uint64_t ranks;
    std::string text;
  };
  static void on_event(const tributary_event* event, void* context) {
    auto& watcher = *static_cast<Watcher*>(context);
    const std::lock_guard lock(watcher.mutex);
    watcher.seen.push_back({event->kind, event->ranks[0], event->text});
    watcher.changed.notify_all();
  }
  /// Waits for an event of this kind. @return the first one.
  Seen wait_for(int32_t kind) {
    std::unique_lock lock(mutex);
    const auto found = [&] {
      return std::find_if(seen.begin(), seen.end(),
                          [kind](const Seen& each) { return each.kind == kind; });
    };
    changed.wait_for(lock, std::chrono::milliseconds(kLongMs),
                     [&] { return found() != seen.end(); });
    const auto first = found();
    EXPECT_NE(first, seen.end()) << "no event of kind " << kind;
    return first == seen.end() ? Seen{} : *first;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Seen> seen;
};

TEST(CApi, AWatchedRankSaysForWhomItWaits) {
  const Server server(2);
  Watcher watcher;
  Rank first;
  std::thread joining([&] {
    tributary_communicator* joined = nullptr;
    EXPECT_EQ(tributary_join_watched(url_of(server.local(), 0, 2).c_str(), &Watcher::on_event,
                                     &watcher, &joined),
              TRIBUTARY_OK);
    first.reset(joined);
  });
  EXPECT_THAT(watcher.wait_for(TRIBUTARY_EVENT_WAITING).text,
              StartsWith("rank 1 has not joined job 1"));
  tributary_communicator* joined = nullptr;
  ASSERT_EQ(tributary_join(url_of(server.local(), 1, 2).c_str(), &joined), TRIBUTARY_OK);
  const Rank second(joined);
  joining.join();

  {
    const std::lock_guard lock(watcher.mutex);
    watcher.seen.clear();
  }
  std::vector<float> tensor(100, 1.0F);
  const Reduction operation = start(first, tensor, TRIBUTARY_FLOAT32);
  const Watcher::Seen wait_seen = watcher.wait_for(TRIBUTARY_EVENT_WAITING);
  EXPECT_EQ(wait_seen.ranks, 0b10U);
  EXPECT_THAT(wait_seen.text, StartsWith("rank 1 has not contributed to block"));
  std::vector<float> other(100, 2.0F);
  const Reduction its = start(second, other, TRIBUTARY_FLOAT32);
  EXPECT_EQ(wait(operation), TRIBUTARY_OK);
  EXPECT_EQ(wait(its), TRIBUTARY_OK);
}

TEST(CApi, AWatchedRankHearsOfDegradedResultsAndStragglers) {
  const Server server({.id = 1,
                       .sources = 2,
                       .mitigation = true,
                       .timeout = milliseconds(20),
                       .permanent_after = milliseconds(200)});
  Watcher watcher;
  Rank first;
  std::thread joining([&] {
    tributary_communicator* joined = nullptr;
    EXPECT_EQ(tributary_join_watched(url_of(server.local(), 0, 2).c_str(), &Watcher::on_event,
                                     &watcher, &joined),
              TRIBUTARY_OK);
    first.reset(joined);
  });
  tributary_communicator* joined = nullptr;
  ASSERT_EQ(tributary_join(url_of(server.local(), 1, 2).c_str(), &joined), TRIBUTARY_OK);
  const Rank second(joined);
  joining.join();

  std::vector<int32_t> tensor(100, 1);
  EXPECT_EQ(wait(start(first, tensor, TRIBUTARY_INT32)), TRIBUTARY_OK);
  const Watcher::Seen degraded = watcher.wait_for(TRIBUTARY_EVENT_DEGRADED);
  EXPECT_EQ(degraded.ranks, 0b10U);
  EXPECT_EQ(degraded.text, "1 of 1 blocks lack rank 1");
  // Blocks that age out without the rank for a whole period make it a permanent straggler.
  EXPECT_EQ(wait(start(first, tensor, TRIBUTARY_INT32)), TRIBUTARY_OK);
  EXPECT_EQ(watcher.wait_for(TRIBUTARY_EVENT_STRAGGLER).ranks, 0b10U);
}

}  // namespace
}  // namespace tributary::testing
