// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked orders first, then the limits, then random schedules on both queues against a
// sorted list. The handlers schedule further events, as modelled components do.
#include "base/event_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "tests/support/seed.h"

namespace tributary {
namespace {

using Queue = EventCore::Queue;

Instant at_ns(int64_t count) { return Instant(nanoseconds(count)); }
Instant at_ticks(int64_t count) { return Instant(Duration::from_ticks(count)); }

/// Records each event and its time, then calls `then` to schedule more.
struct Recorder final : EventTarget {
  explicit Recorder(EventCore& event_core) : core(event_core) {}
  void on_event(uint64_t argument) override {
    seen.emplace_back(core.now().since_start().ticks(), argument);
    if (then) then(argument);
  }
  EventCore& core;
  std::vector<std::pair<int64_t, uint64_t>> seen;
  std::function<void(uint64_t)> then;
};

class EventCoreOrder : public ::testing::TestWithParam<Queue> {};
INSTANTIATE_TEST_SUITE_P(Queues, EventCoreOrder, ::testing::Values(Queue::kCalendar, Queue::kHeap),
                         [](const auto& chosen) {
                           return chosen.param == Queue::kHeap ? "heap" : "calendar";
                         });

TEST_P(EventCoreOrder, OrdersByTimePriorityAndSequence) {
  EventCore core(GetParam());
  Recorder target(core);
  core.schedule(at_ns(2), EventPriority::kControl, target, 1);
  core.schedule(at_ns(2), EventPriority::kArrival, target, 2);
  core.schedule(at_ns(1), EventPriority::kControl, target, 3);
  core.schedule(at_ns(2), EventPriority::kHost, target, 4);
  core.schedule(at_ns(2), EventPriority::kMachine, target, 5);
  core.schedule(at_ns(2), EventPriority::kArrival, target, 6);
  while (core.run_next()) continue;
  const std::vector<std::pair<int64_t, uint64_t>> expected{{100, 3}, {200, 2}, {200, 6},
                                                           {200, 5}, {200, 4}, {200, 1}};
  EXPECT_EQ(target.seen, expected);
  EXPECT_EQ(core.executed_count(), 6u);
  EXPECT_EQ(core.now(), at_ns(2));
  EXPECT_EQ(core.next_at(), Instant::never());
}

TEST_P(EventCoreOrder, OrdersEventsThatAHandlerAddsForTheSameTime) {
  EventCore core(GetParam());
  Recorder target(core);
  target.then = [&](uint64_t argument) {
    if (argument != 1) return;
    core.schedule(core.now(), EventPriority::kControl, target, 10);
    core.schedule(core.now(), EventPriority::kArrival, target, 11);  // Before 2, by its priority.
  };
  core.schedule(at_ns(5), EventPriority::kArrival, target, 1);
  core.schedule(at_ns(5), EventPriority::kHost, target, 2);
  core.run_until(at_ns(5));
  const std::vector<std::pair<int64_t, uint64_t>> expected{
      {500, 1}, {500, 11}, {500, 2}, {500, 10}};
  EXPECT_EQ(target.seen, expected);
}

TEST_P(EventCoreOrder, RunUntilIncludesItsLimitAndSetsTheTime) {
  EventCore core(GetParam());
  Recorder target(core);
  core.schedule(at_ns(10), EventPriority::kHost, target, 1);
  core.schedule(at_ns(11), EventPriority::kHost, target, 2);
  core.run_until(at_ns(10));
  EXPECT_EQ(target.seen.size(), 1u);
  core.schedule(at_ns(10), EventPriority::kHost, target, 3);  // Before the one seen.
  EXPECT_EQ(core.next_at(), at_ns(10));
  EXPECT_EQ(core.pending_count(), 2u);
  core.run_until(at_ns(20));
  EXPECT_EQ(core.now(), at_ns(20));
  ASSERT_EQ(target.seen.size(), 3u);
  EXPECT_EQ(target.seen[1].second, 3u);
}

TEST_P(EventCoreOrder, RunUntilDoneStopsAtItsConditionOrBeforeItsLimit) {
  EventCore core(GetParam());
  Recorder target(core);
  for (uint64_t i = 1; i <= 5; i++) {
    core.schedule(at_ns(static_cast<int64_t>(i)), EventPriority::kHost, target, i);
  }
  EXPECT_TRUE(core.run_until(at_ns(100), [&] { return target.seen.size() == 2; }));
  EXPECT_EQ(core.now(), at_ns(2));
  EXPECT_FALSE(core.run_until(at_ns(4), [&] { return target.seen.size() == 5; }));
  EXPECT_EQ(core.now(), at_ns(4));
}

TEST(EventCoreDeath, RejectsAnEventInThePast) {
  EventCore core;
  Recorder target(core);
  core.run_until(at_ns(10));
  EXPECT_DEATH(core.schedule(at_ns(9), EventPriority::kHost, target, 0), "at >= now_");
  EXPECT_DEATH(core.schedule(Instant::never(), EventPriority::kHost, target, 0), "kLatest");
}

/// The simplest model: all pending events in a sorted map.
using ModelKey = std::tuple<int64_t, uint8_t, uint64_t>;

/// A load: a distribution of the time until the next event. Mixes are hard for calendar queues.
struct Load {
  const char* name;
  uint32_t pending;
  Duration (*ahead)(Prng&);
};

Duration ticks_below(Prng& prng, uint32_t bound) { return Duration::from_ticks(prng.below(bound)); }

const Load kLoads[] = {
    {"SameInstant", 300, [](Prng& prng) { return ticks_below(prng, 2) * 1'000'000; }},
    {"Near", 8, [](Prng& prng) { return ticks_below(prng, 5'000); }},
    {"ManyNear", 3'000, [](Prng& prng) { return ticks_below(prng, 1'000'000); }},
    {"FarFutures", 100,
     [](Prng& prng) { return prng.below(10) == 0 ? seconds(prng.below(100)) : nanoseconds(7); }},
    {"Bursts", 500, [](Prng& prng) { return microseconds(prng.below(3)) + ticks_below(prng, 3); }},
    // The queue starts with 64 pages of 2^12 ticks: all events lie on the last page or just beyond.
    {"PageEdges", 100,
     [](Prng& prng) { return Duration::from_ticks((1 + prng.below(3)) * (int64_t{64} << 12)); }},
    {"AllScales", 400,
     [](Prng& prng) { return Duration::from_ticks(int64_t{1} << prng.below(45)); }},
};

class EventCoreLoad : public ::testing::TestWithParam<Load> {};
INSTANTIATE_TEST_SUITE_P(Loads, EventCoreLoad, ::testing::ValuesIn(kLoads),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

/// Runs `load` on a queue and checks each event against the model. @return the events, in order.
std::vector<std::pair<int64_t, uint64_t>> run_load(Queue queue, const Load& load, uint64_t seed) {
  constexpr uint64_t kEvents = 60'000;
  EventCore core(queue);
  Recorder target(core);
  Prng prng(seed);
  std::map<ModelKey, uint64_t> model;
  uint64_t scheduled = 0;
  const auto schedule = [&] {
    const Instant at = core.now() + load.ahead(prng);
    const auto priority = static_cast<EventPriority>(prng.below(4));
    core.schedule(at, priority, target, scheduled);
    model.emplace(ModelKey{at.since_start().ticks(), static_cast<uint8_t>(priority), scheduled},
                  scheduled);
    scheduled++;
  };
  target.then = [&](uint64_t argument) {
    ASSERT_FALSE(model.empty());
    EXPECT_EQ(argument, model.begin()->second);
    EXPECT_EQ(core.now().since_start().ticks(), std::get<0>(model.begin()->first));
    model.erase(model.begin());
    // On average one new event for each one run, in groups of 0 to 4, around the wanted number.
    const uint32_t wanted = model.size() < load.pending ? 4 : 1;
    for (uint32_t n = prng.below(wanted + 1); n > 0 && scheduled < kEvents; n--) schedule();
    if (model.empty() && scheduled < kEvents) schedule();
  };
  schedule();
  while (!::testing::Test::HasFailure() && core.run_next()) {
    EXPECT_EQ(core.pending_count(), model.size());
  }
  EXPECT_TRUE(::testing::Test::HasFailure() || target.seen.size() == kEvents);
  return target.seen;
}

TEST_P(EventCoreLoad, BothQueuesMatchASortedList) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  const auto calendar = run_load(Queue::kCalendar, GetParam(), seed);
  EXPECT_EQ(calendar, run_load(Queue::kHeap, GetParam(), seed));
}

// An event that is scheduled between two runs may lie before the day that the calendar has opened.
TEST(EventCore, OrdersEventsAddedBeforeADistantOne) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  EventCore core;
  Recorder target(core);
  core.schedule(Instant(seconds(1)), EventPriority::kHost, target, UINT64_MAX);
  for (uint32_t round = 0; round < 100; round++) {
    EXPECT_NE(core.next_at(), Instant::never());
    for (uint32_t i = 0; i < 100; i++) {
      core.schedule(core.now() + ticks_below(prng, 100'000), EventPriority::kHost, target, round);
    }
    core.run_until(core.now() + Duration::from_ticks(100'000));
    ASSERT_EQ(target.seen.size(), 100u * (round + 1));
  }
  core.run_until(Instant(seconds(2)));
  EXPECT_TRUE(std::is_sorted(target.seen.begin(), target.seen.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; }));
  EXPECT_EQ(target.seen.back().second, UINT64_MAX);
  EXPECT_EQ(at_ticks(target.seen.back().first), Instant(seconds(1)));
}

}  // namespace
}  // namespace tributary
