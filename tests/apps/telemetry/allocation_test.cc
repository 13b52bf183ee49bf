// SPDX-License-Identifier: Apache-2.0
// Method: counts every call of the global operator new while flows begin, end and are exported;
// after start there must be none. A separate program, because it replaces the operator.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "apps/telemetry/app.h"
#include "engine/live/live_machine.h"
#include "engine/port.h"
#include "tests/apps/allocation_count.h"
#include "tests/apps/telemetry/frames.h"

namespace tributary::telemetry {
namespace {

/// A port that counts the packets it sends.
class CountingQueue final : public engine::PortQueue {
 public:
  uint32_t receive(std::span<engine::Packet>) override { return 0; }
  void transmit(std::span<const engine::TxPacket> packets) override { sent += packets.size(); }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

  uint64_t sent = 0;
};

TEST(TelemetryAllocation, FlowsAllocateNothing) {
  auto memory = *memory::SharedMemory::create(
      {.sram_size_bytes = 1 << 16, .dram_size_bytes = uint64_t{1} << 24});
  const auto state = *TelemetryState::create(memory,
                                             {.flows_max = 1'000,
                                              .hash_seed = 3,
                                              .inactive_timeout = milliseconds(10),
                                              .active_timeout = milliseconds(40),
                                              .export_on_fin = true,
                                              .timer_threads = 10,
                                              .collector = Endpoint::ipv4(0x7f000001, 4739)},
                                             Instant());
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 4'000; i++) {
    frames.push_back(frame_of({.is_ipv6 = i % 3 == 0,
                               .source = i,
                               .protocol = 6,
                               .tcp_flags = i % 50 == 0 ? wire::kTcpFin : wire::kTcpAck}));
  }
  frames.push_back(Bytes(10));
  CountingQueue queue;
  engine::LiveMachine m(queue);
  App app(*state);

  const uint64_t before = testing::allocation_count();
  Instant now;
  for (uint32_t i = 0; i < 200'000; i++) {
    now = now + microseconds(2);
    m.begin_burst(now);
    app.begin_burst();
    // The flows drift, so that old ones end; every second packet is of a busy flow.
    const Bytes& frame = frames[i % 2 == 0 ? i % 20 : (i / 10 + i % 700) % frames.size()];
    engine::Packet packet{.data = const_cast<std::byte*>(frame.data()),
                          .size = static_cast<uint32_t>(frame.size()),
                          .layer = engine::PacketLayer::kFrame,
                          .source = {}};
    m.begin_packet(packet);
    app.process(m);
    app.run_timers(m, now);
    m.flush();
  }
  app.stop(m);
  m.flush();
  EXPECT_EQ(testing::allocation_count(), before);

  // The run met all that it is about.
  const auto& reasons = state->exports().records_by_reason;
  for (uint32_t reason = 1; reason < reasons.size(); reason++) EXPECT_GT(reasons[reason], 0U);
  for (const Outcome outcome : {Outcome::kAccounted, Outcome::kStoreFull, Outcome::kTruncated}) {
    EXPECT_GT(state->counters()[static_cast<size_t>(outcome)].packets, 0U) << to_string(outcome);
  }
  EXPECT_EQ(queue.sent, 200'000 + state->exports().messages);
}

}  // namespace
}  // namespace tributary::telemetry
