// SPDX-License-Identifier: Apache-2.0
// Method: channels whose protocols note their calls, over sockets on loopback to which this test
// sends. Every wait has a deadline; nothing sleeps.
#include "host/channel_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "io/udp/udp_port.h"
#include "tests/io/udp/udp_bed.h"

namespace tributary::host {
namespace {

using ::testing::SizeIs;

/// Only a failure takes this long.
constexpr std::chrono::seconds kPatience{20};
constexpr size_t kChannels = 3;

/// The calls of all protocols, for the test's thread.
class Diary {
 public:
  void note(const std::function<void(Diary&)>& change) {
    const std::lock_guard lock(mutex_);
    change(*this);
    threads.insert(std::this_thread::get_id());
    changed_.notify_all();
  }
  /// Waits until the condition holds. @return false if that takes too long.
  bool wait_until(const std::function<bool(const Diary&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return condition(*this); });
  }

  std::array<uint32_t, kChannels> packets{};
  std::array<uint32_t, kChannels> deadlines{};  ///< Met.
  std::array<uint32_t, kChannels> ended{};
  std::set<std::thread::id> threads;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Runs until leave() or fail(), and sends nothing before.
class Noting final : public TensorProtocol {
 public:
  Noting(Diary& diary, size_t number, Instant deadline)
      : diary_(diary), number_(number), deadline_(deadline) {}

  void submit(Transfer& transfer, Instant) override {
    transfer.outcome.status = Status::kClosed;
    transfer.done = true;
  }
  void leave(Instant) override { end(); }
  void fail(Status, std::string, uint32_t) override { end(); }
  [[nodiscard]] bool accepts_from(const Endpoint&) const override { return true; }
  std::optional<Duration> on_packet(const Incoming&, Instant) override {
    diary_.note([this](Diary& diary) { diary.packets[number_]++; });
    return {};
  }
  void on_time(Instant now) override {
    if (now < deadline_) return;
    deadline_ = Instant::never();
    diary_.note([this](Diary& diary) { diary.deadlines[number_]++; });
  }
  /// Its only packet is a leave.
  [[nodiscard]] Outgoing next_packet(std::span<std::byte>, Instant) override {
    if (phase_ != Phase::kEnded || has_left_) return {};
    has_left_ = true;
    return {.size_bytes = 4, .stored_bytes = 4, .to = Endpoint::ipv4(0x7f000001, 9)};
  }
  [[nodiscard]] Instant next_deadline() const override { return deadline_; }
  [[nodiscard]] Phase phase() const override { return phase_; }
  [[nodiscard]] Status status() const override { return Status::kOk; }
  [[nodiscard]] const std::string& status_text() const override { return text_; }
  [[nodiscard]] bool idle() const override { return true; }
  [[nodiscard]] const CommunicatorCounters& counters() const override { return counters_; }
  [[nodiscard]] uint32_t packet_bytes_max() const override { return 64; }
  [[nodiscard]] uint32_t gradients() const override { return 1; }
  [[nodiscard]] uint32_t window() const override { return 1; }

 private:
  void end() {
    phase_ = Phase::kEnded;
    deadline_ = Instant::never();
    diary_.note([this](Diary& diary) { diary.ended[number_]++; });
  }

  Diary& diary_;
  const size_t number_;
  Instant deadline_;
  Phase phase_ = Phase::kRunning;
  bool has_left_ = false;
  const std::string text_;
  const CommunicatorCounters counters_;
};

class ChannelThreadTest : public ::testing::Test, public Channel::Owner {
 protected:
  void on_phase(Channel&) override {}
  void on_done(std::span<Channel::Part* const>) override {}

