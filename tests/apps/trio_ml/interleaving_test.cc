// SPDX-License-Identifier: Apache-2.0
// Method: sources, timers and a careless network around the Trio-ML program on the machine that
// interleaves its transactions at random. Whatever the order, a result must be the exact sum of the
// sources that it names, each counted once, and a block must never have two different results.
//
// Each contribution carries its source: lane 0 is 16^source, so that lane 0 of a sum shows how
// often each source was added. All other lanes are random.
//
// The network delivers in any order, duplicates packets, delivers old packets late, and loses
// results. Sources keep to their window (unless `wild`) and retransmit unanswered contributions.
// With `restarts` all members leave and join again while threads work on their packets.
// One seed decides everything, including the machine's steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/trio_ml/aging.h"
#include "apps/trio_ml/program.h"
#include "apps/trio_ml/shard.h"
#include "base/byte_order.h"
#include "microcode/hash.h"
#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using Bytes = std::vector<std::byte>;
using testing::StepMachine;

constexpr uint32_t kWindow = 8;
constexpr uint32_t kGradientsMax = 200;  // Up to four and a half chunks behind the head.
constexpr uint16_t kPortBase = 5000;

struct Scenario {
  uint64_t seed = 0;
  uint32_t sources = 2;
  uint32_t generations = 2;
  uint32_t blocks = 12;     ///< Blocks of each generation; more than the window.
  bool mitigation = false;  ///< With timers that end blocks early, and sources that stay silent.
  bool extended = false;    ///< Session and key in every message, else plain Trio-ML.
  bool wild = false;        ///< Sources ignore the window.
  uint32_t restarts = 0;    ///< Further sessions, each with gradients of its own. Needs `extended`.
};

/// A block of the whole run.
struct BlockKey {
  uint32_t session = 0;  ///< Counts the restarts.
  uint16_t gen_id = 0;
  uint32_t block_id = 0;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

std::string text_of(BlockKey key) {
  return "session " + std::to_string(key.session) + " generation " + std::to_string(key.gen_id) +
         " block " + std::to_string(key.block_id);
}

/// The gradients that a source sends; how many depends on the block alone, so that a contribution
/// fits the same block of another session.
std::vector<int32_t> gradients(uint64_t seed, BlockKey key, uint32_t source) {
  microcode::FieldHash hash(seed);
  hash.include(key.gen_id).include(key.block_id);
  const auto count = static_cast<uint32_t>(1 + hash.value() % kGradientsMax);
  Prng prng(hash.include(source).include(key.session).value());
  std::vector<int32_t> lanes(count);
  for (int32_t& lane : lanes) lane = prng.any_i32();
  lanes[0] = int32_t{1} << (4 * source);
  return lanes;
}

/// Checks every result.
class ResultBook {
 public:
  explicit ResultBook(const Scenario& scenario) : scenario_(scenario) {}

  /// @param to_all Whether this is the block's own result rather than a late source's answer.
  void check(const Bytes& bytes, const Message& message, BlockKey key, bool to_all) {
    SCOPED_TRACE(text_of(key));
    emissions_[key] += to_all ? 1 : 0;
    const auto known = results_.find(key);
    if (known == results_.end()) {
      check_sum(bytes, message, key);
      results_.emplace(key, bytes);
    } else {
      EXPECT_TRUE(known->second == bytes) << "two results that differ";
    }
  }
  [[nodiscard]] bool has(BlockKey key) const { return results_.contains(key); }
  [[nodiscard]] size_t result_count() const { return results_.size(); }
  [[nodiscard]] uint32_t emissions(BlockKey key) const {
    const auto found = emissions_.find(key);
    return found == emissions_.end() ? 0 : found->second;
  }
  [[nodiscard]] uint32_t degraded_count() const { return degraded_count_; }

 private:
  void check_sum(const Bytes& bytes, const Message& message, BlockKey key) {
    const std::byte* lanes = bytes.data() + message.head_bytes;
    const auto who = load_be<uint32_t>(lanes);
    std::vector<uint32_t> expected(message.header.grad_cnt);
    SourceMask named{};
    for (uint32_t source = 0; source < scenario_.sources; source++) {
      const uint32_t times = who >> (4 * source) & 0xf;
      EXPECT_LE(times, 1U) << "source " << source << " is in the sum more than once";
      if (times == 0) continue;
      include(named, source);
      const auto own = gradients(scenario_.seed, key, source);
      ASSERT_EQ(own.size(), expected.size());
      for (size_t i = 0; i < own.size(); i++) expected[i] += static_cast<uint32_t>(own[i]);
    }
    for (uint32_t i = 0; i < expected.size(); i++) {
      ASSERT_EQ(load_be<uint32_t>(lanes + 4 * i), expected[i]) << "lane " << i;
    }
    check_head(message, named);
  }

