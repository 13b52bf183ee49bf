// SPDX-License-Identifier: Apache-2.0
// Method: one host on a bare node that a test uses as its server, so that the time of every packet
// is known. Then the receive buffer, the pause and the crash.
#include "lab/cluster/worker_node.h"

#include <gtest/gtest.h>

#include <array>

#include "host/trio_ml/worker_protocol.h"

namespace tributary::lab {
namespace {

using wire::Message;
using wire::MessageType;

const Endpoint kWorker = Endpoint::ipv4(0x0a00'0001, wire::kTrioMlPort);
const Endpoint kServer = Endpoint::ipv4(0x0a01'0001, wire::kTrioMlPort);
const Endpoint kStranger = Endpoint::ipv4(0x0a02'0001, wire::kTrioMlPort);

/// 1024 gradients, 32 bytes of head, 66 bytes around them at 100 Gbit/s.
constexpr Duration kPacketTime = picoseconds(335'520);

constexpr uint64_t kResultKey = 7;

/// Records the packets that arrive and their times. Welcomes every worker that joins.
class Server final : public net::Node {
 public:
  struct Arrival {
    Instant at;
    Message message;
    uint32_t size_bytes;
  };

  explicit Server(net::Network& network) : network_(network) {
    id = network.add_node(*this, "server");
  }

  void receive(uint32_t, net::PacketRef packet) override {
    Message message;
    ASSERT_EQ(decode_message(packet->stored, packet->size_bytes, message), wire::DecodeStatus::kOk);
    if (message.extension.type == MessageType::kJoin) return welcome(message);
    if (message.extension.type != MessageType::kContribution) return;
    arrivals.push_back({network_.core().now(), message, packet->size_bytes});
  }

  void send(const Message& message, uint32_t size_bytes, const Endpoint& from = kServer) {
    std::array<std::byte, wire::kControlMessageBytes> bytes{};
    const uint32_t stored = encode_message(message, bytes.data());
    network_.transmit(id, 0,
                      network_.packets().make(from, kWorker, std::max(size_bytes, stored),
                                              std::span(bytes).first(stored)));
  }

  /// Returns the result of a contribution that has arrived.
  void answer(const Arrival& arrival) {
    Message result = arrival.message;
    result.extension.type = MessageType::kResult;
    result.extension.key = kResultKey;
    send(result, arrival.size_bytes);
  }

  net::NodeId id = 0;
  uint32_t window = 64;
  std::vector<Arrival> arrivals;

 private:
  void welcome(const Message& join) {
    Message reply;
    reply.header = join.header;
    reply.extension.type = MessageType::kWelcome;
    reply.extension.key = join.extension.key;  // Its nonce.
    reply.body.result_key = kResultKey;
    reply.body.sources = 1;
    reply.body.window = window;
    reply.body.gradients_max = 1024;
    reply.body.key = 9;
    send(reply, 0);
  }

  net::Network& network_;
};

class WorkerNodeTest : public ::testing::Test {
 protected:
  WorkerNodeTest() : network_(core_, 1), server_(network_) {
    config_.name = "worker";
    config_.address = kWorker;
    config_.communicator.server = kServer;
    config_.communicator.gradients = 1024;
    config_.communicator.window = 1024;
    config_.communicator.repair = false;
    config_.packet_cost = nanoseconds(100);
    config_.latency = &latency_;
  }

  void start(uint32_t window) {
    server_.window = window;
    worker_ = std::make_unique<WorkerNode>(network_, config_, 1);
    net::LinkConfig link{.propagation = nanoseconds(450)};
    net::LinkConfig host_side = link;
    host_side.queue_bytes_max = uint64_t{1} << 40;
    ASSERT_TRUE(network_.connect(worker_->id(), 0, server_.id, 0, host_side, link).has_value());
    worker_->start();
    core_.run_until(Instant(milliseconds(1)));
    ASSERT_EQ(worker_->protocol().phase(), host::TensorProtocol::Phase::kRunning);
  }

  EventCore core_;
  net::Network network_;
  Server server_;
  WorkerNodeConfig config_;
  engine::LatencyHistogram latency_;
  std::unique_ptr<WorkerNode> worker_;
};

TEST_F(WorkerNodeTest, SendsPacketsAtTheNicsRate) {
  start(1024);
  host::Transfer transfer;
  transfer.elided_elements = 1024 * 200;
  const Instant begin = core_.now();
  worker_->submit(transfer);
  core_.run_until(begin + milliseconds(1));
  ASSERT_EQ(server_.arrivals.size(), 200U);
  for (uint32_t i = 0; i < 200; i++) {
    EXPECT_EQ(server_.arrivals[i].at, begin + kPacketTime * (i + 1) + nanoseconds(450)) << i;
    EXPECT_EQ(server_.arrivals[i].size_bytes, 4096U + 32);
  }
}

TEST_F(WorkerNodeTest, HostCostLimitsTheRate) {
  config_.packet_cost = microseconds(1);  // Three times a packet's time on the wire.
  start(1024);
  host::Transfer transfer;
  transfer.elided_elements = 1024 * 100;
  const Instant begin = core_.now();
  worker_->submit(transfer);
  core_.run_until(begin + milliseconds(1));
  ASSERT_EQ(server_.arrivals.size(), 100U);
  // Rounds of 32 packets, 32 us apart. The first packet of a round leaves at its start.
  EXPECT_EQ(server_.arrivals[32].at, begin + microseconds(32) + kPacketTime + nanoseconds(450));
  EXPECT_EQ(server_.arrivals[96].at, begin + microseconds(96) + kPacketTime + nanoseconds(450));
}

TEST_F(WorkerNodeTest, CountsTheWorkOfItsCpuUntilNow) {
  config_.packet_cost = microseconds(1);
  start(1024);
  const Duration joined = worker_->worked();  // The packets of the join.
  EXPECT_GE(joined, microseconds(2));
  host::Transfer transfer;
  transfer.elided_elements = 1024 * 100;
  const Instant begin = core_.now();
  worker_->submit(transfer);
  // The second round's 32 packets are charged at 32 us, but half of their time is to come.
  core_.run_until(begin + microseconds(48));
  EXPECT_EQ(worker_->worked(), joined + microseconds(48));
  core_.run_until(begin + milliseconds(1));
  EXPECT_EQ(worker_->worked(), joined + microseconds(100));
}

TEST_F(WorkerNodeTest, LatencySpansSendingToReceiving) {
  start(1);
  host::Transfer transfer;
  transfer.elided_elements = 1024;
  const Instant begin = core_.now();
  worker_->submit(transfer);
  core_.run_until(begin + microseconds(50));
  ASSERT_EQ(server_.arrivals.size(), 1U);
  EXPECT_EQ(worker_->protocol().progress().heard, 0U);
  server_.answer(server_.arrivals[0]);
  core_.run_until(begin + milliseconds(1));
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(worker_->protocol().progress().heard, 1U);
  // The answer leaves after 50 us, then takes the time of a packet and the propagation delay.
  EXPECT_EQ(latency_.summary().max, microseconds(50) + kPacketTime + nanoseconds(450));
}

TEST_F(WorkerNodeTest, RecordsResultsOfBlocksItHasNotSent) {
  start(64);
  Message result;
  result.header = {.job_id = 1, .block_id = 41, .extended = true, .grad_cnt = 1024};
  result.extension = {.type = MessageType::kResult, .key = kResultKey};
  server_.send(result, 32 + 4096);
  result.header.block_id = 20;  // An older block changes nothing.
  server_.send(result, 32 + 4096);
  result.header.block_id = 99;  // Belongs to another session.
  result.extension.key = kResultKey + 1;
  server_.send(result, 32 + 4096);
  core_.run_until(Instant(milliseconds(2)));
  EXPECT_EQ(worker_->protocol().progress().heard, 42U);
}

TEST_F(WorkerNodeTest, CountsForeignPacketsAndOverflows) {
  config_.receive_buffer_bytes = 10'000;  // Two packets of 4,128 bytes.
  start(64);
  worker_->pause(milliseconds(5));
  Message result;
  result.header = {.block_id = 0, .extended = true, .grad_cnt = 1024};
  result.extension = {.type = MessageType::kResult, .key = kResultKey};
  for (uint32_t i = 0; i < 5; i++) server_.send(result, 32 + 4096, kStranger);
  core_.run_until(Instant(milliseconds(4)));
  EXPECT_EQ(worker_->receive_overflows(), 3U);
  EXPECT_EQ(worker_->foreign_packets(), 0U);  // The worker is paused.
  core_.run_until(Instant(milliseconds(10)));
  EXPECT_EQ(worker_->foreign_packets(), 2U);
}

TEST_F(WorkerNodeTest, NewProcessJoinsWithAnotherNonce) {
  std::vector<uint64_t> nonces;
  config_.protocol = [&](uint64_t nonce, Instant now) {
    nonces.push_back(nonce);
    return std::make_unique<host::WorkerProtocol>(config_.communicator, nonce, now);
  };
  start(64);
  worker_->crash();
  EXPECT_FALSE(worker_->runs());
  Message result;
  result.header = {.block_id = 0, .extended = true, .grad_cnt = 1024};
  result.extension = {.type = MessageType::kResult, .key = kResultKey};
  server_.send(result, 32 + 4096);  // The worker has crashed, so it gets nothing.
  core_.run_until(Instant(milliseconds(2)));
  worker_->start();
  core_.run_until(Instant(milliseconds(3)));
  ASSERT_EQ(nonces.size(), 2U);
  EXPECT_NE(nonces[0], nonces[1]);
  EXPECT_EQ(worker_->protocol().phase(), host::TensorProtocol::Phase::kRunning);
  EXPECT_EQ(worker_->protocol().progress().heard, 0U);
}

}  // namespace
}  // namespace tributary::lab
