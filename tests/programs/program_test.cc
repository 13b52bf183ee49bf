// SPDX-License-Identifier: Apache-2.0
// Method: the filter over captures by hand; then 100 random captures, over which both machines must
// write the same bytes as the paper's rule; then refusals and damaged files.
#include "programs/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/programs/captures.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"

namespace tributary::programs {
namespace {

using ::testing::HasSubstr;
using testing::TestPacket;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The paper's rule: IPv4, version 4, five header words. Missing bytes count as zeros.
bool passes(const TestPacket& packet) {
  std::vector<std::byte> bytes = packet.bytes;
  const size_t wire_bytes = std::max<size_t>(bytes.size(), packet.wire_bytes);
  bytes.resize(wire_bytes);
  return wire_bytes >= 34 && bytes[12] == std::byte{0x08} && bytes[13] == std::byte{0} &&
         bytes[14] == std::byte{0x45};
}

class ProgramRunTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() / name; }

  /// Runs the filter over "in.pcap"; the forwarded packets go to `out`.
  [[nodiscard]] Result<RunEnd> run_filter(const std::string& out, bool on_model) const {
    const Program* filter = find_program("filter");
    EXPECT_NE(filter, nullptr);
    RunRequest request{.in = path("in.pcap"), .out = path(out)};
    if (on_model) request.model = engine::Parameters();
    const auto settings = filter->settings().read({}, "");
    return filter->run(*settings, request);
  }
  testing::ScratchDirectory scratch_;
};

