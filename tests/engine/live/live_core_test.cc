// SPDX-License-Identifier: Apache-2.0
// Method: one core in virtual time, with a program that logs its calls. Then two cores that take
// turns in one thread, so the test sees each step of a hand-over.
#include "engine/live/live_core.h"

#include <gtest/gtest.h>

#include <optional>

#include "apps/trio_ml/app.h"
#include "base/byte_order.h"
#include "io/frames/udp_frame.h"
#include "io/memory/in_memory_port.h"

namespace tributary::engine {
namespace {

using Bytes = std::vector<std::byte>;

/// The calls that the program below has received.
struct Log {
  std::vector<uint8_t> packets;  ///< First byte of each.
  std::vector<Instant> timers;
  uint32_t bursts = 0;
};

/// Answers each packet with its first byte, which is also the packet's owner.
class Scribe {
 public:
  Scribe(Log& log, Instant due) : log_(&log), due_(due) {}
  void begin_burst() { log_->bursts++; }
  void process(LiveMachine& m) {
    const auto first = std::to_integer<uint8_t>(m.head().bytes()[0]);
    log_->packets.push_back(first);
    m.send_small({m.head().bytes(), 1}, m.source());
  }
  void run_timers(LiveMachine&, Instant now) { log_->timers.push_back(now); }
  [[nodiscard]] Instant next_due() const { return due_; }
  static uint32_t owner(std::span<const std::byte> bytes, bool, uint32_t core_count) {
    return std::to_integer<uint32_t>(bytes[0]) % core_count;
  }

 private:
  Log* log_;
  Instant due_;
};

Bytes packet(uint8_t first) { return Bytes(16, std::byte{first}); }
Packet packet_of(Bytes& bytes) {
  Packet packet;
  packet.data = bytes.data();
  packet.size = static_cast<uint32_t>(bytes.size());
  return packet;
}
const Endpoint kPeer = Endpoint::ipv4(9, 9);

TEST(LiveCoreTest, RunsPacketsThenTimersThenSends) {
  io::InMemoryPort port({});
  Log log;
  LiveCore<Scribe> core(0, port.queue(0), Scribe(log, Instant::never()), {});
  for (const uint8_t first : {uint8_t{5}, uint8_t{6}}) {
    ASSERT_TRUE(port.inject(0, packet(first), kPeer));
  }
  const Instant now{milliseconds(3)};
  EXPECT_EQ(core.run_once(now), 2U);
  EXPECT_EQ(log.packets, (std::vector<uint8_t>{5, 6}));
  EXPECT_EQ(log.timers, std::vector<Instant>{now});
  EXPECT_EQ(port.take_sent(0).size(), 2U);
  EXPECT_EQ(core.run_once(now), 0U);
  EXPECT_EQ(log.bursts, 2U);
  EXPECT_EQ(core.counters().bursts, 2U);
  EXPECT_EQ(core.counters().packets, 2U);
}

/// Logs the packets to prefetch for with a high bit set.
class Prefetcher : public Scribe {
 public:
  static constexpr uint32_t kPrefetchPackets = 3;
  explicit Prefetcher(Log& log) : Scribe(log, Instant::never()), log_(&log) {}
  void prefetch(std::span<const Packet> burst) {
    for (const Packet& packet : burst) {
      log_->packets.push_back(0x80 | std::to_integer<uint8_t>(packet.data[0]));
    }
  }

