// SPDX-License-Identifier: Apache-2.0
// Method: first queues that only record their calls, then ports on loopback. A wait that should end
// at once has a limit of 20 seconds, which only a failure reaches.
#include "io/wait_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "io/faults/impaired_port.h"
#include "tests/io/udp/udp_bed.h"

namespace tributary::io {
namespace {

using ::testing::ElementsAre;

constexpr Duration kPatience = seconds(20);

/// Adds descriptors that poll() ignores, so its waits only end by time.
class Recorder final : public engine::WaitSource {
 public:
  Recorder(std::vector<std::string>& calls, std::string name, uint32_t descriptors,
           bool has_packet = false)
      : calls_(calls), name_(std::move(name)), descriptors_(descriptors), has_packet_(has_packet) {}
  bool begin_wait(std::vector<pollfd>& polled) override {
    calls_.push_back("begin " + name_);
    if (has_packet_) return false;
    for (uint32_t i = 0; i < descriptors_; i++)
      polled.push_back({.fd = -1, .events = 0, .revents = 0});
    return true;
  }
  void end_wait(std::span<const pollfd> polled) override {
    calls_.push_back("end " + name_);
    EXPECT_EQ(polled.size(), descriptors_);
    for (const pollfd& each : polled) EXPECT_EQ(each.revents, 0);
  }

 private:
  std::vector<std::string>& calls_;
  const std::string name_;
  const uint32_t descriptors_;
  const bool has_packet_;
};

TEST(WaitSet, EachQueueGetsItsOwnDescriptors) {
  std::vector<std::string> calls;
  Recorder one(calls, "one", 1);
  Recorder three(calls, "three", 3);
  Recorder none(calls, "none", 0);
  std::array<bool, 3> ready{};
  WaitSet set;
  set.add(one, ready[0]);
  set.add(three, ready[1]);
  set.add(none, ready[2]);
  set.wait(Duration());
  EXPECT_THAT(calls, ElementsAre("begin one", "begin three", "begin none", "end one", "end three",
                                 "end none"));
  EXPECT_THAT(ready, ElementsAre(false, false, false));
}

TEST(WaitSet, AQueueWithAPacketEndsTheWaitBeforeItBegins) {
  std::vector<std::string> calls;
  Recorder first(calls, "first", 2);
  Recorder full(calls, "full", 2, /*has_packet=*/true);
  Recorder last(calls, "last", 2);
  std::array<bool, 3> ready{};
  WaitSet set;
  set.add(first, ready[0]);
  set.add(full, ready[1]);
  set.add(last, ready[2]);
  set.wait(kPatience);
  EXPECT_THAT(calls, ElementsAre("begin first", "begin full", "end first"));
  EXPECT_THAT(ready, ElementsAre(false, true, false));
}

/// Three sockets, and a fourth one that sends to them.
class Sockets : public ::testing::Test {
 protected:
  void SetUp() override {
    for (auto& port : ports_) port = open({.local = kLoopback4});
    sender_ = open({.local = kLoopback4});
    for (size_t i = 0; i < ports_.size(); i++) set_.add(source(i), ready_[i]);
  }
  engine::WaitSource& source(size_t i) { return *ports_[i]->queue(0).wait_source(); }
  void send_to(size_t i) {
    const std::array<std::byte, 4> bytes{};
    sender_->queue(0).transmit(
        std::array{engine::TxPacket{bytes.data(), bytes.size(), ports_[i]->local()}});
  }

  std::array<std::unique_ptr<UdpPort>, 3> ports_;
  std::unique_ptr<UdpPort> sender_;
  std::array<bool, 3> ready_{};
  WaitSet set_;
};

TEST_F(Sockets, OnlyQueuesWithPacketsAreReady) {
  send_to(1);
  set_.wait(kPatience);
  EXPECT_THAT(ready_, ElementsAre(false, true, false));
  EXPECT_EQ(receive(ports_[1]->queue(0), 1).size(), 1U);

  ready_ = {};
  send_to(0);
  send_to(2);
  set_.wait(kPatience);
  EXPECT_THAT(ready_, ElementsAre(true, false, true));
}

TEST_F(Sockets, TimeEndsTheWait) {
  set_.wait(microseconds(1));
  EXPECT_THAT(ready_, ElementsAre(false, false, false));
}

TEST_F(Sockets, AWakeEndsOneWait) {
  ports_[2]->queue(0).wake();
  set_.wait(kPatience);
  EXPECT_THAT(ready_, ElementsAre(false, false, true));
  ready_ = {};
  set_.wait(microseconds(1));
  EXPECT_THAT(ready_, ElementsAre(false, false, false));
}

// The socket is empty, because the port has read all packets; some of them wait for room in a
// burst.
TEST_F(Sockets, PacketsThatAPortHasReadEndTheWait) {
  for (int i = 0; i < 3; i++) send_to(0);
  std::array<engine::Packet, 1> burst;
  ASSERT_EQ(ports_[0]->queue(0).receive(burst), 1U);
  set_.wait(kPatience);
  EXPECT_TRUE(ready_[0]);
}

TEST_F(Sockets, AnImpairedPortGivesItsHeldPacketsFirst) {
  ImpairmentConfig config;
  config.rx.reorder = 1;
  auto impaired = ImpairedPort::make(std::move(ports_[0]), config);
  ASSERT_TRUE(impaired.has_value());
  engine::PortQueue& queue = (*impaired)->queue(0);
  set_.clear();
  set_.add(*queue.wait_source(), ready_[0]);
  const std::array<std::byte, 4> bytes{};
  sender_->queue(0).transmit(
      std::array{engine::TxPacket{bytes.data(), bytes.size(), (*impaired)->local()}});
  std::array<engine::Packet, engine::kBurstPackets> burst;
  ASSERT_EQ(queue.receive(burst), 0U);  // Held back.
  set_.wait(kPatience);
  EXPECT_TRUE(ready_[0]);
  EXPECT_EQ(queue.receive(burst), 1U);
}

}  // namespace
}  // namespace tributary::io
