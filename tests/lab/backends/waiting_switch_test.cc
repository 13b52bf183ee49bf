// SPDX-License-Identifier: Apache-2.0
// Method: two or three sources simulated by hand: sums, duplicates, late copies, probes, packets
// for another switch, quorums and timeouts. run_test.cc has whole runs.
#include "lab/backends/waiting_switch.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>

#include "base/byte_order.h"

namespace tributary::lab {
namespace {

using wire::Message;
using wire::MessageType;

const Endpoint kSwitch = Endpoint::ipv4(0x0a01'0001, wire::kTrioMlPort);

Endpoint address_of(uint32_t source) {
  return Endpoint::ipv4(0x0a00'0001 + source, wire::kTrioMlPort);
}

/// Keeps the packets that arrive at a source.
class Source final : public net::Node {
 public:
  Source(net::Network& network, uint32_t number, uint32_t sources)
      : network_(network), number_(number), sources_(sources) {
    id = network.add_node(*this, "source-" + std::to_string(number));
  }

  void receive(uint32_t, net::PacketRef packet) override {
    Message message;
    ASSERT_EQ(decode_message(packet->stored, packet->size_bytes, message), wire::DecodeStatus::kOk);
    if (message.extension.type == MessageType::kWelcome) {
      result_key = message.body.result_key;
      key = message.body.key;
    }
    last = message;
    received++;
    at = network_.core().now();
    sum =
        message.header.grad_cnt > 0 && !packet->elided() && message.head_bytes < packet->size_bytes
            ? static_cast<int32_t>(load_be<uint32_t>(&packet->stored[message.head_bytes]))
            : 0;
  }

  void send(MessageType type, uint32_t block_id, int32_t value = 0) {
    Message message;
    message.header = {.job_id = 1,
                      .block_id = block_id,
                      .extended = true,
                      .src_id = static_cast<uint8_t>(number_),
                      .grad_cnt = 1};
    message.extension = {.type = type, .key = key};
    if (type == MessageType::kJoin) {
      message.extension.key = number_ + 1;
      message.body.sources = static_cast<uint16_t>(sources_);
      message.body.gradients_max = 1;
      message.body.window = 4;
    }
    std::array<std::byte, wire::kControlMessageBytes> bytes{};
    uint32_t size = encode_message(message, bytes.data());
    if (type == MessageType::kContribution) {
      store_be(&bytes[size], static_cast<uint32_t>(value));
      size += sizeof(value);
    }
    network_.transmit(
        id, 0,
        network_.packets().make(address_of(number_), kSwitch, size, std::span(bytes).first(size)));
  }

  net::NodeId id = 0;
  uint64_t result_key = 0;
  uint64_t key = 0;
  Message last;
  int32_t sum = 0;
  uint32_t received = 0;
  Instant at;

 private:
  net::Network& network_;
  const uint32_t number_;
  const uint32_t sources_;
};

class WaitingSwitchTest : public ::testing::Test {
 protected:
  explicit WaitingSwitchTest(uint32_t count = 2,
                             const std::function<void(AggregatorSpec&)>& change = {})
      : network_(core_, 1) {
    AggregatorSpec spec;
    spec.name = "switch";
    spec.address = kSwitch;
    spec.job.sources = count;
    spec.job.block_cnt_max = 4;
    if (change) change(spec);
    for (uint32_t i = 0; i < count; i++) sources_.emplace_back(network_, i, count);
    switch_ = std::make_unique<WaitingSwitch>(network_, spec);
    const net::LinkConfig link{.propagation = Duration()};
    for (uint32_t i = 0; i < count; i++) {
      EXPECT_TRUE(network_.connect(sources_[i].id, 0, switch_->id(), i, link, link).has_value());
      switch_->table().set_route(address_of(i), std::array{i});
    }
    for (uint32_t round = 0; round < 2; round++) {  // The second round confirms the first.
      for (Source& source : sources_) source.send(MessageType::kJoin, 0);
      settle();
    }
    for (Source& source : sources_) source.received = 0;
  }

  void settle() { core_.run_until(core_.now() + milliseconds(1)); }

  EventCore core_;
  net::Network network_;
  std::deque<Source> sources_;
  std::unique_ptr<WaitingSwitch> switch_;
};

/// 36 + 66 bytes at 100 Gbit/s, there; a degraded result has 32 bytes more for its sources.
constexpr Duration kThere = picoseconds(8160);
constexpr Duration kBackDegraded = picoseconds(10'720);

TEST_F(WaitingSwitchTest, AnswersAfterAllHaveContributed) {
  EXPECT_NE(sources_[0].result_key, 0U);
  EXPECT_EQ(sources_[0].result_key, sources_[1].result_key);
  sources_[0].send(MessageType::kContribution, 0, 30);
  settle();
  EXPECT_EQ(sources_[0].received, 0U);
  const Instant sent = core_.now();
  sources_[1].send(MessageType::kContribution, 0, 12);
  settle();
  for (const Source& source : sources_) {
    EXPECT_EQ(source.received, 1U);
    EXPECT_EQ(source.sum, 42);
    EXPECT_EQ(source.last.header.src_cnt, 2);
    EXPECT_EQ(source.last.extension.key, source.result_key);
    // 36 + 66 bytes at 100 Gbit/s, there and back, are 16.32 ns.
    EXPECT_EQ(source.at, sent + picoseconds(16'320) + WaitingSwitch::kPipelineLatency);
  }
}

TEST_F(WaitingSwitchTest, DuplicatesAddNothingAndLateOnesGetTheResult) {
  sources_[0].send(MessageType::kContribution, 3, 5);
  sources_[0].send(MessageType::kContribution, 3, 5);
  settle();
  sources_[1].send(MessageType::kContribution, 3, 6);
  settle();
  EXPECT_EQ(sources_[0].sum, 11);
  sources_[0].send(MessageType::kContribution, 3, 5);
  settle();
  EXPECT_EQ(sources_[0].received, 2U);  // A copy goes only to the source that asks.
  EXPECT_EQ(sources_[1].received, 1U);
  EXPECT_EQ(sources_[0].sum, 11);
}

TEST_F(WaitingSwitchTest, DuplicateFromTwoWindowsAgoChangesNothing) {
  for (const uint32_t block : {0U, 8U}) {  // Both use the same slot.
    for (Source& source : sources_) source.send(MessageType::kContribution, block, 1);
    settle();
  }
  sources_[0].send(MessageType::kContribution, 0, 100);
  settle();
  EXPECT_EQ(switch_->invalid(), 1U);
  sources_[1].send(MessageType::kProbe, 8);
  settle();
  EXPECT_EQ(sources_[1].last.extension.type, MessageType::kResult);
  EXPECT_EQ(sources_[1].sum, 2);
}

TEST_F(WaitingSwitchTest, ProbesAreAnsweredWithTheContributors) {
  sources_[1].send(MessageType::kContribution, 2, 1);
  settle();
  sources_[0].send(MessageType::kProbe, 2);
  settle();
  EXPECT_EQ(sources_[0].last.extension.type, MessageType::kHave);
  EXPECT_EQ(sources_[0].last.body.mask[0], 0b10U);
  sources_[0].send(MessageType::kProbe, 1);  // No source has sent block 1.
  settle();
  EXPECT_EQ(sources_[0].last.body.mask[0], 0U);
}

TEST_F(WaitingSwitchTest, CountsForeignKeys) {
  sources_[0].key++;
  sources_[0].send(MessageType::kContribution, 0, 1);
  settle();
  sources_[0].key = sources_[1].key;
  sources_[0].send(MessageType::kContribution, 0, 1);
  settle();
  EXPECT_EQ(switch_->invalid(), 2U);
}

// --- Two of three --------------------------------------------------------------------------------

class QuorumTest : public WaitingSwitchTest {
 protected:
  QuorumTest()
      : WaitingSwitchTest(3, [](AggregatorSpec& spec) {
          spec.quorum = 2;
          spec.job.history = 2;
        }) {}
};

TEST_F(QuorumTest, SecondContributionCompletesTheBlock) {
  sources_[2].send(MessageType::kContribution, 0, 30);
  core_.run_until(core_.now() + microseconds(50));
  const Instant second = core_.now();
  sources_[0].send(MessageType::kContribution, 0, 12);
  settle();
  for (const Source& source : sources_) {
    EXPECT_EQ(source.received, 1U);
    EXPECT_EQ(source.sum, 42);
    EXPECT_EQ(source.last.header.src_cnt, 2);
    EXPECT_TRUE(source.last.header.degraded);
    EXPECT_EQ(source.last.mask[0], 0b101U);
    EXPECT_EQ(source.at, second + kThere + WaitingSwitch::kPipelineLatency + kBackDegraded);
  }
  // The third is dropped, counted, and answered alone.
  sources_[1].send(MessageType::kContribution, 0, 1000);
  settle();
  EXPECT_EQ(switch_->late(), 1U);
  EXPECT_EQ(switch_->invalid(), 0U);
  EXPECT_EQ(sources_[1].received, 2U);
  EXPECT_EQ(sources_[1].sum, 42);
  EXPECT_EQ(sources_[0].received, 1U);
  const AggregatorResult result = switch_->result(seconds(1));
  ASSERT_EQ(result.parts.size(), 1U);
  EXPECT_EQ(result.parts[0].name, "late contributions");
  EXPECT_EQ(result.parts[0].value, 1);
}

TEST_F(QuorumTest, RepeatedContributionIsNoSecondOne) {
  sources_[0].send(MessageType::kContribution, 1, 5);
  sources_[0].send(MessageType::kContribution, 1, 5);
  settle();
  EXPECT_EQ(sources_[0].received, 0U);
  sources_[1].send(MessageType::kContribution, 1, 6);
  settle();
  EXPECT_EQ(sources_[0].sum, 11);
  EXPECT_EQ(switch_->late(), 0U);
}

TEST_F(QuorumTest, KeepsAsManyResultsAsItsHistory) {
  // Three slots for each of the four places: block 12 takes the slot of block 0.
  for (const uint32_t block : {0U, 4U, 8U, 12U}) {
    for (uint32_t i = 0; i < 2; i++) {
      sources_[i].send(MessageType::kContribution, block, static_cast<int32_t>(block + 1));
    }
    settle();
  }
  sources_[2].send(MessageType::kProbe, 4);
  settle();
  EXPECT_EQ(sources_[2].last.extension.type, MessageType::kResult);
  EXPECT_EQ(sources_[2].sum, 10);
  for (const MessageType type : {MessageType::kProbe, MessageType::kContribution}) {
    sources_[2].send(type, 0, 7);
    settle();
    EXPECT_EQ(sources_[2].last.extension.type, MessageType::kNotice);
    EXPECT_EQ(sources_[2].last.body.reason, wire::Reason::kPastCache);
  }
}

// --- Bounded time --------------------------------------------------------------------------------

class TimeoutTest : public WaitingSwitchTest {
 protected:
  TimeoutTest()
      : WaitingSwitchTest(3, [](AggregatorSpec& spec) {
          spec.job.mitigation = true;
          spec.job.timeout = microseconds(200);
          spec.job.history = 2;
        }) {}
};

TEST_F(TimeoutTest, BlockEndsOneTimeOutAfterItsFirstContribution) {
  const Instant first = core_.now();
  sources_[1].send(MessageType::kContribution, 0, 30);
  core_.run_until(first + microseconds(150));
  sources_[2].send(MessageType::kContribution, 0, 12);
  settle();
  for (const Source& source : sources_) {
    EXPECT_EQ(source.received, 1U);
    EXPECT_EQ(source.sum, 42);
    EXPECT_EQ(source.last.mask[0], 0b110U);
    EXPECT_EQ(source.at,
              first + kThere + microseconds(200) + WaitingSwitch::kPipelineLatency + kBackDegraded);
  }
  sources_[0].send(MessageType::kContribution, 0, 1000);
  settle();
  EXPECT_EQ(switch_->late(), 1U);
  EXPECT_EQ(sources_[0].sum, 42);
}

TEST_F(TimeoutTest, CompleteBlockDoesNotExpire) {
  for (Source& source : sources_) source.send(MessageType::kContribution, 0, 1);
  settle();  // Five timeouts.
  for (const Source& source : sources_) {
    EXPECT_EQ(source.received, 1U);
    EXPECT_EQ(source.sum, 3);
    EXPECT_FALSE(source.last.header.degraded);
  }
}

}  // namespace
}  // namespace tributary::lab
