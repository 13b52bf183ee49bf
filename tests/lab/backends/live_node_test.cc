// SPDX-License-Identifier: Apache-2.0
// Method: one worker's host and one aggregator on a clean cable, in virtual time.
#include "lab/backends/live_node.h"

#include <gtest/gtest.h>

#include "lab/cluster/worker_node.h"

namespace tributary::lab {
namespace {

using host::Status;
using host::TensorProtocol;

class LiveNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AggregatorSpec spec;
    spec.name = "aggregator";
    spec.address = Endpoint::ipv4(0x0a000001, 12000);
    spec.job.block_cnt_max = 8;
    spec.job.block_grad_max = 32;
    auto made = LiveNode::create(network, spec);
    ASSERT_TRUE(made.has_value());
    node = *std::move(made);
    WorkerNodeConfig config;
    config.name = "worker";
    config.address = Endpoint::ipv4(0x0a000002, 12000);
    config.communicator.server = spec.address;
    config.communicator.gradients = 4;
    config.communicator.window = 4;
    config.communicator.deadline = seconds(10);
    worker = std::make_unique<WorkerNode>(network, config, 1);
    ASSERT_TRUE(network.connect(worker->id(), 0, node->id(), 0, {}, {}).has_value());
    const uint32_t port = 0;
    node->table().set_route(config.address, {&port, 1});
    worker->start();
    run_for(milliseconds(1));
    ASSERT_EQ(worker->protocol().phase(), TensorProtocol::Phase::kRunning);
  }

  void run_for(Duration length) { core.run_until(core.now() + length); }
  Status status_after(Duration length) {
    run_for(length);
    return worker->protocol().status();
  }

  EventCore core;
  net::Network network{core, 1};
  std::unique_ptr<LiveNode> node;
  std::unique_ptr<WorkerNode> worker;
};

TEST_F(LiveNodeTest, ServesUnlessPaused) {
  std::vector<int32_t> tensor(40, 7);
  host::Transfer transfer;
  transfer.integers = tensor;
  node->pause(milliseconds(50));
  worker->submit(transfer);
  run_for(milliseconds(40));
  EXPECT_FALSE(transfer.done);
  run_for(milliseconds(20));
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kOk);
  EXPECT_EQ(tensor, std::vector<int32_t>(40, 7));
}

TEST_F(LiveNodeTest, RestartForgetsTheSession) {
  const trio_ml::Session& session = node->shard().job(1)->session;
  const uint64_t before = session.result_key(session.number());
  EXPECT_EQ(before, worker->protocol().session());
  node->stop();
  EXPECT_FALSE(node->runs());
  run_for(milliseconds(10));
  node->start();
  EXPECT_EQ(node->shard().job(1)->session.number(), 0U);
  EXPECT_EQ(status_after(seconds(2)), Status::kSessionLost);  // Learns it at the next keep-alive.
  EXPECT_EQ(network.packets().held_count(), 0U);
}

// The session ends because the workers are silent by the aggregator's clock.
TEST_F(LiveNodeTest, ClockJumpEndsASilentSession) {
  EXPECT_EQ(status_after(milliseconds(1100)), Status::kOk);
  node->step_clock(seconds(5));
  EXPECT_EQ(status_after(seconds(2)), Status::kSessionLost);
}

TEST_F(LiveNodeTest, RefusesABadJob) {
  AggregatorSpec spec;
  spec.name = "other";
  spec.address = Endpoint::ipv4(0x0a000003, 12000);
  spec.job.block_cnt_max = 3;
  const auto made = LiveNode::create(network, spec);
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().text.find("block_cnt_max"), std::string::npos);
}

}  // namespace
}  // namespace tributary::lab
