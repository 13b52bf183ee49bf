// SPDX-License-Identifier: Apache-2.0
// Method: two flows by hand, then refusals, then random arrivals and completions against a map of
// deques. One walk has a queue for each flow, and the model predicts every departure exactly. The
// other has fewer queues than flows and checks only each flow's order.
#include "engine/model/reorder.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

/// Packets in these tests are numbers.
PacketHandle packet(uint32_t number) { return {number, 0}; }
constexpr PacketHandle kNothing{};

/// Finishes a packet. @return the numbers of the packets that leave.
std::vector<uint32_t> finish(ReorderEngine& engine, ReorderTicket ticket, PacketHandle handle) {
  std::vector<uint32_t> left;
  engine.finish(ticket, handle, [&left](PacketHandle leaving) { left.push_back(leaving.slot); });
  return left;
}

using Numbers = std::vector<uint32_t>;

TEST(ReorderEngine, EarlierPacketsOfTheFlowLeaveFirst) {
  ReorderEngine engine({.packet_count = 8, .queue_count = 4});
  const auto a = engine.arrive(1);
  const auto b = engine.arrive(1);
  const auto c = engine.arrive(1);
  const auto other = engine.arrive(2);
  ASSERT_TRUE(a && b && c && other);

  EXPECT_EQ(finish(engine, *c, packet(3)), Numbers{});
  EXPECT_EQ(finish(engine, *other, packet(9)), Numbers{9});  // Another flow does not wait.
  EXPECT_EQ(finish(engine, *a, packet(1)), Numbers{1});
  EXPECT_EQ(finish(engine, *b, packet(2)), (Numbers{2, 3}));
  EXPECT_EQ(engine.inside_count(), 0U);
  EXPECT_EQ(engine.counters().held, 1U);
  EXPECT_EQ(engine.counters().left, 4U);
}

TEST(ReorderEngine, TrainTakesAPlaceForEachPacket) {
  ReorderEngine engine({.packet_count = 8, .queue_count = 4});
  const auto five = engine.arrive(1, 5);
  ASSERT_TRUE(five);
  EXPECT_FALSE(engine.arrive(2, 4));
  const auto three = engine.arrive(2, 3);
  ASSERT_TRUE(three);
  EXPECT_EQ(engine.inside_count(), 8U);
  EXPECT_FALSE(engine.arrive(3));
  EXPECT_EQ(finish(engine, *five, packet(1)), Numbers{1});  // One packet stands for the train.
  EXPECT_EQ(engine.inside_count(), 3U);
  EXPECT_TRUE(engine.arrive(3, 5));
  EXPECT_EQ(engine.counters().refused, 2U);
}

TEST(ReorderEngine, DroppedPacketKeepsItsPlaceUntilItsThreadEnds) {
  ReorderEngine engine({.packet_count = 8, .queue_count = 4});
  const auto a = engine.arrive(1);
  const auto b = engine.arrive(1);
  const auto c = engine.arrive(1);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(finish(engine, *b, kNothing), Numbers{});
  EXPECT_EQ(finish(engine, *c, packet(3)), Numbers{});
  EXPECT_EQ(finish(engine, *a, kNothing), Numbers{3});
  EXPECT_EQ(engine.counters().ended, 2U);
}

TEST(ReorderEngine, FlowsThatShareAQueueKeepTheirOrder) {
  ReorderEngine engine({.packet_count = 8, .queue_count = 1});
  const auto a = engine.arrive(1);
  const auto b = engine.arrive(2);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(finish(engine, *b, packet(2)), Numbers{});  // Waits for another flow in the same queue.
  EXPECT_EQ(finish(engine, *a, packet(1)), (Numbers{1, 2}));
}

TEST(ReorderEngine, FullEngineRefusesAndCounts) {
  ReorderEngine engine({.packet_count = 2, .queue_count = 4});
  const auto a = engine.arrive(1);
  const auto b = engine.arrive(1);
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(engine.arrive(2).has_value());
  EXPECT_EQ(finish(engine, *b, packet(2)), Numbers{});
  EXPECT_FALSE(engine.arrive(2).has_value());  // b is done but still inside.
  EXPECT_EQ(engine.counters().refused, 2U);
  EXPECT_EQ(finish(engine, *a, packet(1)), (Numbers{1, 2}));
  EXPECT_TRUE(engine.arrive(2).has_value());
}

