// SPDX-License-Identifier: Apache-2.0
// Method: counters made by hand, and a queue that has some of its own.
#include "engine/counters_json.h"

#include <gtest/gtest.h>

namespace tributary::engine {
namespace {

using nlohmann::json;

class CountingQueue final : public PortQueue {
 public:
  uint32_t receive(std::span<Packet> /*burst*/) override { return 0; }
  void transmit(std::span<const TxPacket> /*packets*/) override {}
  void wait(Duration /*at_most*/) override {}
  void wake() override {}
  [[nodiscard]] PortCounters counters() const override { return {.rx_packets = 3}; }
  void visit_counters(const CounterVisitor& visit) const override { visit("arp_asked", 2); }
};

TEST(CountersJson, CoreHasAllItsCounters) {
  const CoreCounters counters{
      .bursts = 1, .packets = 2, .handed_over = 3, .handover_full = 4, .waits = 5, .pauses = 6};
  EXPECT_EQ(core_json(counters), (json{{"bursts", 1},
                                       {"packets", 2},
                                       {"handed_over", 3},
                                       {"handover_full", 4},
                                       {"waits", 5},
                                       {"pauses", 6}}));
}

TEST(CountersJson, PortWithoutFramesHasNoRowForThem) {
  const PortCounters counters{.rx_packets = 1,
                              .rx_bytes = 2,
                              .tx_packets = 3,
                              .tx_bytes = 4,
                              .tx_refused = 5,
                              .rx_truncated = 6,
                              .peer_refused = 7,
                              .local_address_unknown = 8,
                              .system_calls = 9};
  EXPECT_EQ(port_json(counters, 10), (json{{"rx_packets", 1},
                                           {"rx_bytes", 2},
                                           {"tx_packets", 3},
                                           {"tx_bytes", 4},
                                           {"tx_refused", 5},
                                           {"rx_truncated", 6},
                                           {"peer_refused", 7},
                                           {"local_address_unknown", 8},
                                           {"system_calls", 9},
                                           {"rx_dropped", 10}}));
}

TEST(CountersJson, QueueHasItsOwnCountersByName) {
  const json port = port_json(CountingQueue());
  EXPECT_EQ(port["rx_packets"], 3);
  EXPECT_TRUE(port["rx_dropped"].is_null());  // Unknown.
  EXPECT_EQ(port["frames"], (json{{"arp_asked", 2}}));
}

}  // namespace
}  // namespace tributary::engine
