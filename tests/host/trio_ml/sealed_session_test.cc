// SPDX-License-Identifier: Apache-2.0
// Method: whole sessions over the virtual network in every authentication mode: exact sums at a
// star and at a tree, with and without loss; then ends that disagree, and strangers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "auth/gmac.h"
#include "auth/session_seal.h"
#include "host/trio_ml/worker_protocol.h"
#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

using auth::Mode;
using host::Status;
using ::testing::HasSubstr;

const Endpoint kRoot = VirtualNet::address(0, 0);
constexpr uint32_t kWorld = 3;

auth::JobAuth auth_of(Mode mode, uint64_t seed = 1) { return {mode, auth::key_of_seed(seed)}; }

trio_ml::JobConfig job_of(const auth::JobAuth& auth) {
  trio_ml::JobConfig job;
  job.sources = kWorld;
  job.block_cnt_max = 16;
  job.block_grad_max = 32;
  job.auth = auth;
  return job;
}

host::CommunicatorConfig worker_of(uint32_t rank, const Endpoint& server, uint32_t source,
                                   const auth::JobAuth& auth) {
  host::CommunicatorConfig config;
  config.server = server;
  config.rank = rank;
  config.source = source;
  config.world = kWorld;
  config.gradients = 8;
  config.window = 16;
  config.deadline = seconds(5);
  config.auth = auth;
  return config;
}

bool all_in(const VirtualNet& net, host::TensorProtocol::Phase phase) {
  for (uint32_t i = 0; i < net.worker_count(); i++) {
    if (net.worker(i).phase() != phase) return false;
  }
  return true;
}

/// Runs `rounds` all-reduces of 500 elements on all workers, and checks every element.
void expect_exact_sums(VirtualNet& net, uint32_t rounds) {
  ASSERT_TRUE(net.run_until(net.now() + seconds(10),
                            [&net] { return all_in(net, host::TensorProtocol::Phase::kRunning); }));
  for (uint32_t round = 0; round < rounds; round++) {
    std::vector<std::vector<int32_t>> tensors(kWorld, std::vector<int32_t>(500));
    std::vector<host::Transfer> transfers(kWorld);
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      for (uint32_t i = 0; i < 500; i++) {
        tensors[rank][i] = static_cast<int32_t>((rank + 1) * (i + round));
      }
      transfers[rank].integers = tensors[rank];
      net.submit(rank, transfers[rank]);
    }
    ASSERT_TRUE(net.run_until(
        net.now() + seconds(20),
        [&transfers] { return transfers[0].done && transfers[1].done && transfers[2].done; }))
        << "round " << round;
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      ASSERT_EQ(transfers[rank].outcome.status, Status::kOk) << transfers[rank].outcome.text;
      for (uint32_t i = 0; i < 500; i++) {
        ASSERT_EQ(tensors[rank][i], static_cast<int32_t>(6 * (i + round)));
      }
    }
  }
}

class SealedSession : public ::testing::TestWithParam<std::tuple<Mode, double>> {
 protected:
  void SetUp() override {
    if (mode() == Mode::kFull && !auth::Gmac::is_available()) {
      GTEST_SKIP() << "built without libipsec-mb";
    }
  }
  [[nodiscard]] static Mode mode() { return std::get<0>(GetParam()); }
  [[nodiscard]] static net::LinkFaults faults() {
    const double rate = std::get<1>(GetParam());
    return {.loss = rate, .duplicate = rate, .jitter = microseconds(10)};
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, SealedSession,
                         ::testing::Combine(::testing::Values(Mode::kNone, Mode::kHeader,
                                                              Mode::kFull),
                                            ::testing::Values(0.0, 0.05)),
                         [](const auto& parameter) {
                           return std::string(auth::to_string(std::get<0>(parameter.param))) +
                                  (std::get<1>(parameter.param) > 0 ? "Loss" : "Calm");
                         });

TEST_P(SealedSession, SumsAreExactAtAStar) {
  VirtualNet net(7, faults());
  net.add_aggregator(job_of(auth_of(mode())), kRoot);
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    net.add_worker(worker_of(rank, kRoot, rank, auth_of(mode())), VirtualNet::address(2, rank));
  }
  expect_exact_sums(net, 5);
  EXPECT_EQ(net.count(0, trio_ml::Outcome::kBadSeal), 0U);
  if (std::get<1>(GetParam()) == 0.0) {
    EXPECT_EQ(net.count(0, trio_ml::Outcome::kReplayed), 0U);
  }
}

