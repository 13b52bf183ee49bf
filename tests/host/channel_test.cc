// SPDX-License-Identifier: Apache-2.0
// Method: a channel whose aggregator this test plays, with results over a multicast group on
// loopback. Another process sends to the group, too. Every wait has a deadline.
#include "host/channel.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "host/channel_thread.h"
#include "io/udp/free_port.h"
#include "io/udp/udp_port.h"
#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::Channel;

/// Only a failure takes this long.
constexpr Duration kPatience = seconds(20);

class Ignoring final : public Channel::Owner {
 public:
  void on_phase(Channel&) override {}
  void on_done(std::span<Channel::Part* const>) override { done = true; }
  std::atomic<bool> done = false;
};

std::unique_ptr<io::UdpPort> loopback_port() {
  io::UdpPortConfig config;
  config.local = Endpoint::ipv4(0x7f000001, 0);
  auto port = io::UdpPort::open(config);
  EXPECT_TRUE(port.has_value());
  return *std::move(port);
}

/// Repeats `step` until `condition`. @return false if that takes too long.
bool repeat_until(const std::function<bool()>& condition, const std::function<void()>& step) {
  const Instant deadline = monotonic_now() + kPatience;
  while (!condition()) {
    if (monotonic_now() > deadline) return false;
    step();
    std::this_thread::yield();
  }
  return true;
}

void send(io::UdpPort& from, const Message& message, std::span<const int32_t> lanes,
          const Endpoint& to) {
  std::vector<std::byte> bytes(wire::kControlMessageBytes + lanes.size() * 4);
  uint32_t size = encode_message(message, bytes.data());
  for (const int32_t lane : lanes) {
    store_be(&bytes[size], static_cast<uint32_t>(lane));
    size += 4;
  }
  from.queue(0).transmit(std::array{engine::TxPacket{bytes.data(), size, to}});
}

// Any process in the network can send to the group. The forger even knows the session's key.
TEST(Channel, ForgedResultsOfAGroupAreNotAccepted) {
  const auto server = loopback_port();
  const auto forger = loopback_port();
  const auto port = io::free_port(io::Transport::kUdp);
  ASSERT_TRUE(port.has_value());
  host::CommunicatorConfig config = small_config();
  config.server = server->local();
  config.deadline = kPatience;
  const Instant now = monotonic_now();
  // The first tensor only shows that the channel has joined the group.
  std::array<std::vector<int32_t>, 2> tensors{{{5, 6}, {7, 8}}};
  std::array<Channel::Part, 2> parts;
  Ignoring owner;
  auto own_port = loopback_port();
  const Endpoint own_address = own_port->local();
  Channel channel(std::make_unique<host::WorkerProtocol>(config, kNonce, now), std::move(own_port),
                  owner);
  host::ChannelThread thread;
  thread.add(channel);

  const ProtocolBed bed(config);  // Only to build messages.
  Message welcome = bed.control(MessageType::kWelcome, 0);
  welcome.extension.key = kNonce;
  welcome.body.sources = 4;
  welcome.body.window = 4;
  welcome.body.gradients_max = 4;
  welcome.body.key = kKey;
  welcome.body.result_key = kResultKey;
  welcome.body.group = Endpoint::ipv4(0xef4d0102, *port);
  ASSERT_TRUE(repeat_until(
      [&] { return channel.snapshot().phase == host::TensorProtocol::Phase::kRunning; },
      [&] { send(*server, welcome, {}, own_address); }));

  const Endpoint& group = welcome.body.group;
  for (uint32_t i = 0; i < 2; i++) {
    parts[i].transfer.integers = tensors[i];
    owner.done = false;
    ASSERT_TRUE(channel.submit(parts[i]));
    channel.wake();
    const Message result = bed.result(i, 2, parts[i].transfer, /*gen_id=*/static_cast<uint16_t>(i));
    Message wrong_key = result;
    wrong_key.extension.key ^= 1;
    // The channel reads the group's packets in the order in which they were sent.
    ASSERT_TRUE(repeat_until([&] { return owner.done.load(); },
                             [&] {
                               if (i > 0) {
                                 send(*forger, result, std::array{600, 600}, group);
                                 send(*server, wrong_key, std::array{700, 700}, group);
                               }
                               send(*server, result, std::array{50, 60}, group);
                             }));
    EXPECT_EQ(tensors[i], (std::vector<int32_t>{50, 60}));
  }
  EXPECT_GE(channel.snapshot().counters.invalid_packets, 1U);  // The wrong key.
}

}  // namespace
}  // namespace tributary::testing
