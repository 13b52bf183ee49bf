// SPDX-License-Identifier: Apache-2.0
// Method: arrivals counted and timed by hand.
#include "lab/cluster/background_flow.h"

#include <gtest/gtest.h>

#include <vector>

namespace tributary::lab {
namespace {

class Sink final : public net::Node {
 public:
  explicit Sink(net::Network& network) : network_(network) { id = network.add_node(*this, "sink"); }
  void receive(uint32_t, net::PacketRef packet) override {
    EXPECT_EQ(packet->size_bytes, BackgroundFlow::kPayloadBytes);
    arrivals.push_back(network_.core().now());
  }
  net::NodeId id = 0;
  std::vector<Instant> arrivals;

 private:
  net::Network& network_;
};

std::vector<Instant> arrivals_with(uint32_t train, uint64_t bits_per_s = 10'000'000'000,
                                   Duration until = microseconds(100)) {
  EventCore core;
  net::Network network(core, 1, train);
  Sink sink(network);
  BackgroundFlow flow(network, {.name = "flow",
                                .from = Endpoint::ipv4(1, 1),
                                .to = Endpoint::ipv4(2, 1),
                                .bits_per_s = bits_per_s});
  const net::LinkConfig link{.propagation = Duration()};
  EXPECT_TRUE(network.connect(flow.id(), 0, sink.id, 0, link, link).has_value());
  flow.start();
  core.run_until(Instant(until));
  return sink.arrivals;
}

TEST(BackgroundFlow, SendsAtItsConfiguredRate) {
  const std::vector<Instant> arrivals = arrivals_with(1);
  // (1472 + 66) x 8 bits at 10 Gbit/s: 1230.4 ns apart; 123.04 ns on the wire of 100 Gbit/s.
  ASSERT_EQ(arrivals.size(), 82U);
  EXPECT_EQ(arrivals[0], Instant(picoseconds(123'040)));
  EXPECT_EQ(arrivals[81] - arrivals[0], picoseconds(1'230'400) * 81);
}

TEST(BackgroundFlow, TrainsKeepTheRate) {
  const std::vector<Instant> arrivals = arrivals_with(8);
  ASSERT_EQ(arrivals.size(), 11U);  // The last train begins at 98.4 us.
  EXPECT_EQ(arrivals[10] - arrivals[0], picoseconds(1'230'400) * 8 * 10);
}

// The next train would follow after 4096 x 12,304 s = 1.6 years, beyond the latest Instant.
TEST(BackgroundFlow, LongestIntervalFitsIntoAnInstant) {
  EXPECT_EQ(arrivals_with(4096, 1, seconds(1000)).size(), 1U);
}

}  // namespace
}  // namespace tributary::lab
