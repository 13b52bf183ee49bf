// SPDX-License-Identifier: Apache-2.0
// Method: workers and a careless network around the SwitchML program on the machine that
// interleaves its transactions at random. Whatever the order, every result is the exact sum of one
// chunk, each worker counted once, and every worker gets all its results.
//
// The network delays, duplicates and loses packets, and loses results. Packets of one worker keep
// their order, as SwitchML needs it (threads need not). With `late`, worker 0's duplicates arrive
// at any time, also long after their slot's next uses. Workers run Algorithm 4 of the paper without
// a clock: they retransmit unanswered packets at random times.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "apps/switchml/program.h"
#include "base/byte_order.h"
#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::switchml {
namespace {

using testing::StepMachine;
using tributary::testing::Prng;
using Bytes = std::vector<std::byte>;

constexpr uint32_t kElements = 64;

struct Scenario {
  uint64_t seed = 1;
  uint32_t workers = 3;
  uint32_t slots = 4;
  uint32_t uses = 12;  ///< Uses of each slot.
  bool late = false;
};

class World {
 public:
  explicit World(const Scenario& scenario)
      : scenario_(scenario),
        prng_(scenario.seed),
        memory_(*memory::SharedMemory::create(
            {.sram_size_bytes = 4096, .dram_size_bytes = uint64_t{1} << 20})),
        shard_(*Shard::create({.sessions_max = 1, .slots_max = scenario.slots}, 0, 1, memory_)),
        machine_({.seed = scenario.seed, .thread_count = 24}),
        workers_(scenario.workers) {
    shard_->begin_session(
        0, {.workers = scenario.workers, .elements = kElements, .slots = scenario.slots});
    for (uint32_t w = 0; w < scenario.workers; w++) {
      EXPECT_TRUE(shard_->set_worker(0, w, address(w)).has_value());
      workers_[w].use.assign(scenario.slots, 0);
    }
  }

  void run() {
    uint64_t steps = 0;
    while (!finished()) {
      ASSERT_LT(steps++, 2'000'000U) << "stuck";
      act();
      machine_.step();
      take_results();
      if (::testing::Test::HasFatalFailure()) return;
    }
    // Old packets may still arrive; they must not disturb the program.
    for (Worker& worker : workers_) deliver_all(worker);
    machine_.run();
    take_results();
  }

  [[nodiscard]] uint64_t counted(Outcome outcome) const {
    return shard_->counters()[static_cast<uint32_t>(outcome)].packets;
  }
  [[nodiscard]] uint64_t results() const { return results_; }

 private:
  struct Worker {
    std::vector<uint32_t> use;     ///< The current use of each slot.
    std::deque<Bytes> on_the_way;  ///< Packets in flight to the switch, in order.
    std::vector<Bytes> held_back;  ///< Duplicates that the network holds.
  };

  static Endpoint address(uint32_t worker) { return Endpoint::ipv4(0x0a000100 + worker, 4000); }
  static uint32_t packet_id(uint32_t slot, uint32_t use) { return slot * 1000 + use; }
  static int32_t element(uint32_t worker, uint32_t id, uint32_t lane) {
    return Prng(uint64_t{worker} << 40 | uint64_t{id} << 8 | lane).any_i32();
  }
  [[nodiscard]] int32_t expected(uint32_t id, uint32_t lane) const {
    uint32_t sum = 0;
    for (uint32_t w = 0; w < scenario_.workers; w++) {
      sum += static_cast<uint32_t>(element(w, id, lane));
    }
    return static_cast<int32_t>(sum);
  }
  [[nodiscard]] Bytes contribution(uint32_t worker, uint32_t slot) const {
    const uint32_t use = workers_[worker].use[slot];
    wire::SwitchmlMessage message{.packet_id = packet_id(slot, use),
                                  .set = use % 2 == 1,
                                  .slot = static_cast<uint16_t>(slot),
                                  .exponent0 = static_cast<int8_t>(worker)};
    for (uint32_t i = 0; i < kElements; i++) {
      message.elements.push_back(element(worker, message.packet_id, i));
    }
    return wire::switchml_payload(message);
  }

