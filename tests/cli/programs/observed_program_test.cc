// SPDX-License-Identifier: Apache-2.0
// Method: a program with two cores and counters by hand, and their sums in a snapshot.
#include "cli/programs/observed_program.h"

#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

class TwoCores final : public programs::LiveService {
 public:
  void stop() override {}
  nlohmann::json stats() override { return {}; }
  std::vector<programs::LiveCoreState> core_states(Instant) override {
    programs::LiveCoreState first;
    first.counters.packets = 7;
    first.cpu = milliseconds(3);
    first.port.rx_packets = 8;
    first.rx_dropped = 9;
    first.machine = {.forwarded = 4, .dropped = 2};
    first.outcomes = {{"non_ip", {.packets = 2, .bytes = 120}}, {"kept", {.packets = 4}}};
    programs::LiveCoreState second;
    second.counters.packets = 1;
    second.machine = {.forwarded = 1};
    second.outcomes = {{"non_ip", {}}, {"kept", {.packets = 1, .bytes = 60}}};
    first.gauges = {{"flows", 3}, {"culprits", 1}};
    first.notices = {"one flood"};
    second.gauges = {{"flows", 4}};
    return {first, second};
  }
  std::optional<uint32_t> late_core() const noexcept override { return std::nullopt; }
  std::vector<programs::ProgramEvent> take_events() override { return {}; }
  void set_time_zero(io::CaptureTime) override {}
  std::optional<Error> problem() const override { return std::nullopt; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

 private:
  std::vector<std::string> warnings_;
};

TEST(ObservedProgram, SnapshotHasEachCoreAndTheSumsOfOutcomes) {
  TwoCores running;
  ObservedProgram observed("counter", "eth0 and eth1", running);
  const server::Snapshot snapshot = observed.snapshot();
  EXPECT_EQ(snapshot.service, "counter");
  EXPECT_EQ(snapshot.listen, "eth0 and eth1");
  EXPECT_GE(snapshot.uptime, Duration());
  ASSERT_EQ(snapshot.core_count(), 2U);
  EXPECT_EQ(snapshot.cores[0].counters.packets, 7U);
  EXPECT_EQ(snapshot.cores[0].cpu, milliseconds(3));
  EXPECT_EQ(snapshot.cores[1].counters.packets, 1U);
  EXPECT_EQ(snapshot.ports[0].rx_packets, 8U);
  EXPECT_EQ(snapshot.rx_dropped_at(0), 9U);
  EXPECT_FALSE(snapshot.rx_dropped_at(1));
  // 4 + 1 frames are kept and forwarded; the first core drops 2.
  ASSERT_EQ(snapshot.outcomes.size(), 4U);
  EXPECT_EQ(snapshot.packets("non_ip"), 2U);
  EXPECT_EQ(snapshot.packets("kept"), 5U);
  EXPECT_EQ(snapshot.outcomes[1].bytes, 60U);
  EXPECT_EQ(snapshot.packets("packets_forwarded"), 5U);
  EXPECT_EQ(snapshot.packets("packets_dropped"), 2U);
  EXPECT_EQ(snapshot.records, (std::map<std::string, uint64_t>{{"culprits", 1}, {"flows", 7}}));
  EXPECT_EQ(snapshot.notices, (std::vector<std::string>{"one flood"}));
  for (const server::OutcomeTotal& outcome : snapshot.outcomes) EXPECT_FALSE(outcome.refused);
}

}  // namespace
}  // namespace tributary::cli
