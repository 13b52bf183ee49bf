// SPDX-License-Identifier: Apache-2.0
// Method: notes by hand; then the programs that take notes, on a live core, against the same
// programs without notes.
#include "apps/burst_notes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "apps/guard/app.h"
#include "apps/telemetry/app.h"
#include "engine/live/live_core.h"
#include "engine/live/live_machine.h"
#include "io/memory/in_memory_port.h"
#include "tests/support/seed.h"
#include "wire/headers.h"

namespace tributary::apps {
namespace {

TEST(BurstNotes, EachPacketGetsItsNoteOnce) {
  const std::array<std::byte, 4> packets{};
  BurstNotes<uint32_t> notes;
  EXPECT_EQ(notes.next(&packets[0]), nullptr);
  notes.add(&packets[0]) = 10;
  notes.add(&packets[1]) = 11;
  EXPECT_EQ(notes.all().size(), 2U);
  EXPECT_EQ(notes.next(&packets[3]), nullptr);  // Not the next one.
  ASSERT_NE(notes.next(&packets[0]), nullptr);
  const uint32_t* const second = notes.next(&packets[1]);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 11U);
  EXPECT_EQ(notes.next(&packets[1]), nullptr);
  notes.clear();
  EXPECT_TRUE(notes.all().empty());
  EXPECT_EQ(notes.add(&packets[2]), 0U);  // Blank.
}

/// Returns a frame of random protocol, addresses and length; some have defects.
std::vector<std::byte> random_frame(testing::Prng& prng) {
  using wire::EthernetHeader, wire::Ipv4Header;
  std::vector<std::byte> frame(60 + prng.below(60));
  std::byte* const ip = &frame[EthernetHeader::kBytes];
  EthernetHeader::EtherType::store(frame.data(), prng.below(8) == 0 ? 0x806 : wire::kEtherTypeIpv4);
  Ipv4Header::Version::store(ip, prng.below(16) == 0 ? 5 : 4);
  Ipv4Header::HeaderWords::store(ip, 5);
  Ipv4Header::TotalLength::store(ip, prng.below(16) == 0 ? 200 : 46);
  Ipv4Header::Protocol::store(ip, prng.below(2) == 0 ? wire::kIpProtocolUdp : wire::kIpProtocolTcp);
  Ipv4Header::SourceAddress::store(ip, 0x0a000000 + prng.below(40));
  Ipv4Header::DestinationAddress::store(ip, 0xc6120000 + prng.below(4));
  frame[EthernetHeader::kBytes + Ipv4Header::kBytes + 13] =
      std::byte{static_cast<uint8_t>(prng.below(2) == 0 ? wire::kTcpSyn : wire::kTcpAck)};
  return frame;
}

/// The program without prefetch(), so that each thread reads its packet itself.
template <class App>
class WithoutNotes {
 public:
  explicit WithoutNotes(App app) : app_(app) {}
  void begin_burst() { app_.begin_burst(); }
  void process(engine::LiveMachine& m) { app_.process(m); }
  void run_timers(engine::LiveMachine& m, Instant now) { app_.run_timers(m, now); }
  [[nodiscard]] Instant next_due() const { return app_.next_due(); }
  static uint32_t owner(std::span<const std::byte> bytes, bool is_frame, uint32_t core_count) {
    return App::owner(bytes, is_frame, core_count);
  }

 private:
  App app_;
};
static_assert(engine::PrefetchingProgram<telemetry::App> && engine::PrefetchingProgram<guard::App>);
static_assert(!engine::PrefetchingProgram<WithoutNotes<guard::App>>);

/// Runs bursts of random size through a program.
template <class Program>
class Bed {
 public:
  Bed(Program program, uint64_t seed)
      : prng_(seed),
        port_({.layer = engine::PacketLayer::kFrame, .rx_packets_max = 256}),
        core_(0, port_.queue(0), std::move(program), {}) {}

  /// @return the frames sent.
  std::vector<std::vector<std::byte>> run() {
    std::vector<std::vector<std::byte>> sent;
    for (uint32_t burst = 0; burst < 200; burst++) {
      const uint32_t count = prng_.below(100);
      for (uint32_t i = 0; i < count; i++) {
        EXPECT_TRUE(port_.inject(0, random_frame(prng_), Endpoint()));
      }
      while (core_.run_once(Instant(milliseconds(25) * burst)) > 0) {
      }
      for (const auto& packet : port_.take_sent(0)) sent.push_back(packet.bytes);
    }
    return sent;
  }

 private:
  testing::Prng prng_;
  io::InMemoryPort port_;
  engine::LiveCore<Program> core_;
};

memory::SharedMemory make_memory() {
  return *memory::SharedMemory::create({.sram_size_bytes = 1 << 20, .dram_size_bytes = 1 << 26});
}

TEST(BurstNotes, TelemetryCountsTheSameWithAndWithoutThem) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  const telemetry::TelemetryConfig config{.flows_max = 50,
                                          .collector = Endpoint::ipv4(0x7f000001, 4739)};
  memory::SharedMemory memory = make_memory(), plain_memory = make_memory();
  const auto state = *telemetry::TelemetryState::create(memory, config, Instant());
  const auto plain = *telemetry::TelemetryState::create(plain_memory, config, Instant());
  const auto sent = Bed(telemetry::App(*state), seed).run();
  EXPECT_EQ(sent, Bed(WithoutNotes(telemetry::App(*plain)), seed).run());
  EXPECT_EQ(state->notes().unused(), 0U);  // Each packet's thread has used its note.
  EXPECT_EQ(state->counters(), plain->counters());
  EXPECT_EQ(state->flow_count(), plain->flow_count());
  EXPECT_GT(state->counters()[static_cast<size_t>(telemetry::Outcome::kAccounted)].packets, 0U);
  EXPECT_GT(state->counters()[static_cast<size_t>(telemetry::Outcome::kStoreFull)].packets, 0U);
  EXPECT_GT(state->counters()[static_cast<size_t>(telemetry::Outcome::kTruncated)].packets, 0U);
}

TEST(BurstNotes, GuardJudgesTheSameWithAndWithoutThem) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  guard::GuardConfig config;
  for (auto& level : config.levels) level.pps.fill(100);  // The traffic is far above.
  memory::SharedMemory memory = make_memory(), plain_memory = make_memory();
  const auto state = *guard::GuardState::create(memory, config, Instant());
  const auto plain = *guard::GuardState::create(plain_memory, config, Instant());
  const auto sent = Bed(guard::App(*state), seed).run();
  EXPECT_EQ(sent, Bed(WithoutNotes(guard::App(*plain)), seed).run());
  EXPECT_EQ(state->notes().unused(), 0U);  // Each packet's thread has used its note.
  EXPECT_EQ(state->counters(), plain->counters());
  EXPECT_EQ(state->suspect_count(), plain->suspect_count());
  EXPECT_GT(state->suspect_count(), 0U);
  EXPECT_GT(state->counters()[static_cast<size_t>(guard::Outcome::kViolation)].packets, 0U);
}

}  // namespace
}  // namespace tributary::apps
