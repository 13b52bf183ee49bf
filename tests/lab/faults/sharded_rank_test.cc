// SPDX-License-Identifier: Apache-2.0
// Method: packets of two aggregators by hand; whole jobs are in sharded_faults_test.cc.
#include "lab/faults/sharded_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <span>
#include <vector>

#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

using host::Status;
using host::Transfer;
using ::testing::HasSubstr;
using Phase = host::TensorProtocol::Phase;

constexpr uint32_t kGradients = 16;

Endpoint server(uint32_t i) { return Endpoint::ipv4(0x0a01'0001 + i, 12000); }

/// A rank of two aggregators with weights 1 and 3, and its packets.
struct Bed {
  Bed() : rank(config(), /*nonce=*/5, Instant()) { send_all(); }

  static host::CommunicatorConfig config() {
    host::CommunicatorConfig config;
    config.world = 2;
    config.gradients = kGradients;
    config.window = 8;
    config.deadline = seconds(5);
    config.aggregators = {{.name = "one:1", .weight = 1, .address = server(0)},
                          {.name = "two:2", .weight = 3, .address = server(1)}};
    return config;
  }
  /// Takes all packets that are due.
  void send_all() {
    sent.clear();
    rank.on_time(now);
    std::array<std::byte, 512> out;
    for (;;) {
      const host::Outgoing packet = rank.next_packet(out, now);
      if (packet.size_bytes == 0) return;
      wire::Message message;
      ASSERT_EQ(decode_message(std::span(out).first(wire::kControlMessageBytes), packet.size_bytes,
                               message),
                wire::DecodeStatus::kOk);
      sent[packet.to == server(0) ? 0 : 1].push_back(message);
    }
  }
  void welcome(uint32_t from) {
    const wire::Message& join = joins.at(from);
    wire::Message message;
    message.header.job_id = join.header.job_id;
    message.header.extended = true;
    message.extension.type = wire::MessageType::kWelcome;
    message.extension.key = join.extension.key;
    message.body.sources = 2;
    message.body.key = 70 + from;
    message.body.result_key = 90 + from;
    message.body.window = 8;
    message.body.gradients_max = kGradients;
    std::array<std::byte, wire::kControlMessageBytes> bytes;
    const uint32_t size = encode_message(message, bytes.data());
    const Endpoint sender = server(from);
    (void)rank.on_packet(
        {.from = sender, .stored = std::span(bytes).first(size), .size_bytes = size}, now);
  }
  void join_both() {
    joins = {{0, sent[0].at(0)}, {1, sent[1].at(0)}};
    welcome(0);
    welcome(1);
  }

  Instant now;
  ShardedRank rank;
  std::map<uint32_t, std::vector<wire::Message>> sent;  ///< By aggregator.
  std::map<uint32_t, wire::Message> joins;
};

TEST(ShardedRank, JoinsEveryAggregatorWithItsList) {
  Bed bed;
  EXPECT_EQ(bed.rank.phase(), Phase::kJoining);
  ASSERT_EQ(bed.sent[0].size(), 1U);
  ASSERT_EQ(bed.sent[1].size(), 1U);
  EXPECT_NE(bed.sent[0][0].extension.key, bed.sent[1][0].extension.key);
  for (const uint32_t i : {0U, 1U}) {
    EXPECT_EQ(bed.sent[i][0].body.list_digest, host::list_digest(Bed::config().aggregators));
  }
  EXPECT_TRUE(bed.rank.accepts_from(server(1)));
  EXPECT_FALSE(bed.rank.accepts_from(server(2)));
  bed.joins = {{0, bed.sent[0][0]}, {1, bed.sent[1][0]}};
  bed.welcome(0);
  EXPECT_EQ(bed.rank.phase(), Phase::kJoining);
  EXPECT_EQ(bed.rank.session(), 0U);
  bed.welcome(1);
  EXPECT_EQ(bed.rank.phase(), Phase::kRunning);
  EXPECT_EQ(bed.rank.session_at(0), 90U);
  EXPECT_EQ(bed.rank.session_at(1), 91U);
  EXPECT_NE(bed.rank.session(), 0U);
}

TEST(ShardedRank, CutsTensorsByWeight) {
  Bed bed;
  bed.join_both();
  std::vector<int32_t> values(uint64_t{200} * kGradients);
  Transfer transfer;
  transfer.integers = values;
  bed.rank.submit(transfer, bed.now);
  EXPECT_EQ(bed.rank.last_cut(), (std::vector<plan::Part>{{0, 0, 50 * kGradients},
                                                          {1, 50 * kGradients, 150 * kGradients}}));
  EXPECT_TRUE(bed.rank.waits_for(server(0)));
  EXPECT_FALSE(bed.rank.waits_for(server(2)));
  EXPECT_FALSE(bed.rank.idle());
}

// Nothing listens at the second aggregator. The leaves to the first one name it.
TEST(ShardedRank, LostAggregatorEndsAllAndIsNamed) {
  Bed bed;
  bed.join_both();
  std::vector<int32_t> values(uint64_t{200} * kGradients);
  Transfer transfer;
  transfer.integers = values;
  bed.rank.submit(transfer, bed.now);
  bed.send_all();
  for (const int64_t at_ms : {10, 20}) {
    bed.now = Instant() + milliseconds(at_ms);
    bed.rank.on_refused_by(server(1), bed.now);
  }
  EXPECT_EQ(bed.rank.phase(), Phase::kRunning);
  bed.now = Instant() + milliseconds(10) + host::kRefusedSessionFor;
  bed.send_all();
  EXPECT_EQ(bed.rank.phase(), Phase::kEnded);
  EXPECT_EQ(bed.rank.status(), Status::kAggregatorGone);
  EXPECT_THAT(bed.rank.status_text(), HasSubstr("(aggregator 2 of 2, two:2)"));
  ASSERT_TRUE(bed.rank.failure().has_value());
  EXPECT_EQ(bed.rank.failure()->lost_aggregator, 2U);
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kAggregatorGone);
  EXPECT_TRUE(bed.rank.idle());
  ASSERT_FALSE(bed.sent[0].empty());
  EXPECT_EQ(bed.sent[0].back().extension.type, wire::MessageType::kLeave);
  EXPECT_EQ(bed.sent[0].back().extension.tensor_elements, 2U);

  Transfer later;
  later.integers = values;
  bed.rank.submit(later, bed.now);
  EXPECT_TRUE(later.done);
  EXPECT_EQ(later.outcome.status, Status::kAggregatorGone);
}

TEST(ShardedRank, LeavesEverySession) {
  Bed bed;
  bed.join_both();
  bed.rank.leave(bed.now);
  bed.send_all();
  EXPECT_EQ(bed.rank.status(), Status::kClosed);
  for (const uint32_t i : {0U, 1U}) {
    ASSERT_FALSE(bed.sent[i].empty());
    EXPECT_EQ(bed.sent[i][0].extension.type, wire::MessageType::kLeave);
    EXPECT_EQ(bed.sent[i][0].extension.tensor_elements, 0U);
  }
}

}  // namespace
}  // namespace tributary::lab