TEST_P(SealedSession, SumsAreExactAtATree) {
  VirtualNet net(8, faults());
  trio_ml::JobConfig upper = job_of(auth_of(mode()));
  upper.world = kWorld;
  upper.sources = 2;
  upper.sources_are_aggregators = true;
  net.add_aggregator(upper, kRoot);
  for (uint32_t leaf = 0; leaf < 2; leaf++) {
    trio_ml::JobConfig lower = job_of(auth_of(mode()));
    lower.world = kWorld;
    lower.sources = 2 - leaf;
    lower.rank_base = 2 * leaf;
    lower.upstream = kRoot;
    lower.upstream_source = leaf;
    net.add_aggregator(lower, VirtualNet::address(1, leaf));
  }
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    net.add_worker(worker_of(rank, VirtualNet::address(1, rank / 2), rank % 2, auth_of(mode())),
                   VirtualNet::address(2, rank));
  }
  expect_exact_sums(net, 3);
}

// --- Ends that disagree --------------------------------------------------------------------------

struct Disagreement {
  auth::JobAuth server;
  auth::JobAuth worker;
  const char* text;
};

// A worker with a secret waits kUnsealedAfter, because anybody can forge a refusal without a seal.
TEST(SealedJoin, EndsThatDisagreeAreToldWithinASecond) {
  const std::vector<Disagreement> cases{
      {auth_of(Mode::kNone), auth_of(Mode::kHeader), "has auth=none; this worker has auth=header"},
      {auth_of(Mode::kHeader), auth_of(Mode::kNone), "has auth=header; this worker has auth=none"},
      {auth_of(Mode::kHeader), auth_of(Mode::kHeader, 2), "has another secret than this worker"},
  };
  for (const Disagreement& ends : cases) {
    VirtualNet net(9);
    net.add_aggregator(job_of(ends.server), kRoot);
    net.add_worker(worker_of(0, kRoot, 0, ends.worker), VirtualNet::address(2, 0));
    ASSERT_TRUE(net.run_until(Instant(milliseconds(1300)), [&net] {
      return all_in(net, host::TensorProtocol::Phase::kEnded);
    })) << ends.text;
    EXPECT_EQ(net.worker(0).status(), Status::kRefused);
    EXPECT_THAT(net.worker(0).status_text(), HasSubstr(ends.text));
    EXPECT_GE(net.count(0, trio_ml::Outcome::kWrongAuthentication), 1U);
  }
}

/// Returns a reply to a join with this nonce.
std::vector<std::byte> reply_of(wire::MessageType type, wire::Reason reason, uint64_t nonce,
                                auth::AggregatorEnd* seal) {
  wire::Message reply;
  reply.header = {.job_id = 1, .extended = true};
  reply.extension = {.type = type, .key = nonce};
  if (seal != nullptr) reply.extension.flags = wire::kFlagHeaderSeal;
  reply.body.reason = reason;
  reply.body.value = static_cast<uint32_t>(Mode::kHeader);
  std::vector<std::byte> bytes(wire::kControlMessageBytes);
  bytes.resize(encode_message(reply, bytes.data()));
  if (seal != nullptr) seal->seal_join_reply(bytes);
  return bytes;
}

