// SPDX-License-Identifier: Apache-2.0
// Method: times by hand; then the protocol against an aggregator that falls silent in a session or
// at the join, and against one that answers while a peer is late. Virtual time only.
#include "host/silence_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "host/trio_ml/worker_protocol.h"
#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::SilenceWatch;
using host::Status;
using host::WorkerProtocol;
using ::testing::HasSubstr;

constexpr Duration kStep = milliseconds(10);
/// A limit's end may be late by a probe's interval in each of its steps.
constexpr Duration kLate = milliseconds(400);

Instant at(int64_t ms) { return Instant(milliseconds(ms)); }

host::CommunicatorConfig config_of(uint32_t aggregators) {
  host::CommunicatorConfig config = small_config();
  config.deadline = seconds(60);
  for (uint32_t i = 0; i < aggregators; i++) {
    const Endpoint address = Endpoint::ipv4(0x0a000001 + i, 12000);
    config.aggregators.push_back({.name = address.to_string(), .address = address});
  }
  return config;
}

TEST(SilenceWatch, FourQuestionsAStepApartStayWithoutAnswer) {
  const Duration limit = milliseconds(400);
  SilenceWatch watch;
  for (const int64_t asked_ms : {100, 101, 200, 299, 300, 399}) {
    watch.on_asked(at(50), limit, at(asked_ms));
    EXPECT_EQ(watch.ends_at(at(50), limit), Instant::never()) << asked_ms;
  }
  watch.on_asked(at(50), limit, at(400));  // The fourth that counts.
  EXPECT_EQ(watch.ends_at(at(50), limit), at(500));
  EXPECT_EQ(watch.silent_since(), at(100));
  EXPECT_EQ(watch.ends_at(at(450), limit), Instant::never());  // The aggregator has answered.
  watch.on_asked(at(450), limit, at(5000));                    // The first after the answer.
  EXPECT_EQ(watch.ends_at(at(450), limit), Instant::never());
  EXPECT_EQ(watch.silent_since(), at(5000));
}

// A worker that gets no core for a while sends its next questions at once.
TEST(SilenceWatch, QuestionsAtOnceAfterAPauseCountAsOne) {
  const Duration limit = milliseconds(400);
  SilenceWatch watch;
  watch.on_asked(at(50), limit, at(100));
  for (uint32_t i = 0; i < 100; i++) watch.on_asked(at(50), limit, at(9000));
  EXPECT_EQ(watch.ends_at(at(50), limit), Instant::never());
}

/// Lets `length` pass in small steps, and loses what the protocol sends.
void stay_silent(ProtocolBed& bed, Duration length) {
  for (Duration passed; passed < length; passed += kStep) {
    bed.pass(kStep);
    (void)bed.take_sent();
  }
}

/// Submits a tensor in a session with this configuration, and expects its end after `limit`.
void expect_end_after(const host::CommunicatorConfig& config, Duration limit) {
  ProtocolBed bed(config);
  bed.join();
  stay_silent(bed, seconds(30));  // Nobody waits: the silence ends nothing.
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  stay_silent(bed, limit);
  EXPECT_FALSE(tensor.transfer.done);
  stay_silent(bed, kLate);
  ASSERT_EQ(tensor.transfer.outcome.status, Status::kAggregatorGone);
  EXPECT_THAT(tensor.transfer.outcome.text,
              HasSubstr("aggregator 10.0.0.1:12000 has not answered for "));
}

TEST(SilenceWatch, OneOfSeveralAggregatorsIsLostAfterTwoSeconds) {
  expect_end_after(config_of(2), host::kSilentSessionFor);
}

// The aggregator dies. Anybody who reads the traffic can send its welcome again.
TEST(SilenceWatch, RepeatedWelcomeIsNoSignOfLife) {
  ProtocolBed bed(config_of(2));
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  wire::ControlBody welcome;
  welcome.sources = 4;
  welcome.key = kKey;
  welcome.result_key = kResultKey;
  const Instant until = bed.now + host::kSilentSessionFor + kLate;
  while (bed.now < until) {
    stay_silent(bed, milliseconds(100));
    bed.answer_join(MessageType::kWelcome, welcome);
  }
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kAggregatorGone);
}