 private:
  Log* log_;
};
static_assert(PrefetchingProgram<Prefetcher> && !PrefetchingProgram<Scribe>);

TEST(LiveCoreTest, PrefetchesForAFewPacketsBeforeItProcessesThem) {
  io::InMemoryPort port({});
  Log log;
  LiveCore<Prefetcher> core(0, port.queue(0), Prefetcher(log), {});
  for (uint8_t first = 1; first <= 5; first++) {
    ASSERT_TRUE(port.inject(0, packet(first), kPeer));
  }
  EXPECT_EQ(core.run_once(Instant()), 5U);
  EXPECT_EQ(log.packets, (std::vector<uint8_t>{0x81, 0x82, 0x83, 1, 2, 3, 0x84, 0x85, 4, 5}));
}

TEST(LiveCoreTest, BurstIsBounded) {
  io::InMemoryPort port({});
  Log log;
  LiveCore<Scribe> core(0, port.queue(0), Scribe(log, Instant::never()), {});
  for (uint32_t i = 0; i < kBurstPackets + 10; i++) {
    ASSERT_TRUE(port.inject(0, packet(0), kPeer));
  }
  EXPECT_EQ(core.run_once(Instant()), kBurstPackets);
  EXPECT_EQ(core.run_once(Instant()), 10U);
}

// Packets that have already arrived must not look late: timers wait while full bursts come, but not
// indefinitely.
TEST(LiveCoreTest, TimersWaitForQueuedPackets) {
  io::InMemoryPort port({.rx_packets_max = 8192});
  Log log;
  LiveCore<Scribe> core(0, port.queue(0), Scribe(log, Instant::never()), {});
  for (uint32_t i = 0; i < 40 * kBurstPackets + 1; i++) {
    ASSERT_TRUE(port.inject(0, packet(0), kPeer));
  }
  uint32_t full_bursts = 0;
  while (core.run_once(Instant()) == kBurstPackets) full_bursts++;
  EXPECT_EQ(full_bursts, 40U);
  EXPECT_EQ(log.timers.size(), 40U / 16 + 1);  // Each sixteenth full burst, and the last.
}

TEST(LiveCoreTest, SleepsUntilTheNextTimerAtMost) {
  io::InMemoryPort port({});
  Log log;
  LiveCore<Scribe> core(0, port.queue(0), Scribe(log, Instant(milliseconds(10))), {});
  EXPECT_EQ(core.idle_time(Instant(milliseconds(4)), seconds(1)), milliseconds(6));
  EXPECT_EQ(core.idle_time(Instant(milliseconds(4)), milliseconds(2)), milliseconds(2));
  EXPECT_EQ(core.idle_time(Instant(milliseconds(12)), seconds(1)), Duration());
  core.wait(milliseconds(1));
  EXPECT_EQ(core.counters().waits, 1U);
}

/// Two cores, both run by the test's thread.
class TwoCores : public ::testing::Test {
 protected:
  static constexpr uint32_t kMailBytes = 64;

  TwoCores() {
    for (uint32_t i = 0; i < 2; i++) {
      mailboxes_.push_back(std::make_unique<Mailbox>(kMailBytes, 2, port_.queue(i)));
    }
    for (uint32_t i = 0; i < 2; i++) {
      cores_.push_back(std::make_unique<LiveCore<Scribe>>(
          i, port_.queue(i), Scribe(logs_[i], Instant::never()), mailboxes_));
    }
  }
  io::InMemoryPort port_{{.queue_count = 2, .rx_packets_max = 1024}};
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::array<Log, 2> logs_;
  std::vector<std::unique_ptr<LiveCore<Scribe>>> cores_;
};

TEST_F(TwoCores, HandsPacketsOverToTheirOwner) {
  ASSERT_TRUE(port_.inject(0, packet(1), kPeer));
  ASSERT_TRUE(port_.inject(0, packet(2), kPeer));
  EXPECT_EQ(cores_[0]->run_once(Instant()), 1U);
  EXPECT_EQ(logs_[0].packets, std::vector<uint8_t>{2});
  EXPECT_EQ(cores_[0]->counters().handed_over, 1U);
  EXPECT_EQ(cores_[1]->run_once(Instant()), 1U);
  EXPECT_EQ(logs_[1].packets, std::vector<uint8_t>{1});
  EXPECT_EQ(port_.take_sent(1).size(), 1U);  // Answered by its owner.
  EXPECT_EQ(cores_[1]->counters().packets, 1U);
}

TEST_F(TwoCores, CountsPacketsThatAFullMailboxRefuses) {
  constexpr uint32_t kPackets = Mailbox::kLaneBuffers + 20;
  for (uint32_t round = 1; round <= 3; round++) {
    for (uint32_t i = 0; i < kPackets; i++) ASSERT_TRUE(port_.inject(0, packet(1), kPeer));
    while (port_.waiting_count(0) > 0) static_cast<void>(cores_[0]->run_once(Instant()));
    EXPECT_EQ(cores_[0]->counters().handed_over, round * Mailbox::kLaneBuffers);
    EXPECT_EQ(cores_[0]->counters().handover_full, round * 20);
    while (cores_[1]->run_once(Instant()) > 0) {
    }
    EXPECT_EQ(logs_[1].packets.size(), round * Mailbox::kLaneBuffers);
  }
}

TEST_F(TwoCores, CountsPacketsTooLargeForAMailbox) {
  ASSERT_TRUE(port_.inject(0, Bytes(kMailBytes + 1, std::byte{1}), kPeer));
  EXPECT_EQ(cores_[0]->run_once(Instant()), 0U);
  EXPECT_EQ(cores_[0]->counters().handover_full, 1U);
}

/// Forwards every packet. Core 1 owns all packets.
class Forwarder {
 public:
  static void begin_burst() {}
  static void process(LiveMachine& m) { m.forward(); }
  static void run_timers(LiveMachine&, Instant) {}
  [[nodiscard]] static Instant next_due() { return Instant::never(); }
  static uint32_t owner(std::span<const std::byte>, bool, uint32_t) { return 1; }
};

/// Before it sends, it fills every free mail buffer with other packets, as another core might do at
/// that moment.
class HostileQueue final : public PortQueue {
 public:
  uint32_t receive(std::span<Packet>) override { return 0; }
  void transmit(std::span<const TxPacket> packets) override {
    Bytes other(16, std::byte{0xee});
    while (mailbox->post(0, packet_of(other))) {
    }
    for (const TxPacket& sent : packets) sent_first_bytes.push_back(sent.data[0]);
  }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] PortCounters counters() const override { return {}; }