// A party that reads the traffic knows the nonce of a join, so it can forge a refusal without a
// seal, or make the aggregator send one.
TEST(SealedJoin, RefusalWithoutASealCountsOnlyWithoutASealedReply) {
  constexpr uint64_t kNonce = 77;
  const auth::JobAuth auth = auth_of(Mode::kHeader);
  auth::AggregatorEnd end(auth, /*job_id=*/1, /*lane=*/0, kWorld, /*source_lanes=*/1);
  const auto refusal =
      reply_of(wire::MessageType::kRefusal, wire::Reason::kAuthentication, kNonce, nullptr);
  const auto pending =
      reply_of(wire::MessageType::kPending, wire::Reason::kWaitingForPeers, kNonce, &end);
  using Phase = host::TensorProtocol::Phase;

  host::WorkerProtocol unanswered(worker_of(0, kRoot, 0, auth), kNonce, Instant());
  std::vector<std::byte> request(unanswered.packet_bytes_max());
  EXPECT_GT(unanswered.next_packet(request, Instant()).size_bytes, 0U);
  unanswered.on_packet(refusal, Instant(milliseconds(999)));
  EXPECT_EQ(unanswered.phase(), Phase::kJoining);
  EXPECT_EQ(unanswered.counters().forged_packets, 1U);
  unanswered.on_packet(refusal, Instant(milliseconds(1000)));
  EXPECT_EQ(unanswered.status(), Status::kRefused);

  host::WorkerProtocol answered(worker_of(0, kRoot, 0, auth), kNonce, Instant());
  answered.on_packet(pending, Instant(milliseconds(10)));
  answered.on_packet(refusal, Instant(milliseconds(4000)));
  EXPECT_EQ(answered.phase(), Phase::kJoining);
  EXPECT_EQ(answered.counters().forged_packets, 1U);
}

// --- Messages for another member -----------------------------------------------------------------

/// A worker of rank 1 in a sealed session, whose aggregator the test plays.
class SealedWorker {
 public:
  explicit SealedWorker(bool asynchronous, bool names_receiver = true)
      : end_(auth_of(Mode::kHeader), /*job_id=*/1, /*lane=*/0, kWorld, /*source_lanes=*/1),
        protocol_(config_of(asynchronous), kNonce, Instant()) {
    wire::Message welcome = message_of(wire::MessageType::kWelcome, 0);
    welcome.extension.key = kNonce;
    welcome.body.sources = kWorld;
    welcome.body.window = 16;
    welcome.body.gradients_max = 8;
    welcome.body.key = 11;
    welcome.body.result_key = kResultKey;
    welcome.body.salt_high = 1;
    welcome.body.salt_low = 2;
    welcome.body.names_receiver = names_receiver;
    std::vector<std::byte> bytes(wire::kControlMessageBytes);
    bytes.resize(encode_message(welcome, bytes.data()));
    end_.seal_join_reply(bytes);
    protocol_.on_packet(bytes, Instant());
    end_.start({1, 2});
    transfer.integers = tensor;
    protocol_.submit(transfer, Instant());
    std::vector<std::byte> out(protocol_.packet_bytes_max());
    while (protocol_.next_packet(out, Instant()).size_bytes > 0) {
    }
  }

  /// Delivers a message of the session for the source `receiver`.
  void receive(wire::MessageType type, uint8_t receiver, const wire::ControlBody& body = {}) {
    wire::Message message = message_of(type, receiver);
    message.body = body;
    std::vector<std::byte> bytes(wire::kControlMessageBytes);
    bytes.resize(encode_message(message, bytes.data()));
    const size_t head_bytes = bytes.size();
    if (type == wire::MessageType::kResult) {  // The values 5, 6, 7.
      for (const std::byte value : {std::byte{5}, std::byte{6}, std::byte{7}}) {
        bytes.resize(bytes.size() + 3);
        bytes.push_back(value);
      }
    }
    end_.seal(std::span(bytes).first(head_bytes), std::span(bytes).subspan(head_bytes));
    protocol_.on_packet(bytes, Instant(milliseconds(1)));
  }
  [[nodiscard]] const host::WorkerProtocol& protocol() const { return protocol_; }

  std::vector<int32_t> tensor{1, 2, 3};
  host::Transfer transfer;

 private:
  static constexpr uint64_t kNonce = 77;
  static constexpr uint64_t kResultKey = 12;

  static host::CommunicatorConfig config_of(bool asynchronous) {
    host::CommunicatorConfig config = worker_of(1, kRoot, 1, auth_of(Mode::kHeader));
    config.asynchronous = asynchronous;
    return config;
  }
  static wire::Message message_of(wire::MessageType type, uint8_t receiver) {
    wire::Message message;
    message.header = {.job_id = 1, .extended = true, .src_id = receiver, .src_cnt = 1};
    message.extension = {
        .type = type, .flags = wire::kFlagHeaderSeal, .tensor_elements = 3, .key = kResultKey};
    if (type == wire::MessageType::kResult) message.header.grad_cnt = 3;
    return message;
  }

