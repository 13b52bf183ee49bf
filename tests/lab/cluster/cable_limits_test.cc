// SPDX-License-Identifier: Apache-2.0
// Method: topology files whose queues and marking thresholds are just long enough by hand, then one
// byte short. Packets have 4096 + 32 + 66 = 4194 bytes.
#include "lab/cluster/cable_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/cluster/plan.h"
#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

std::string node(const std::string& name, const std::string& kind, const std::string& address) {
  return "[[node]]\nname = \"" + name + "\"\nkind = \"" + kind + "\"\n" +
         (address.empty() ? "" : "address = \"" + address + ":12000\"\n");
}
std::string cable(const std::string& a, const std::string& b, const std::string& keys = "") {
  return "[[cable]]\na = \"" + a + "\"\nb = \"" + b + "\"\n" + keys;
}

/// Three workers at one aggregator.
std::string star(const std::string& keys) {
  return node("w0", "worker", "10.0.0.1") + node("w1", "worker", "10.0.0.2") +
         node("w2", "worker", "10.0.0.3") + node("box", "aggregator", "10.1.0.1") +
         cable("w0", "box") + cable("w1", "box") + cable("w2", "box", keys);
}

/// Two workers at one plain switch and one at another, each with a cable to the aggregator's.
std::string racks(const std::string& left, const std::string& right, const std::string& top) {
  return node("w0", "worker", "10.0.0.1") + node("w1", "worker", "10.0.0.2") +
         node("w2", "worker", "10.0.0.3") + node("left", "switch", "") +
         node("right", "switch", "") + node("middle", "switch", "") +
         node("box", "aggregator", "10.1.0.1") + cable("w0", "left") + cable("w1", "left") +
         cable("w2", "right") + cable("left", "middle", left) + cable("right", "middle", right) +
         cable("middle", "box", top);
}

/// Returns what check_files() says, from the place in the file on.
std::string refusal(Scenario scenario, const std::string& text) {
  const testing::ScratchDirectory scratch;
  scenario.topology = Topology::kFile;
  scenario.topology_file = scratch.file("t.toml", text);
  scenario.workers = 3;
  const auto files = check_files(scenario);
  if (files) return "accepted";
  const std::string& error = files.error().text;
  return error.substr(std::min(error.find("t.toml"), error.size()));
}

Scenario of(uint32_t train, host::CongestionControl congestion = host::CongestionControl::kNone) {
  Scenario scenario;
  scenario.backend = Backend::kWaitingSwitch;
  scenario.train = train;
  scenario.host.congestion = congestion;
  return scenario;
}

TEST(CableLimits, QueueOfACableHoldsATrain) {
  EXPECT_EQ(refusal(of(2), star("queue_bytes = 8388\n")), "accepted");
  EXPECT_EQ(refusal(of(2), star("queue_bytes = 8387\n")),
            "t.toml:23: the cable from box to w2: train=2 is not allowed; allowed: 1 to 1: that "
            "many packets of 4194 bytes fit into queue_bytes=8387");
  EXPECT_EQ(refusal(of(1), star("queue_bytes = 4193\n")),
            "t.toml:23: the cable from box to w2: queue_bytes=4193 is not allowed; allowed: at "
            "least 4194, one packet of 1024 gradients");
  // The NIC's ring, not the file, sets a host's own queue.
  EXPECT_EQ(refusal(of(64), star("queue_bytes = 5000\n[cable.back]\nqueue_bytes = 1000000\n")),
            "accepted");
}

TEST(CableLimits, TrainStaysBelowTheMarksOfACable) {
  const auto dctcp = host::CongestionControl::kDctcp;
  EXPECT_EQ(refusal(of(16, dctcp), star("ecn_bytes = 100000\n")), "accepted");  // 67,104 bytes.
  EXPECT_THAT(refusal(of(64, dctcp), star("ecn_bytes = 100000\n")),
              HasSubstr("train=64 is not allowed; allowed: 1 to 16 with host.congestion=dctcp"));
  EXPECT_EQ(refusal(of(64), star("ecn_bytes = 100000\n")), "accepted");
  EXPECT_EQ(refusal(of(1, dctcp), star("ecn_bytes = 1000\n")), "accepted");
}

TEST(CableLimits, WorkersBehindACableAddUp) {
  const auto dctcp = host::CongestionControl::kDctcp;
  // Trains of 8: 33,552 bytes for each worker.
  const std::string one = "ecn_bytes = 33552\n";
  const std::string two = "ecn_bytes = 67104\n";
  const std::string three = "ecn_bytes = 100656\n";
  EXPECT_EQ(refusal(of(8, dctcp), racks(two, one, three)), "accepted");
  EXPECT_THAT(refusal(of(8, dctcp), racks("ecn_bytes = 67103\n", one, three)),
              HasSubstr("the cable from left to middle: train=8 is not allowed; allowed: 1 to 4 "
                        "with host.congestion=dctcp: a window is at least one train, and a train "
                        "of each of 2 workers must stay below ecn_bytes=67103"));
  EXPECT_THAT(refusal(of(8, dctcp), racks(two, "ecn_bytes = 33551\n", three)),
              HasSubstr("the cable from right to middle"));
  EXPECT_THAT(refusal(of(8, dctcp), racks(two, one, "ecn_bytes = 100655\n")),
              HasSubstr("of each of 3 workers"));
  // One stream of results comes back.
  EXPECT_EQ(refusal(of(8, dctcp), racks(two, one, three + "[cable.back]\n" + one)), "accepted");
}

}  // namespace
}  // namespace tributary::lab
