// SPDX-License-Identifier: Apache-2.0
// Method: a lower aggregator on the machine that interleaves its transactions at random. Its
// session changes after some steps of the thread that takes the upper aggregator's result, and the
// next session works on the same block. One seed decides everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "apps/trio_ml/program.h"
#include "apps/trio_ml/shard.h"
#include "base/byte_order.h"
#include "tests/engine/step_machine.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using Bytes = std::vector<std::byte>;
using testing::StepMachine;

constexpr uint32_t kSources = 2;
constexpr uint32_t kWorld = 4;

Endpoint upper_address() { return Endpoint::ipv4(0x0a0000c8, wire::kTrioMlPort); }
Endpoint source_address(uint32_t source) {
  return Endpoint::ipv4(0x0a000001 + source, static_cast<uint16_t>(5000 + source));
}

/// Returns the bytes of a message with one gradient, or without any.
Bytes encoded(const Message& message, int32_t value) {
  Bytes bytes(wire::kControlMessageBytes);
  const uint32_t head_bytes = encode_message(message, bytes.data());
  bytes.resize(head_bytes + sizeof(value));
  store_be(bytes.data() + head_bytes, static_cast<uint32_t>(value));
  return bytes;
}

class LowerAggregator {
 public:
  explicit LowerAggregator(uint64_t seed)
      : memory_(*memory::SharedMemory::create(
            {.sram_size_bytes = 4096, .dram_size_bytes = uint64_t{1} << 20})),
        session_(kJob, auth::key_of_seed(seed)),
        shard_(0, 1, wire::kTrioMlPort, memory_),
        m_({.seed = seed, .thread_count = 16, .packet_bytes_max = 4096}) {
    m_.set_now(Instant(seconds(1)));
    EXPECT_TRUE(shard_.add_job(kJob, session_, m_.now()).has_value());
  }

  /// Lets all sources leave and join again, and the upper aggregator welcome them.
  void change_session() {
    if (session_.number() != 0) {
      for (uint32_t s = 0; s < kSources; s++) static_cast<void>(session_.leave(s));
    }
    sessions_++;
    for (uint32_t i = 0; i < 2 * kSources; i++) {
      Message join = message_of(MessageType::kJoin, i % kSources);
      join.extension.key = 100 * sessions_ + i % kSources;
      join.body.sources = kWorld;
      static_cast<void>(session_.join(join, source_address(i % kSources), m_.now()));
    }
    Message welcome = message_of(MessageType::kWelcome, 0);
    welcome.extension.key = session_.upstream_nonce();
    welcome.body.key = 7;
    welcome.body.result_key = 1000 + sessions_;
    welcome.body.channels = 1;
    EXPECT_TRUE(session_.upstream_welcome(welcome, m_.now()));
  }
  /// Starts the threads of each source's contribution to block 0.
  void contribute() {
    for (uint32_t source = 0; source < kSources; source++) {
      Message message = message_of(MessageType::kContribution, source);
      message.header.grad_cnt = 1;
      message.extension.key = session_.key_of(source, session_.number());
      start(encoded(message, 1), source_address(source));
    }
  }
  /// Starts the thread of the upper aggregator's result of block 0 in the present session.
  void start_result(int32_t value) {
    Message message = message_of(MessageType::kResult, 0);
    message.header.grad_cnt = 1;
    message.header.src_cnt = kWorld;
    message.extension.key = session_.upstream_result_key();
    start(encoded(message, value), upper_address());
  }
  void step() { static_cast<void>(m_.step()); }
  void run() { m_.run(); }

  /// Returns the values of the present session's results that were sent to both sources since the
  /// last call.
  std::vector<int32_t> take_results() {
    std::vector<int32_t> values;
    for (const StepMachine::Sent& sent : m_.take_sent()) {
      Message message;
      const auto status =
          decode_message(sent.bytes, static_cast<uint32_t>(sent.bytes.size()), message);
      EXPECT_EQ(status, wire::DecodeStatus::kOk);
      if (sent.small || message.extension.type != MessageType::kResult) continue;
      if (message.extension.key != session_.result_key(session_.number())) continue;
      EXPECT_EQ(sent.destinations.size(), kSources);
      values.push_back(
          static_cast<int32_t>(load_be<uint32_t>(sent.bytes.data() + message.head_bytes)));
    }
    return values;
  }
  [[nodiscard]] uint32_t buffers_held() { return shard_.job(kJob.id)->window.buffers_held(); }

 private:
  static constexpr uint32_t kWindow = 4;
  static inline const JobConfig kJob{.id = 1,
                                     .sources = kSources,
                                     .block_cnt_max = kWindow,
                                     .block_grad_max = 4,
                                     .upstream = upper_address(),
                                     .upstream_source = 0,
                                     .rank_base = 0,
                                     .world = kWorld};

  static Message message_of(MessageType type, uint32_t source) {
    Message message;
    message.header = {
        .job_id = kJob.id, .extended = true, .src_id = static_cast<uint8_t>(source), .gen_id = 1};
    message.extension.type = type;
    return message;
  }
  void start(const Bytes& bytes, const Endpoint& from) {
    m_.start(bytes, from, [this](StepMachine& m) { process_packet(m, shard_); });
  }

  memory::SharedMemory memory_;
  Session session_;
  Shard shard_;
  StepMachine m_;
  uint32_t sessions_ = 0;
};

TEST(UpstreamInterleaving, AResultReachesNoBlockOfALaterSession) {
  Prng prng(testing::seed_from_env());
  for (uint32_t run = 0; run < 400; run++) {
    const uint64_t seed = prng.any_u64();
    SCOPED_TRACE(testing::replay_hint(seed));
    LowerAggregator lower(seed);
    lower.change_session();
    lower.contribute();
    lower.run();
    EXPECT_TRUE(lower.take_results().empty());
    lower.start_result(40);
    for (uint32_t steps = prng.below(16); steps > 0; steps--) lower.step();
    static_cast<void>(lower.take_results());  // The first session's, if it was that fast.
    lower.change_session();
    // The first copy may find a discarded block in its place.
    for (uint32_t copy = 0; copy < 2; copy++) {
      lower.contribute();
      lower.run();
    }
    EXPECT_TRUE(lower.take_results().empty()) << "the result of the session before";
    lower.start_result(50);
    lower.run();
    EXPECT_EQ(lower.take_results(), std::vector<int32_t>{50});
    EXPECT_EQ(lower.buffers_held(), 1U);  // The kept result's.
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace tributary::trio_ml