  /// Runs one random event, or none.
  void act() {
    const uint32_t w = prng_.below(scenario_.workers);
    Worker& worker = workers_[w];
    if (prng_.chance(0.2)) {
      const uint32_t slot = prng_.below(scenario_.slots);
      if (worker.use[slot] < scenario_.uses && worker.on_the_way.size() < 8) {
        worker.on_the_way.push_back(contribution(w, slot));
        if (prng_.chance(0.1)) worker.held_back.push_back(worker.on_the_way.back());
      }
    }
    if (prng_.chance(0.2) && !worker.on_the_way.empty() && machine_.has_free_thread()) {
      if (!prng_.chance(0.1)) deliver(w, worker.on_the_way.front());
      worker.on_the_way.pop_front();
    }
    if (scenario_.late && w == 0 && prng_.chance(0.03) && !worker.held_back.empty() &&
        machine_.has_free_thread()) {
      deliver(w, worker.held_back.back());
      worker.held_back.pop_back();
    }
  }
  void deliver(uint32_t w, const Bytes& packet) {
    machine_.start(packet, address(w), [this](StepMachine& m) { process_packet(m, *shard_); });
  }
  void deliver_all(Worker& worker) {
    const auto w = static_cast<uint32_t>(&worker - workers_.data());
    for (const Bytes& packet : worker.on_the_way) {
      machine_.run();
      deliver(w, packet);
    }
  }

  void take_results() {
    for (const StepMachine::Sent& sent : machine_.take_sent()) {
      const auto message = wire::parse_switchml(sent.bytes);
      ASSERT_TRUE(message.has_value());
      check(*message);
      for (const Endpoint& to : sent.destinations) {
        if (!prng_.chance(0.1)) accept(to, *message);
      }
      results_++;
    }
  }
  void check(const wire::SwitchmlMessage& message) {
    for (uint32_t i = 0; i < kElements; i++) {
      ASSERT_EQ(message.elements[i], expected(message.packet_id, i))
          << "packet " << message.packet_id;
    }
    EXPECT_EQ(message.exponent0, static_cast<int8_t>(scenario_.workers - 1));
    EXPECT_EQ(message.packet_id / 1000, message.slot);
    EXPECT_EQ(message.packet_id % 2 == 1, message.set);
  }
  void accept(const Endpoint& to, const wire::SwitchmlMessage& message) {
    for (uint32_t w = 0; w < scenario_.workers; w++) {
      uint32_t& use = workers_[w].use[message.slot];
      if (to == address(w) && packet_id(message.slot, use) == message.packet_id) use++;
    }
  }
  [[nodiscard]] bool finished() const {
    for (const Worker& worker : workers_) {
      for (const uint32_t use : worker.use) {
        if (use < scenario_.uses) return false;
      }
    }
    return true;
  }

  const Scenario scenario_;
  Prng prng_;
  memory::SharedMemory memory_;
  std::unique_ptr<Shard> shard_;
  StepMachine machine_;
  std::vector<Worker> workers_;
  uint64_t results_ = 0;
};

void run_worlds(Scenario scenario, uint32_t runs) {
  const uint64_t first_seed = tributary::testing::seed_from_env();
  Prng prng(first_seed);
  uint64_t duplicates = 0;
  uint64_t retransmitted = 0;
  uint64_t restarted = 0;
  for (uint32_t run = 0; run < runs; run++) {
    scenario.seed = run == 0 ? first_seed : prng.any_u64();
    SCOPED_TRACE(tributary::testing::replay_hint(scenario.seed));
    scenario.workers = static_cast<uint32_t>(1 + scenario.seed / 2 % 4);
    World world(scenario);
    world.run();
    if (::testing::Test::HasFailure()) return;
    EXPECT_EQ(world.counted(Outcome::kSlotCompleted) + world.counted(Outcome::kRetransmitted),
              world.results());
    duplicates += world.counted(Outcome::kDuplicate);
    retransmitted += world.counted(Outcome::kRetransmitted);
    restarted += world.counted(Outcome::kSlotRestarted);
  }
  // Without such events the test would show nothing.
  EXPECT_GT(duplicates, 0U);
  EXPECT_GT(retransmitted, 0U);
  if (scenario.late) {
    EXPECT_GT(restarted, 0U);
  }
}

constexpr uint32_t kRuns = 40;

TEST(SwitchmlInterleaving, EveryResultIsExact) { run_worlds({}, kRuns); }

TEST(SwitchmlInterleaving, OldPacketsNeverChangeASum) { run_worlds({.late = true}, kRuns); }

}  // namespace
}  // namespace tributary::switchml