  Mailbox* mailbox = nullptr;
  Bytes sent_first_bytes;
};

TEST(LiveCoreTest, MailIsFreedAfterForwarding) {
  HostileQueue queue;
  std::vector<std::unique_ptr<Mailbox>> mailboxes;
  for (uint32_t i = 0; i < 2; i++) mailboxes.push_back(std::make_unique<Mailbox>(64U, 2, queue));
  queue.mailbox = mailboxes[1].get();
  LiveCore<Forwarder> core(1, queue, Forwarder(), mailboxes);
  Bytes mail = packet(0x11);
  ASSERT_TRUE(mailboxes[1]->post(0, packet_of(mail)));
  mailboxes[1]->deliver(0);
  EXPECT_EQ(core.run_once(Instant()), 1U);
  EXPECT_EQ(queue.sent_first_bytes, Bytes{std::byte{0x11}});
}

// --- Trio-ML's owner ---

TEST(Owner, OwnerIsReadFromPayloadsAndFrames) {
  Bytes payload(16);
  store_be<uint32_t>(payload.data() + 1, 128 * 3 + 5);  // block_id: the fourth run of 128.
  EXPECT_EQ(trio_ml::App::owner(payload, false, 4), 3U);
  EXPECT_EQ(trio_ml::App::owner(payload, false, 2), 1U);
  const auto in_frame = [&payload](const char* from, const char* to) {
    Bytes frame(200);
    frame.resize(io::build_udp_frame({.source_mac = {},
                                      .destination_mac = {},
                                      .source = Endpoint::parse(from).value(),
                                      .destination = Endpoint::parse(to).value()},
                                     payload, frame));
    return frame;
  };
  EXPECT_EQ(trio_ml::App::owner(in_frame("10.0.0.1:1", "10.0.0.2:12000"), true, 4), 3U);
  EXPECT_EQ(trio_ml::App::owner(in_frame("[fd00::1]:1", "[fd00::2]:12000"), true, 4), 3U);
}

TEST(Owner, ShortPacketsBelongToTheFirstCore) {
  const Bytes bytes(100, std::byte{0xff});
  for (uint32_t size = 0; size < 100; size++) {
    const std::span<const std::byte> cut(bytes.data(), size);
    if (size < 12) {
      EXPECT_EQ(trio_ml::App::owner(cut, false, 4), 0U);
    }
    if (size < 54) {
      EXPECT_EQ(trio_ml::App::owner(cut, true, 4), 0U);
    }
  }
}

}  // namespace
}  // namespace tributary::engine
