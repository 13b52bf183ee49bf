// SPDX-License-Identifier: Apache-2.0
// Method: one message of two flows, written in both forms and read back; then each refusal.
#include "programs/flow_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/endpoint.h"
#include "tests/support/scratch_directory.h"

namespace tributary::programs {
namespace {

using ::testing::HasSubstr;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::byte> message_of(const std::vector<wire::IpfixFlow>& flows) {
  std::vector<std::byte> room(1'400);
  wire::IpfixWriter writer(room);
  writer.begin();
  for (const wire::IpfixFlow& flow : flows) writer.append(flow);
  writer.finish(/*export_time_s=*/1, /*sequence=*/0, /*domain=*/0);
  return {writer.message().begin(), writer.message().end()};
}

wire::IpfixFlow ipv4_flow() {
  wire::IpfixFlow flow;
  flow.source = Endpoint::ipv4(0x0a000001, 0).address;
  flow.destination = Endpoint::ipv4(0x0a000002, 0).address;
  flow.protocol = 6;
  flow.source_port = 1'000;
  flow.destination_port = 443;
  flow.vlan = 7;
  flow.tcp_flags = 0x12;
  flow.end_reason = wire::FlowEndReason::kIdle;
  flow.packets = 3;
  flow.octets = 180;
  flow.start_ns = 1'700'000'000'000'000'001;
  flow.end_ns = 1'700'000'000'000'000'002;
  return flow;
}

wire::IpfixFlow ipv6_flow() {
  wire::IpfixFlow flow = ipv4_flow();
  flow.is_ipv6 = true;
  flow.source = Endpoint::parse("[2001:db8::1]:1")->address;
  flow.destination = Endpoint::parse("[2001:db8::2]:1")->address;
  return flow;
}

TEST(FlowRecords, WritesBothForms) {
  const testing::ScratchDirectory scratch;
  const std::string lines = scratch.path() / "a.jsonl", ipfix = scratch.path() / "a.ipfix";
  const auto message = message_of({ipv4_flow(), ipv6_flow()});
  auto records = FlowRecords::create(lines, ipfix);
  ASSERT_TRUE(records);
  ASSERT_TRUE(records->write(message));

  EXPECT_EQ(bytes_of(lines),
            R"({"source":"10.0.0.1","source_port":1000,"destination":"10.0.0.2",)"
            R"("destination_port":443,"protocol":6,"vlan":7,"customer_vlan":0,"packets":3,)"
            R"("octets":180,"start_ns":1700000000000000001,"end_ns":1700000000000000002,)"
            R"("tcp_flags":18,"end_reason":"idle"})"
            "\n"
            R"({"source":"2001:db8::1","source_port":1000,"destination":"2001:db8::2",)"
            R"("destination_port":443,"protocol":6,"vlan":7,"customer_vlan":0,"packets":3,)"
            R"("octets":180,"start_ns":1700000000000000001,"end_ns":1700000000000000002,)"
            R"("tcp_flags":18,"end_reason":"idle"})"
            "\n");
  const std::string file = bytes_of(ipfix);
  EXPECT_EQ(file, std::string(reinterpret_cast<const char*>(message.data()), message.size()));
}

TEST(FlowRecords, MappedAddressesOfIpv6FlowsAreNotThoseOfIpv4) {
  wire::IpfixFlow flow = ipv4_flow();
  EXPECT_EQ(as_json(flow)["source"], "10.0.0.1");
  flow.is_ipv6 = true;
  EXPECT_EQ(as_json(flow)["source"], "::ffff:10.0.0.1");
}

TEST(FlowRecords, RefusesPathsThatCannotBeWritten) {
  EXPECT_THAT(FlowRecords::create("/no/such/a.jsonl", "").error().text,
              HasSubstr("--records /no/such/a.jsonl: No such file or directory"));
  EXPECT_THAT(FlowRecords::create("", "/no/such/a.ipfix").error().text, HasSubstr("--ipfix"));
}

TEST(FlowRecords, ReportsAMalformedMessage) {
  const testing::ScratchDirectory scratch;
  auto records = FlowRecords::create(scratch.path() / "a.jsonl", "");
  ASSERT_TRUE(records);
  auto message = message_of({ipv4_flow()});
  message[1] = std::byte{9};  // Version 9.
  EXPECT_FALSE(records->write(message));
}

TEST(FlowRecords, ReportsAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  auto records = FlowRecords::create("/dev/full", "");
  ASSERT_TRUE(records);
  EXPECT_THAT(records->write(message_of({ipv4_flow()})).error().text, HasSubstr("/dev/full"));
}

TEST(FlowRecords, AFailedFileLeavesTheOther) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const testing::ScratchDirectory scratch;
  const auto message = message_of({ipv4_flow()});
  auto records = FlowRecords::create(scratch.path() / "a.jsonl", "/dev/full");
  ASSERT_TRUE(records);
  EXPECT_THAT(records->write(message).error().text, HasSubstr("/dev/full"));
  EXPECT_TRUE(records->write(message));
  std::ifstream lines(scratch.path() / "a.jsonl");
  uint32_t count = 0;
  for (std::string line; std::getline(lines, line);) count++;
  EXPECT_EQ(count, 2U);

  records = FlowRecords::create("/dev/full", scratch.path() / "a.ipfix");
  ASSERT_TRUE(records);
  EXPECT_FALSE(records->write(message));
  EXPECT_TRUE(records->write(message));
  EXPECT_EQ(std::filesystem::file_size(scratch.path() / "a.ipfix"), 2 * message.size());
}

}  // namespace
}  // namespace tributary::programs