// The aggregator may answer again, and then tells the others why this rank has left.
TEST(SilenceWatch, LeaveNamesTheSilentAggregatorToItself) {
  for (const uint32_t aggregators : {1, 2}) {
    auto config = config_of(aggregators);
    std::ranges::reverse(config.aggregators);
    config.server_silent = milliseconds(300);
    ProtocolBed bed(config);
    bed.join();
    IntTransfer tensor({1, 2, 3});
    bed.protocol.submit(tensor.transfer, bed.now);
    std::vector<SentMessage> sent;
    while (sent.empty() || sent.back().type() != MessageType::kLeave) {
      ASSERT_LT(bed.now, at(5000));
      bed.pass(kStep);
      sent = bed.take_sent();
    }
    EXPECT_EQ(sent.back().message.extension.tensor_elements, aggregators == 1 ? 0U : 2U);
  }
}

TEST(SilenceWatch, ConfigurationSetsTheLimit) {
  for (const uint32_t aggregators : {1, 2}) {
    auto config = config_of(aggregators);
    config.server_silent = milliseconds(300);
    expect_end_after(config, milliseconds(300));
    config.server_silent = seconds(9);
    expect_end_after(config, seconds(9));
  }
}

TEST(SilenceWatch, OnlyAggregatorMayBeSilentUntilTheDeadline) {
  ProtocolBed bed(config_of(1));
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  stay_silent(bed, seconds(59));
  EXPECT_FALSE(tensor.transfer.done);
  stay_silent(bed, seconds(2));
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kAggregatorGone);
}

/// Lets a session hear that its aggregator's upper one has been silent for a time, while a tensor
/// waits. @return the text of the session's end; empty: it goes on.
std::string end_after_upper_silence(const host::CommunicatorConfig& config, Duration silent_for) {
  ProtocolBed bed(config);
  bed.join();
  Message notice = bed.control(MessageType::kNotice, 0);
  notice.body.reason = Reason::kUpstreamSilent;
  notice.body.group = Endpoint::ipv4(0x0a000009, 12000);
  notice.body.timeout_us = static_cast<uint32_t>(in_microseconds(silent_for));
  bed.receive(notice);  // Nobody waits: it ends nothing.
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.receive(notice);
  EXPECT_EQ(tensor.transfer.done, bed.protocol.status() == Status::kAggregatorGone);
  return bed.protocol.status_text();
}

TEST(SilenceWatch, SilentUpperAggregatorOfOneOfSeveralIsLostAfterTheLimit) {
  EXPECT_EQ(end_after_upper_silence(config_of(2), milliseconds(1999)), "");
  EXPECT_THAT(end_after_upper_silence(config_of(2), milliseconds(2000)),
              HasSubstr("upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) has not answered "
                        "for 2.0 s"));
  EXPECT_EQ(end_after_upper_silence(config_of(1), seconds(50)), "");
  auto config = config_of(1);
  config.server_silent = seconds(9);
  EXPECT_EQ(end_after_upper_silence(config, milliseconds(8999)), "");
  EXPECT_NE(end_after_upper_silence(config, seconds(9)), "");
}

TEST(SilenceWatch, AggregatorThatWaitsForAStragglerAnswers) {
  ProtocolBed bed(config_of(2));
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  for (uint32_t i = 0; i < 15; i++) {
    stay_silent(bed, host::kSilentSessionFor - kStep);  // It loses most questions.
    bed.have(0, {1});
  }
  EXPECT_FALSE(tensor.transfer.done);
  bed.receive(bed.result(0, 3, tensor.transfer), std::array<int32_t, 3>{4, 8, 12});
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kOk);
}

TEST(SilenceWatch, JoinWithADirectorysListEndsWhenTheDirectoryKnows) {
  auto config = config_of(2);
  config.from_directory = true;
  ProtocolBed bed(config);
  stay_silent(bed, host::kSilentListedFor - kStep);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  wire::ControlBody pending;
  pending.reason = Reason::kWaitingForPeers;
  pending.sources = 4;
  bed.answer_join(MessageType::kPending, pending);
  stay_silent(bed, host::kSilentListedFor - kStep);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  stay_silent(bed, milliseconds(200));
  EXPECT_EQ(bed.protocol.status(), Status::kAggregatorGone);
  EXPECT_THAT(bed.protocol.status_text(), HasSubstr("10.0.0.1:12000 does not answer"));
}

TEST(SilenceWatch, JoinWithAGivenListWaitsForItsAggregators) {
  ProtocolBed bed(config_of(2));
  stay_silent(bed, seconds(30));
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  bed.join();
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
}

}  // namespace
}  // namespace tributary::testing