  void check_head(const Message& message, const SourceMask& named) {
    const bool partial = count(named) < scenario_.sources;
    degraded_count_ += partial ? 1 : 0;
    EXPECT_EQ(message.header.src_cnt, count(named));
    EXPECT_EQ(message.header.degraded, partial);
    EXPECT_EQ(message.header.age_op, partial ? 1 : 0);
    EXPECT_EQ(message.header.extended, scenario_.extended);
    EXPECT_TRUE(scenario_.mitigation || !partial) << "degraded without mitigation";
    EXPECT_GT(count(named), 0U);
    if (scenario_.extended && partial) {
      EXPECT_NE(message.extension.flags & wire::kFlagSourceMask, 0);
      EXPECT_EQ(message.mask, named);
    }
  }

  const Scenario scenario_;
  std::map<BlockKey, Bytes> results_;
  std::map<BlockKey, uint32_t> emissions_;
  uint32_t degraded_count_ = 0;
};

/// One source: its next block, and the results that it waits for.
struct Source {
  uint32_t next = 0;                 ///< Position of the next block to send, of all generations.
  std::set<uint32_t> unanswered;     ///< Positions sent whose result it has not seen.
  std::map<uint32_t, int> patience;  ///< Retransmissions left for a block (mitigation).
};

class World {
 public:
  explicit World(const Scenario& scenario)
      : scenario_(scenario),
        prng_(scenario.seed),
        memory_(*memory::SharedMemory::create(
            {.sram_size_bytes = 4096, .dram_size_bytes = uint64_t{1} << 20})),
        config_(config_of(scenario)),
        session_(config_, auth::key_of_seed(scenario.seed)),
        shard_(0, 1, wire::kTrioMlPort, memory_),
        book_(scenario),
        sources_(scenario.sources),
        m_({.seed = prng_.any_u64(), .thread_count = 48, .packet_bytes_max = 4096}) {
    m_.set_now(Instant(seconds(1)));
    const auto added = shard_.add_job(config_, session_, m_.now());
    EXPECT_TRUE(added.has_value());
    // Every source is known from the start, so that each result goes to all.
    for (uint32_t s = 0; s < scenario.sources; s++) EXPECT_TRUE(job().locate(s, endpoint(s)));
    if (scenario.extended) join_all();
  }

  void run() {
    // Wild sources overtake themselves, so some of their blocks can never have a result.
    const uint32_t turns = scenario_.wild ? kTurnsWild : kTurnsMax;
    for (uint32_t turn = 0; turn < turns && !finished(); turn++) {
      act();
      if (::testing::Test::HasFailure()) break;
    }
    m_.run();
    take_results();
    if (::testing::Test::HasFailure()) return;
    EXPECT_TRUE(finished() || scenario_.wild) << "blocks without a result";
    check_end();
  }

  [[nodiscard]] const ResultBook& book() const { return book_; }
  [[nodiscard]] StepMachine& machine() { return m_; }
  [[nodiscard]] uint64_t counted(Outcome outcome) const {
    return shard_.counters()[static_cast<uint32_t>(outcome)].packets;
  }

 private:
  static constexpr uint32_t kTurnsMax = 60'000;
  static constexpr uint32_t kTurnsWild = 3'000;
  static constexpr size_t kInFlightMax = 60;

  static JobConfig config_of(const Scenario& scenario) {
    JobConfig config;
    config.sources = scenario.sources;
    config.block_cnt_max = kWindow;
    config.block_grad_max = kGradientsMax;
    config.history = static_cast<uint32_t>(1 + scenario.seed % 2);
    config.mitigation = scenario.mitigation;
    return config;
  }
  static Endpoint endpoint(uint32_t source) {
    return Endpoint::ipv4(0x0a000001 + source, static_cast<uint16_t>(kPortBase + source));
  }
  Job& job() { return *shard_.job(config_.id); }
  [[nodiscard]] uint32_t position_count() const { return scenario_.generations * scenario_.blocks; }