TEST_F(ProgramRunTest, FilterForwardsPlainIpv4) {
  auto options = testing::ipv4_frame(64, 6);
  auto arp = testing::ipv4_frame(60);
  arp[13] = std::byte{0x06};
  const std::vector<TestPacket> in{
      {1'000, testing::ipv4_frame(60)},
      {2'000, options},
      {2'500, arp},
      {3'000, testing::ipv4_frame(34), 1'514},  // Cut after the IPv4 header.
      {4'000, {}},
  };
  testing::write_capture(path("in.pcap"), in);
  for (const bool on_model : {false, true}) {
    const auto end = run_filter("out.pcap", on_model);
    ASSERT_TRUE(end);
    EXPECT_FALSE(end->problem);
    EXPECT_EQ(testing::read_capture(path("out.pcap")), (std::vector<TestPacket>{in[0], in[3]}));
    EXPECT_EQ(end->report.output.forwarded, 2U);
    EXPECT_EQ(end->report.dropped, 3U);
    ASSERT_EQ(end->report.outcomes.size(), 4U);
    // The second packet is cut in the capture; the ports count its size on the wire.
    EXPECT_EQ(end->report.outcomes[0].counter, (memory::PacketByteCounter{2, 60 + 1'514}));
    EXPECT_EQ(end->report.outcomes[1].counter, (memory::PacketByteCounter{1, 60}));
    EXPECT_EQ(end->report.outcomes[2].counter, (memory::PacketByteCounter{1, 64}));
    EXPECT_EQ(end->report.outcomes[3].counter, (memory::PacketByteCounter{1, 0}));
  }
}

TEST_F(ProgramRunTest, BothMachinesWriteTheSameBytes) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  for (uint32_t round = 0; round < 100; round++) {
    const auto packets = testing::random_packets(prng, static_cast<uint32_t>(prng.below(200)));
    testing::write_capture(path("in.pcap"), packets);
    const auto live = run_filter("live.pcap", false);
    const auto model = run_filter("model.pcap", true);
    ASSERT_TRUE(live && model) << round;

    std::vector<TestPacket> expected;
    std::copy_if(packets.begin(), packets.end(), std::back_inserter(expected), passes);
    ASSERT_EQ(testing::read_capture(path("live.pcap")), expected) << round;
    ASSERT_EQ(bytes_of(path("live.pcap")), bytes_of(path("model.pcap"))) << round;
    for (size_t i = 0; i < live->report.outcomes.size(); i++) {
      ASSERT_EQ(live->report.outcomes[i].counter, model->report.outcomes[i].counter) << round;
    }
  }
}

TEST_F(ProgramRunTest, ModelTellsWhatThePacketsCost) {
  // Far apart, so that nothing waits: each packet has the ingress latency and four instructions.
  std::vector<TestPacket> in;
  for (int64_t i = 0; i < 10; i++) in.push_back({i * 1'000'000, testing::ipv4_frame(60)});
  testing::write_capture(path("in.pcap"), in);
  const auto end = run_filter("out.pcap", true);
  ASSERT_TRUE(end && end->report.model);
  const ModelReport& model = *end->report.model;
  EXPECT_DOUBLE_EQ(model.pfe.instructions_per_packet, 3);  // Ether, IP, forward.
  EXPECT_EQ(model.pfe.latency.mean,
            model.parameters.ingress_latency + model.parameters.instruction_time() * 3);
  const engine::Accounting& accounting = model.accounting;
  EXPECT_EQ(accounting.program, "filter");
  ASSERT_EQ(accounting.instructions.size(), 3U);
  EXPECT_STREQ(accounting.instructions[0].name, "process_ether");
  EXPECT_EQ(accounting.instructions[0].executed, 10U);
  EXPECT_EQ(accounting.instructions[0].most.lmem_reads, 1U);  // The EtherType.
  EXPECT_TRUE(accounting.unpriced.empty());
  const auto json = as_json(end->report)["model"]["accounting"];
  EXPECT_EQ(json["instructions_per_packet"], 3);
  EXPECT_EQ(json["instructions"][1]["measured"]["head_bytes"], 1);  // Version and header length.
  EXPECT_THAT(as_text(end->report), ::testing::HasSubstr("No code runs without a price."));
  // 101 PPEs issue an instruction each nanosecond; a packet takes three.
  const auto limit = rate_limit(model.pfe);
  ASSERT_TRUE(limit);
  EXPECT_NEAR(limit->packets_per_s, 101e9 / 3, 1e6);
}

TEST_F(ProgramRunTest, KeepsWhatItWroteBeforeTheDamage) {
  testing::write_capture(path("in.pcap"),
                         {{1, testing::ipv4_frame(60)}, {2, testing::ipv4_frame(60)}});
  std::filesystem::resize_file(path("in.pcap"), 24 + 76 + 30);
  for (const bool on_model : {false, true}) {
    const auto end = run_filter("out.pcap", on_model);
    ASSERT_TRUE(end);
    ASSERT_TRUE(end->problem);
    EXPECT_THAT(end->problem->text, HasSubstr("truncated"));
    EXPECT_EQ(testing::read_capture(path("out.pcap")).size(), 1U);
  }
}

TEST_F(ProgramRunTest, ARunThatIsStoppedBeforeItsFirstPacketIsEmpty) {
  // As after a signal in the read of the beginning: the file is not a capture.
  std::ofstream(path("in.pcap")).close();
  const Program* filter = find_program("filter");
  const auto settings = filter->settings().read({}, "");
  std::atomic<bool> stop{false};
  RunRequest request{.in = path("in.pcap"), .out = path("out.pcap"), .stop = &stop};
  EXPECT_THAT(filter->run(*settings, request).error().text, HasSubstr("not a capture"));
  stop = true;
  const auto end = filter->run(*settings, request);
  ASSERT_TRUE(end) << end.error().text;
  EXPECT_FALSE(end->problem);
  EXPECT_EQ(end->report.input.packets, 0U);
  EXPECT_TRUE(testing::read_capture(path("out.pcap")).empty());
}

TEST_F(ProgramRunTest, ReportsAFailedWrite) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  std::vector<TestPacket> in(1'000, {1, testing::ipv4_frame(1'000)});
  testing::write_capture(path("in.pcap"), in);
  for (const bool on_model : {false, true}) {
    RunRequest request{.in = path("in.pcap"), .out = "/dev/full"};
    if (on_model) request.model = engine::Parameters();
    const Program* filter = find_program("filter");
    const auto end = filter->run(*filter->settings().read({}, ""), request);
    ASSERT_TRUE(end);
    ASSERT_TRUE(end->problem);
    EXPECT_THAT(end->problem->text, HasSubstr("No space left on device"));
  }
}

TEST(Programs, AreFoundByName) {
  EXPECT_EQ(find_program("no_such"), nullptr);
  for (const Program& program : programs()) {
    EXPECT_EQ(find_program(program.name)->summary, program.summary);
  }
}

}  // namespace
}  // namespace tributary::programs
