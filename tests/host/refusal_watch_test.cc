// SPDX-License-Identifier: Apache-2.0
// Method: times by hand; then both protocols against refusals, with and without an aggregator that
// answers. Virtual time only.
#include "host/refusal_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "host/switchml/switchml_protocol.h"
#include "host/trio_ml/worker_protocol.h"
#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::RefusalWatch;
using host::Status;
using host::TensorProtocol;
using host::WorkerProtocol;
using ::testing::HasSubstr;

constexpr const char* kText =
    "nothing listens at 10.0.0.1:12000 (ICMP port unreachable): check the address, and that "
    "tributary serve runs there";

Instant at(int64_t ms) { return Instant(milliseconds(ms)); }

host::CommunicatorConfig patient_config() {
  host::CommunicatorConfig config = small_config();
  config.deadline = seconds(60);
  return config;
}

TEST(RefusalWatch, CountsFromTheFirstRefusalAfterTheLastPacket) {
  const Duration limit = milliseconds(300);
  RefusalWatch watch;
  watch.on_refused(at(0), at(100));
  EXPECT_EQ(watch.ends_at(at(0), limit), Instant::never());  // One alone may be forged.
  watch.on_refused(at(0), at(150));
  EXPECT_EQ(watch.ends_at(at(0), limit), at(400));
  EXPECT_EQ(watch.ends_at(at(100), limit), Instant::never());  // The aggregator has answered.
  watch.on_refused(at(200), at(5000));
  EXPECT_EQ(watch.ends_at(at(200), limit), Instant::never());
  watch.on_refused(at(200), at(5001));
  EXPECT_EQ(watch.ends_at(at(200), limit), at(5300));
}

/// Lets `length` pass in steps of 50 ms, with a refusal in each.
void refuse_for(ProtocolBed& bed, Duration length) {
  for (Duration passed; passed < length; passed += milliseconds(50)) {
    bed.pass(milliseconds(50));
    (void)bed.take_sent();
    bed.protocol.on_refused(bed.now);
  }
}

TEST(RefusalWatch, JoinEndsAfterTwoSecondsOfRefusals) {
  ProtocolBed bed(patient_config());
  bed.pass(milliseconds(1));
  bed.protocol.on_refused(bed.now);
  refuse_for(bed, host::kRefusedJoinFor - milliseconds(50));
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  refuse_for(bed, milliseconds(50));
  EXPECT_EQ(bed.protocol.status(), Status::kAggregatorGone);
  EXPECT_EQ(bed.protocol.status_text(), kText);
}

TEST(RefusalWatch, JoinWaitsAsLongAsConfigured) {
  auto config = patient_config();
  config.server_wait = seconds(9);
  ProtocolBed bed(config);
  bed.pass(milliseconds(1));
  bed.protocol.on_refused(bed.now);
  refuse_for(bed, seconds(9) - milliseconds(50));
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  refuse_for(bed, milliseconds(50));
  EXPECT_EQ(bed.protocol.status(), Status::kAggregatorGone);
}

TEST(RefusalWatch, JoinFindsAServerThatStartsAMomentLater) {
  ProtocolBed bed(patient_config());
  refuse_for(bed, host::kRefusedJoinFor - milliseconds(100));
  wire::ControlBody pending;
  pending.reason = Reason::kWaitingForPeers;
  pending.sources = 4;
  bed.answer_join(MessageType::kPending, pending);
  bed.pass(seconds(10));
  bed.protocol.on_refused(bed.now);  // One forged refusal.
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  bed.join();
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
}

TEST(RefusalWatch, WaitForASumEndsAfterRefusals) {
  ProtocolBed bed(patient_config());
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.pass(seconds(3));
  bed.protocol.on_refused(bed.now);  // The first refusal ends nothing, however long the silence.
  refuse_for(bed, host::kRefusedSessionFor - milliseconds(50));
  EXPECT_FALSE(tensor.transfer.done);
  refuse_for(bed, milliseconds(50));
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kAggregatorGone);
  EXPECT_EQ(tensor.transfer.outcome.text, kText);
}

// The kernel of a machine sends at most one refusal a second, after a burst of six.
TEST(RefusalWatch, WaitForASumEndsThoughNoFurtherRefusalComes) {
  ProtocolBed bed(patient_config());
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.pass(milliseconds(1));
  for (uint32_t i = 0; i < 6; i++) bed.protocol.on_refused(bed.now);
  bed.pass(host::kRefusedSessionFor - milliseconds(1));
  EXPECT_FALSE(tensor.transfer.done);
  bed.pass(milliseconds(1));
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kAggregatorGone);
}

TEST(RefusalWatch, AggregatorThatAnswersOutweighsAnyNumberOfRefusals) {
  ProtocolBed bed(patient_config());
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  for (int i = 0; i < 100; i++) {
    refuse_for(bed, host::kRefusedSessionFor - milliseconds(50));
    bed.have(0, {1});
  }
  EXPECT_FALSE(tensor.transfer.done);
  bed.receive(bed.result(0, 3, tensor.transfer), std::array<int32_t, 3>{4, 8, 12});
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kOk);
}

TEST(RefusalWatch, IdleSessionIgnoresRefusals) {
  ProtocolBed bed(patient_config());
  bed.join();
  refuse_for(bed, seconds(10));
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
}

TEST(RefusalWatch, SwitchmlWorkerEndsAfterTwoSecondsOfRefusals) {
  host::SwitchmlConfig config;
  config.server = Endpoint::ipv4(0x0a000001, 12000);
  config.world = 2;
  config.elements = 64;
  config.pool = 2;
  host::SwitchmlProtocol protocol(config);
  protocol.on_refused(at(0));
  protocol.on_refused(at(9000));
  EXPECT_EQ(protocol.phase(), TensorProtocol::Phase::kRunning);  // Idle.
  IntTransfer tensor({1, 2, 3});
  protocol.submit(tensor.transfer, at(10'000));
  protocol.on_refused(at(10'000));
  protocol.on_refused(at(11'999));
  EXPECT_FALSE(tensor.transfer.done);
  protocol.on_refused(at(12'000));
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kAggregatorGone);
  EXPECT_EQ(tensor.transfer.outcome.text, kText);
}

}  // namespace
}  // namespace tributary::testing