  /// In a session block_ids continue across tensors; plain generations each begin at block 0.
  [[nodiscard]] BlockKey key_of(uint32_t position) const {
    if (scenario_.extended) {
      return {.session = restarts_, .gen_id = 7, .block_id = 0xfffffff8U + position};
    }
    // Both wrap within the run: gen_id past 16 bits.
    return {.gen_id = static_cast<uint16_t>(0xffff + position / scenario_.blocks),
            .block_id = position % scenario_.blocks};
  }

  Bytes contribution(uint32_t position, uint32_t source, bool again) {
    const BlockKey key = key_of(position);
    const auto lanes = gradients(scenario_.seed, key, source);
    Message message;
    message.header = {.job_id = config_.id,
                      .block_id = key.block_id,
                      .extended = scenario_.extended,
                      .src_id = static_cast<uint8_t>(source),
                      .gen_id = key.gen_id,
                      .grad_cnt = static_cast<uint16_t>(lanes.size())};
    if (scenario_.extended) {
      message.extension.flags = again ? wire::kFlagRetransmission : uint8_t{0};
      message.extension.key = session_.key_of(source, session_.number());
    }
    Bytes bytes(wire::kMessageHeadBytesMax);
    const uint32_t head_bytes = encode_message(message, bytes.data());
    bytes.resize(head_bytes + lanes.size() * 4);
    for (size_t i = 0; i < lanes.size(); i++) {
      store_be(bytes.data() + head_bytes + 4 * i, static_cast<uint32_t>(lanes[i]));
    }
    return bytes;
  }

  /// Returns the join of the present session's worker.
  [[nodiscard]] Message join_of(uint32_t source) const {
    Message join;
    join.header = {.job_id = config_.id, .extended = true, .src_id = static_cast<uint8_t>(source)};
    join.extension.type = MessageType::kJoin;
    join.extension.key = 100 * (restarts_ + 1) + source;
    join.body.sources = static_cast<uint16_t>(scenario_.sources);
    return join;
  }

  void join_all() {
    // The second join of a source confirms its first one.
    for (uint32_t i = 0; i < 2 * scenario_.sources; i++) {
      const uint32_t source = i % scenario_.sources;
      Message join = join_of(source);
      join.body.key = session_.cookies().make({.address = endpoint(source),
                                               .nonce = join.extension.key,
                                               .job_id = config_.id,
                                               .source = join.header.src_id},
                                              m_.now());
      Bytes bytes(wire::kControlMessageBytes);
      bytes.resize(encode_message(join, bytes.data()));
      deliver(bytes, source);
      m_.run();
    }
    EXPECT_NE(session_.number(), 0U);
    EXPECT_GE(m_.take_sent().size(), scenario_.sources);  // Welcomes.
    sessions_[session_.result_key(session_.number())] = restarts_;
    job().adopt(session_.number());
    for (uint32_t s = 0; s < scenario_.sources; s++) EXPECT_TRUE(job().locate(s, endpoint(s)));
  }

  /// Ends the session and starts another one at once, as shard 0 does for the other shards. This
  /// shard notices one, both or none of the changes before its next packet.
  void restart() {
    for (uint32_t s = 0; s < scenario_.sources; s++) static_cast<void>(session_.leave(s));
    EXPECT_EQ(session_.number(), 0U);
    if (prng_.chance(0.5)) job().adopt(0);
    restarts_++;
    for (uint32_t i = 0; i < 2 * scenario_.sources; i++) {
      const uint32_t source = i % scenario_.sources;
      static_cast<void>(session_.join(join_of(source), endpoint(source), m_.now()));
    }
    EXPECT_NE(session_.number(), 0U);
    sessions_[session_.result_key(session_.number())] = restarts_;
    if (prng_.chance(0.5)) job().adopt(session_.number());
    sources_.assign(scenario_.sources, Source());  // Their old packets are still on the way.
  }

  // --- What happens ------------------------------------------------------------------------------

  void act() {
    if (restarts_ < scenario_.restarts && prng_.chance(0.005)) restart();
    const uint32_t what = prng_.below(100);
    if (what < 25) {
      send_something();
    } else if (what < 50) {
      deliver_something();
    } else if (what < 85) {
      for (uint32_t steps = prng_.below(60); steps > 0 && m_.step(); steps--) {
      }
      take_results();
    } else if (what < 94) {
      run_timer();
    } else if (what < 97) {
      m_.run();  // A quiet moment: the machine runs to its end, then a burst begins.
      take_results();
      m_.release_payload({});
      shard_.begin_burst();
    } else {
      repeat_something();
    }
  }