  Channel& make_channel(Instant deadline = Instant::never()) {
    const size_t number = channels_.size();
    auto port = io::open({.local = io::kLoopback4});
    addresses_[number] = port->local();
    channels_.push_back(std::make_unique<Channel>(
        std::make_unique<Noting>(diary_, number, deadline), std::move(port), *this));
    return *channels_.back();
  }
  void send_to(size_t number) {
    const std::array<std::byte, 4> bytes{};
    sender_->queue(0).transmit(
        std::array{engine::TxPacket{bytes.data(), bytes.size(), addresses_[number]}});
  }
  bool has_packets(size_t number, uint32_t count) {
    return diary_.wait_until([=](const Diary& diary) { return diary.packets[number] == count; });
  }
  bool has_ended(size_t number) {
    return diary_.wait_until([=](const Diary& diary) { return diary.ended[number] == 1; });
  }

  Diary diary_;
  const std::unique_ptr<io::UdpPort> sender_ = io::open({.local = io::kLoopback4});
  std::array<Endpoint, kChannels> addresses_;
  std::vector<std::unique_ptr<Channel>> channels_;
};

// Without this, closing would take as long as the longest sleep.
TEST_F(ChannelThreadTest, TheRoundAfterTheLastLeaveComesAtOnce) {
  Channel& channel = make_channel();
  const Instant now = monotonic_now();
  EXPECT_EQ(channel.run_round(now).sent, 0U);
  EXPECT_EQ(channel.next_deadline(), Instant::never());
  channel.leave();
  EXPECT_EQ(channel.run_round(now).sent, 1U);
  EXPECT_FALSE(channel.has_ended());
  EXPECT_LE(channel.next_deadline(), now);
  EXPECT_EQ(channel.run_round(now).sent, 0U);
  EXPECT_TRUE(channel.has_ended());
}

TEST_F(ChannelThreadTest, OneThreadDrivesAllChannels) {
  ChannelThread thread;
  for (size_t i = 0; i < kChannels; i++) thread.add(make_channel());
  for (uint32_t packets = 1; packets <= 3; packets++) {
    for (size_t i = 0; i < kChannels; i++) {
      send_to(i);
      EXPECT_TRUE(has_packets(i, packets));
    }
  }
  for (const auto& channel : channels_) channel->leave();
  thread.finish();
  EXPECT_THAT(diary_.threads, SizeIs(1));
}

TEST_F(ChannelThreadTest, ADeadlineOfAnyChannelEndsTheSleep) {
  ChannelThread thread;
  thread.add(make_channel());
  thread.add(make_channel(monotonic_now() + milliseconds(3)));
  EXPECT_TRUE(diary_.wait_until([](const Diary& diary) { return diary.deadlines[1] == 1; }));
  for (const auto& channel : channels_) channel->leave();
}

TEST_F(ChannelThreadTest, TheOthersGoOnWithoutAChannelThatHasEnded) {
  ChannelThread thread;
  for (size_t i = 0; i < 2; i++) thread.add(make_channel());
  channels_[0]->leave();
  ASSERT_TRUE(has_ended(0));
  send_to(1);
  EXPECT_TRUE(has_packets(1, 1));
  thread.add(make_channel());
  send_to(2);
  EXPECT_TRUE(has_packets(2, 1));
  channels_[1]->leave();
  channels_[2]->leave();
  thread.finish();
  Channel::Part part;
  for (const auto& channel : channels_) EXPECT_FALSE(channel->submit(part));
}

TEST_F(ChannelThreadTest, AChannelThatComesAfterTheEndOfAllIsDriven) {
  ChannelThread thread;
  thread.add(make_channel());
  channels_[0]->leave();
  ASSERT_TRUE(has_ended(0));
  thread.add(make_channel());
  send_to(1);
  EXPECT_TRUE(has_packets(1, 1));
  channels_[1]->leave();
}

TEST_F(ChannelThreadTest, AThreadWithoutChannelsEnds) {
  ChannelThread thread;
  thread.finish();
}

TEST_F(ChannelThreadTest, ItsEndIsThatOfItsChannels) {
  {
    ChannelThread thread;
    for (size_t i = 0; i < 2; i++) thread.add(make_channel());
  }
  EXPECT_TRUE(has_ended(0));
  EXPECT_TRUE(has_ended(1));
}

}  // namespace
}  // namespace tributary::host
