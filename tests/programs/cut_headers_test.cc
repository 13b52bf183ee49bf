// SPDX-License-Identifier: Apache-2.0
// Method: one frame for each place at which a capture can cut its headers, with a port of its own.
// On both machines, the programs judge those whose needed fields are there, and no others.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "programs/program.h"
#include "tests/apps/telemetry/frames.h"
#include "tests/programs/captures.h"
#include "tests/support/scratch_directory.h"

namespace tributary::programs {
namespace {

/// The first source port; the next ones have one more byte of their frame each.
constexpr uint32_t kPort = 1'000;
/// Ethernet, IPv6, and TCP up to the flags.
constexpr uint32_t kNeededBytes = 14 + 40 + 14;

class CutHeaders : public ::testing::Test {
 protected:
  /// Writes SYNs over IPv6, cut after 0, 1, 2 and more bytes.
  CutHeaders() {
    for (uint32_t held = 0;; held++) {
      testing::TestPacket packet{.at_ns = 1'000 * int64_t{held},
                                 .bytes = telemetry::frame_of({.is_ipv6 = true,
                                                               .protocol = wire::kIpProtocolTcp,
                                                               .source_port = kPort + held,
                                                               .tcp_flags = wire::kTcpSyn})};
      if (held == packet.bytes.size()) break;
      packet.wire_bytes = static_cast<uint32_t>(packet.bytes.size());
      packet.bytes.resize(held);
      packets_.push_back(std::move(packet));
    }
    testing::write_capture(path("in.pcap"), packets_);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() / name; }

  /// Runs over the capture. @return the report.
  [[nodiscard]] RunReport run(const char* name, bool on_model, const std::string& records) const {
    RunRequest request{.in = path("in.pcap"), .out = path("out.pcap"), .records = records};
    if (on_model) request.model = engine::Parameters();
    const Program* const program = find_program(name);
    const auto end = program->run(*program->settings().read({}, ""), request);
    EXPECT_TRUE(end && !end->problem);
    return end->report;
  }
  static uint64_t packets_of(const RunReport& report, std::string_view outcome) {
    for (const OutcomeCount& count : report.outcomes) {
      if (count.name == outcome) return count.counter.packets;
    }
    return UINT64_MAX;
  }

  testing::ScratchDirectory scratch_;
  std::vector<testing::TestPacket> packets_;
};

TEST_F(CutHeaders, TelemetryRecordsNoFieldThatIsCut) {
  for (const bool on_model : {false, true}) {
    const RunReport report = run("telemetry", on_model, path("records.jsonl"));
    EXPECT_EQ(report.input.cut, packets_.size());
    EXPECT_EQ(report.input.headers_cut, kNeededBytes);
    EXPECT_EQ(packets_of(report, "truncated"), kNeededBytes);
    EXPECT_EQ(packets_of(report, "accounted"), packets_.size() - kNeededBytes);
    EXPECT_EQ(testing::read_capture(path("out.pcap")), packets_);
    std::set<uint32_t> ports;
    std::ifstream records(path("records.jsonl"));
    for (std::string line; std::getline(records, line);) {
      const auto record = nlohmann::json::parse(line);
      ports.insert(record["source_port"].get<uint32_t>());
      EXPECT_EQ(record["tcp_flags"], wire::kTcpSyn);
    }
    ASSERT_EQ(ports.size(), packets_.size() - kNeededBytes);
    EXPECT_EQ(*ports.begin(), kPort + kNeededBytes);
  }
}

TEST_F(CutHeaders, TheGuardJudgesNoFieldThatIsCut) {
  for (const bool on_model : {false, true}) {
    const RunReport report = run("guard", on_model, "");
    EXPECT_EQ(report.input.headers_cut, kNeededBytes);
    EXPECT_EQ(packets_of(report, "truncated"), kNeededBytes);
    EXPECT_EQ(packets_of(report, "forwarded"), packets_.size() - kNeededBytes);
    EXPECT_EQ(testing::read_capture(path("out.pcap")).size(), packets_.size() - kNeededBytes);
  }
}

// The filter reads fewer headers, and gets zeros.
TEST_F(CutHeaders, AreFilledUpForOtherPrograms) {
  const RunReport report = run("filter", /*on_model=*/false, "");
  EXPECT_EQ(report.input.cut, packets_.size());
  EXPECT_EQ(report.input.headers_cut, 0U);
}

}  // namespace
}  // namespace tributary::programs