  [[nodiscard]] bool may_send(const Source& source) const {
    if (source.next == position_count()) return false;
    if (scenario_.wild || source.unanswered.empty()) return true;
    const uint32_t oldest = *source.unanswered.begin();
    const bool same_generation = oldest / scenario_.blocks == source.next / scenario_.blocks;
    return source.next - oldest < kWindow && (same_generation || scenario_.extended);
  }

  void send_something() {
    const uint32_t s = prng_.below(scenario_.sources);
    Source& source = sources_[s];
    if (!may_send(source) || in_flight_.size() >= kInFlightMax) return;
    const uint32_t position = source.next++;
    if (book_.has(key_of(position))) return;  // Completed without this source.
    source.unanswered.insert(position);
    source.patience[position] = 5;
    const bool stays_silent = scenario_.mitigation && prng_.chance(0.3);
    if (!stays_silent) in_flight_.emplace_back(s, contribution(position, s, false));
  }

  void repeat_something() {
    const uint32_t s = prng_.below(scenario_.sources);
    Source& source = sources_[s];
    if (source.unanswered.empty() || in_flight_.size() >= kInFlightMax) return;
    auto chosen = source.unanswered.begin();
    std::advance(chosen, prng_.below(static_cast<uint32_t>(source.unanswered.size())));
    const uint32_t position = *chosen;
    in_flight_.emplace_back(s, contribution(position, s, true));
    // A source may lose a result for good only if other sources need not wait for it.
    const bool may_give_up =
        (scenario_.mitigation || scenario_.wild) && book_.has(key_of(position));
    if (may_give_up && source.patience[position]-- == 0) source.unanswered.erase(chosen);
  }

  void deliver_something() {
    if (in_flight_.empty() || !m_.has_free_thread()) return;
    const uint32_t pick = prng_.below(static_cast<uint32_t>(in_flight_.size()));
    const auto [source, bytes] = in_flight_[pick];
    if (prng_.chance(0.75)) in_flight_.erase(in_flight_.begin() + pick);  // Else a duplicate.
    deliver(bytes, source);
  }

  void deliver(const Bytes& bytes, uint32_t source) {
    m_.start(bytes, endpoint(source), [this](StepMachine& m) { process_packet(m, shard_); });
  }

  void run_timer() {
    constexpr uint32_t kTimerThreads = 6;
    if (m_.threads_active() + kTimerThreads > 48) return;
    m_.set_now(m_.now() + Duration::from_ticks(config_.timeout.ticks() / 100 * prng_.below(100)));
    if (scenario_.mitigation && prng_.chance(0.1)) {
      m_.start_timer([this](StepMachine& m) { judge_sources(m, shard_, job()); });
    }
    const uint32_t begin = prng_.chance(0.5) ? 0 : prng_.below(kWindow);
    const uint32_t end = prng_.chance(0.5) ? kWindow : begin + prng_.below(kWindow - begin + 1);
    m_.start_timer([&](StepMachine& m) {
      age_blocks(m, shard_, job(), {.thread = 0, .begin = begin, .end = end, .due_at = m_.now()});
    });
  }

  // --- What is seen ------------------------------------------------------------------------------

  void take_results() {
    for (const StepMachine::Sent& sent : m_.take_sent()) {
      Message message;
      const auto size = static_cast<uint32_t>(sent.bytes.size());
      ASSERT_EQ(decode_message(sent.bytes, size, message), wire::DecodeStatus::kOk);
      if (sent.small) continue;  // An answer or notice: changes nothing here.
      BlockKey key{.gen_id = message.header.gen_id, .block_id = message.header.block_id};
      if (scenario_.extended) key.session = sessions_.at(message.extension.key);
      book_.check(sent.bytes, message, key, sent.destinations.size() == scenario_.sources);
      for (const Endpoint& to : sent.destinations) answer(to.port - kPortBase, key);
    }
  }

  void answer(uint32_t source, BlockKey key) {
    if (prng_.chance(0.2)) return;  // Lost on the way.
    std::erase_if(sources_[source].unanswered,
                  [&](uint32_t position) { return key_of(position) == key; });
  }

  [[nodiscard]] bool finished() const {
    if (restarts_ < scenario_.restarts) return false;
    return std::ranges::all_of(sources_, [this](const Source& source) {
      return source.next == position_count() && source.unanswered.empty();
    });
  }