  auth::AggregatorEnd end_;
  host::WorkerProtocol protocol_;
};

// An attacker drops rank 1's push and passes the answer to rank 0's push on to rank 1, which would
// take its own push for added.
TEST(SealedAsynchronousWorker, TakesNoAnswerToAnotherRank) {
  SealedWorker worker(/*asynchronous=*/true);
  ASSERT_EQ(worker.protocol().phase(), host::TensorProtocol::Phase::kRunning);
  worker.receive(wire::MessageType::kResult, 0);
  EXPECT_FALSE(worker.transfer.done);
  EXPECT_EQ(worker.protocol().counters().invalid_packets, 1U);
  worker.receive(wire::MessageType::kResult, 1);
  EXPECT_TRUE(worker.transfer.done);
  EXPECT_EQ(worker.tensor, (std::vector<int32_t>{5, 6, 7}));

  // An older aggregator names no receiver.
  SealedWorker older(/*asynchronous=*/true, /*names_receiver=*/false);
  older.receive(wire::MessageType::kResult, 0);
  EXPECT_TRUE(older.transfer.done);
}

// The result of a synchronous job is the same for all ranks.
TEST(SealedWorker, TakesAResultForAllRanks) {
  SealedWorker worker(/*asynchronous=*/false);
  worker.receive(wire::MessageType::kResult, 0);
  EXPECT_TRUE(worker.transfer.done);
}

TEST(SealedWorker, TakesNoHaveOfAnotherRank) {
  SealedWorker worker(/*asynchronous=*/false);
  const uint64_t received = worker.protocol().counters().packets_received;
  worker.receive(wire::MessageType::kHave, 0);
  EXPECT_EQ(worker.protocol().counters().packets_received, received);
  worker.receive(wire::MessageType::kHave, 1);
  EXPECT_EQ(worker.protocol().counters().packets_received, received + 1);
}

// An operator evicts rank 0. A party that reads the notice passes it on to rank 1.
TEST(SealedWorker, EvictionOfAnotherRankDoesNotEndIt) {
  using Phase = host::TensorProtocol::Phase;
  wire::ControlBody body;
  body.reason = wire::Reason::kEvicted;
  SealedWorker worker(/*asynchronous=*/false);
  worker.receive(wire::MessageType::kNotice, 0, body);
  EXPECT_EQ(worker.protocol().phase(), Phase::kRunning);
  body.source = 1;
  worker.receive(wire::MessageType::kNotice, 1, body);
  EXPECT_EQ(worker.protocol().phase(), Phase::kEnded);

  // The eviction of this worker's aggregator, which is source 0 of the upper one, concerns all its
  // ranks.
  SealedWorker below(/*asynchronous=*/false);
  body.source = 0;
  body.group = Endpoint::ipv4(0x0a000009, 12000);
  below.receive(wire::MessageType::kNotice, 0, body);
  EXPECT_EQ(below.protocol().phase(), Phase::kEnded);
}

// --- A restart -----------------------------------------------------------------------------------

// The restarted aggregator has no secret for a seal.
TEST(RestartedWithoutTheJob, EndsTheSessionWithinASecond) {
  for (const Mode mode : {Mode::kNone, Mode::kHeader}) {
    VirtualNet net(9);
    net.add_aggregator(job_of(auth_of(mode)), kRoot);
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      net.add_worker(worker_of(rank, kRoot, rank, auth_of(mode)), VirtualNet::address(2, rank));
    }
    expect_exact_sums(net, 1);
    trio_ml::JobConfig other = job_of({});
    other.id = 2;
    const uint32_t restarted = net.add_aggregator(other, kRoot);  // Takes over the address.
    std::vector<int32_t> tensor(500, 1);
    host::Transfer transfer;
    transfer.integers = tensor;
    net.submit(0, transfer);
    ASSERT_TRUE(net.run_until(net.now() + seconds(1), [&] { return transfer.done; }));
    EXPECT_EQ(transfer.outcome.status, Status::kSessionLost);
    EXPECT_THAT(transfer.outcome.text, HasSubstr("was restarted or has ended this session"));
    EXPECT_GT(net.count(restarted, trio_ml::Outcome::kResetSent), 0U);
  }
}

}  // namespace
}  // namespace tributary::testing