TEST(ReorderEngineDeathTest, RejectsFinishingTwice) {
  ReorderEngine engine({.packet_count = 2, .queue_count = 1});
  const auto a = engine.arrive(1);
  const auto b = engine.arrive(1);
  ASSERT_TRUE(a && b);
  finish(engine, *b, packet(2));
  EXPECT_DEATH(finish(engine, *b, packet(2)), "in_work");  // Done, and held.
  finish(engine, *a, packet(1));
  const auto again = engine.arrive(1);
  ASSERT_TRUE(again.has_value());
  EXPECT_DEATH(finish(engine, *a, packet(1)), "use == ticket.use");  // Gone, and its entry reused.
}

// --- Random walk ---------------------------------------------------------------------------------

/// A packet inside the engine, in the model's terms.
struct Inside {
  uint32_t number;
  uint64_t flow;
  ReorderTicket ticket;
  bool done = false;
  bool dropped = false;
};

/// The simplest reorder engine: each queue is a deque whose done packets leave from the front.
class Model {
 public:
  explicit Model(uint32_t queue_count) : queue_count_(queue_count) {}

  void arrive(const Inside& inside) { queues_[inside.flow % queue_count_].push_back(inside); }

  Numbers finish(uint32_t number, uint64_t flow, bool dropped) {
    auto& queue = queues_[flow % queue_count_];
    for (Inside& inside : queue) {
      if (inside.number == number) inside.done = true, inside.dropped = dropped;
    }
    Numbers left;
    while (!queue.empty() && queue.front().done) {
      if (!queue.front().dropped) left.push_back(queue.front().number);
      queue.pop_front();
    }
    return left;
  }
  [[nodiscard]] size_t inside_count() const {
    size_t sum = 0;
    for (const auto& [index, queue] : queues_) sum += queue.size();
    return sum;
  }

 private:
  uint32_t queue_count_;
  std::map<uint64_t, std::deque<Inside>> queues_;
};

/// @param queue_count Fewer than kFlows: flows share queues.
void walk(uint64_t seed, uint32_t queue_count) {
  constexpr uint32_t kFlows = 13;
  constexpr uint32_t kCapacity = 50;
  Prng prng(seed);
  ReorderEngine engine({.packet_count = kCapacity, .queue_count = queue_count});
  Model model(queue_count);
  std::vector<Inside> in_work;
  std::map<uint32_t, uint64_t> flow_of;
  std::map<uint64_t, uint32_t> last_left;  // Of each flow.
  uint32_t number = 0;

  for (uint32_t step = 0; step < 50'000; step++) {
    if (in_work.empty() || prng.chance(0.52)) {
      const uint64_t flow = prng.below(kFlows);
      const auto ticket = engine.arrive(flow);
      ASSERT_EQ(ticket.has_value(), model.inside_count() < kCapacity) << "step " << step;
      if (!ticket) continue;
      in_work.push_back({++number, flow, *ticket});
      flow_of[number] = flow;
      model.arrive(in_work.back());
      continue;
    }
    const uint32_t pick = prng.below(static_cast<uint32_t>(in_work.size()));
    const Inside inside = in_work[pick];
    in_work.erase(in_work.begin() + pick);
    const bool dropped = prng.chance(0.2);
    const Numbers left = finish(engine, inside.ticket, dropped ? kNothing : packet(inside.number));
    ASSERT_EQ(left, model.finish(inside.number, inside.flow, dropped)) << "step " << step;
    for (const uint32_t leaving : left) {
      uint32_t& last = last_left[flow_of[leaving]];
      ASSERT_LT(last, leaving) << "flow order, step " << step;
      last = leaving;
    }
    ASSERT_EQ(engine.inside_count(), model.inside_count()) << "step " << step;
  }
  while (!in_work.empty()) {
    finish(engine, in_work.back().ticket, packet(in_work.back().number));
    in_work.pop_back();
  }
  EXPECT_EQ(engine.inside_count(), 0U);
  EXPECT_EQ(engine.counters().arrived, engine.counters().left + engine.counters().ended);
}

TEST(ReorderEngine, RandomWalkMatchesModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  walk(seed, 64);
}

TEST(ReorderEngine, RandomWalkWithSharedQueuesMatchesModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  walk(seed, 3);
}

}  // namespace
}  // namespace tributary::engine