  void check_end() {
    EXPECT_EQ(m_.frame_pool().free_count(), 48U * (microcode::kCallDepthMax + 1));
    EXPECT_LE(m_.call_depth_max(), microcode::kCallDepthMax);
    uint32_t emitted = 0;
    for (uint32_t position = 0; position < position_count(); position++) {
      const BlockKey key = key_of(position);
      const uint32_t emissions = book_.emissions(key);
      EXPECT_LE(emissions, 1U) << text_of(key);
      const bool is_complete = !scenario_.wild && !scenario_.mitigation;
      EXPECT_TRUE(emissions == 1 || !is_complete) << text_of(key);
      // Early degraded results of a further session go only to the sources that it has heard.
      EXPECT_TRUE(book_.has(key) == (emissions == 1) || restarts_ > 0) << text_of(key);
      emitted += emissions;
    }
    if (restarts_ > 0) return;  // The other sessions have results, too.
    EXPECT_EQ(emitted, book_.result_count()) << "results of blocks that nobody has sent";
    EXPECT_EQ(counted(Outcome::kBlockCompleted) + counted(Outcome::kBlockDegraded), emitted);
    EXPECT_EQ(counted(Outcome::kBlockDegraded), book_.degraded_count());
  }

  const Scenario scenario_;
  Prng prng_;
  memory::SharedMemory memory_;
  const JobConfig config_;
  Session session_;
  Shard shard_;
  ResultBook book_;
  std::vector<Source> sources_;
  std::vector<std::pair<uint32_t, Bytes>> in_flight_;
  uint32_t restarts_ = 0;
  std::map<uint64_t, uint32_t> sessions_;  ///< By the key of their results.
  StepMachine m_;
};

/// Runs `runs` worlds that differ in seed and number of sources. Names the first one that fails.
void run_worlds(Scenario scenario, uint32_t runs) {
  const uint64_t first_seed = testing::seed_from_env();
  Prng prng(first_seed);
  uint64_t degraded = 0, duplicates = 0, late = 0, stale = 0;
  for (uint32_t run = 0; run < runs; run++) {
    scenario.seed = run == 0 ? first_seed : prng.any_u64();
    SCOPED_TRACE(testing::replay_hint(scenario.seed));
    scenario.sources = static_cast<uint32_t>(2 + scenario.seed / 2 % 4);
    World world(scenario);
    world.run();
    if (::testing::Test::HasFailure()) return;
    degraded += world.book().degraded_count();
    duplicates += world.counted(Outcome::kDuplicate);
    late += world.counted(Outcome::kLate);
    stale += world.counted(Outcome::kWrongSession);
  }
  // Without such events the test would show nothing.
  EXPECT_GT(duplicates, 0U);
  EXPECT_GT(late, 0U);
  EXPECT_EQ(degraded > 0, scenario.mitigation);
  EXPECT_EQ(stale > 0, scenario.restarts > 0);
}

constexpr uint32_t kRuns = 60;

TEST(TrioMlInterleaving, PlainBlocksAreCompleteAndExact) { run_worlds({}, kRuns); }

TEST(TrioMlInterleaving, PlainBlocksWithMitigationNameTheirSources) {
  run_worlds({.mitigation = true}, kRuns);
}

TEST(TrioMlInterleaving, SessionBlocksAreCompleteAndExact) {
  run_worlds({.extended = true}, kRuns);
}

TEST(TrioMlInterleaving, SessionBlocksWithMitigationNameTheirSources) {
  run_worlds({.mitigation = true, .extended = true}, kRuns);
}

TEST(TrioMlInterleaving, ChangesOfTheSessionLeaveEverySumExact) {
  run_worlds({.extended = true, .restarts = 4}, kRuns);
}

TEST(TrioMlInterleaving, ChangesOfTheSessionWithMitigationLeaveEverySumExact) {
  run_worlds({.mitigation = true, .extended = true, .restarts = 4}, kRuns);
  run_worlds({.mitigation = true, .extended = true, .wild = true, .restarts = 4}, kRuns);
}

TEST(TrioMlInterleaving, SourcesThatIgnoreTheWindowChangeNoSum) {
  run_worlds({.wild = true}, kRuns);
  run_worlds({.mitigation = true, .wild = true}, kRuns);
  run_worlds({.mitigation = true, .extended = true, .wild = true}, kRuns);
}

}  // namespace
}  // namespace tributary::trio_ml
