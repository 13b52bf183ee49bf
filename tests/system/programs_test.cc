// SPDX-License-Identifier: Apache-2.0
// Method:  runs `tributary run` and `tributary programs` as users do, with good and bad input.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/programs/captures.h"
#include "tests/support/seed.h"
#include "tests/system/process.h"
#include "tests/system/server.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;
using testing::TestPacket;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs a command to its end. @param expected Its exit status.
std::string errors_of(const std::vector<std::string>& arguments, int expected) {
  Process process(arguments);
  EXPECT_EQ(process.wait_for_end(), expected);
  return process.errors();
}

std::string capture_of(const std::vector<TestPacket>& packets) {
  const std::string path = scratch("programs_in.pcap");
  testing::write_capture(path, packets);
  return path;
}

TEST(Programs, RunWritesTheSamePacketsOnBothMachines) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  const std::string in = capture_of(testing::random_packets(prng, 500));
  const std::string live = scratch("programs_live.pcap"), model = scratch("programs_model.pcap");
  const std::string json = scratch("programs.json");
  EXPECT_EQ(errors_of({"run", "filter", "--in", in, "--out", live}, 0), "");
  EXPECT_EQ(
      errors_of({"run", "filter", "--in", in, "--out", model, "--on", "model", "--json", json}, 0),
      "");
  EXPECT_EQ(bytes_of(live), bytes_of(model));
  const auto report = nlohmann::json::parse(bytes_of(json));
  EXPECT_EQ(report["packets"], 500);
  EXPECT_EQ(report["on"], "model");
  EXPECT_EQ(report["forwarded"].get<int>() + report["dropped"].get<int>(), 500);
  EXPECT_GT(report["model"]["instructions_per_packet"].get<double>(), 1);
}

TEST(Programs, RunRefusesBadInputInOneLine) {
  const std::string text = scratch("programs_text");
  std::ofstream(text) << "no capture, but as long as a header of one\n";
  const std::string in = capture_of({{1, testing::ipv4_frame(60)}});
  EXPECT_THAT(errors_of({"run", "filter", "--in", "/no/such/file"}, 2),
              HasSubstr("tributary run filter: --in /no/such/file: No such file or directory"));
  EXPECT_THAT(errors_of({"run", "filter", "--in", text}, 2), HasSubstr("not a capture"));
  EXPECT_THAT(errors_of({"run", "filter", "--in", in, "--out", "/no/such/a.pcap"}, 2),
              HasSubstr("--out /no/such/a.pcap: cannot be written"));
  EXPECT_THAT(errors_of({"run", "filter", "--in", in, "--generation", "7"}, 2),
              HasSubstr("allowed: a whole number from 1 to 6"));
  EXPECT_EQ(errors_of({"run", "filter", "--in", in, "--generation", "6"}, 2),
            "tributary run filter: --generation has no effect; allowed: none, or any with --on "
            "model\n");
  EXPECT_EQ(errors_of({"run", "filter", "--in", in, "--generation", "6", "--on", "model"}, 0), "");
  EXPECT_THAT(errors_of({"run", "telemetry", "--in", in, "--collector", "127.0.0.1:4739"}, 2),
              HasSubstr("collector has no effect over a capture; allowed: none"));
  EXPECT_THAT(errors_of({"run", "nonsense", "--in", in}, 2), HasSubstr("allowed: "));
  EXPECT_THAT(errors_of({"run", "filter"}, 2), HasSubstr("--in is missing"));
}

TEST(Programs, RunRefusesToWriteOverAnotherOfItsFiles) {
  const std::string in = capture_of({{1, testing::ipv4_frame(60)}});
  const std::string before = bytes_of(in);
  const std::string absent = scratch("programs_absent"), same = scratch("./programs_absent");
  const auto refusal = [&](std::vector<std::string> outputs) {
    std::vector<std::string> arguments{"run", "telemetry", "--in", in};
    arguments.insert(arguments.end(), outputs.begin(), outputs.end());
    return errors_of(arguments, 2);
  };
  EXPECT_THAT(refusal({"--out", in}), HasSubstr("it is the file of --in"));
  EXPECT_THAT(refusal({"--records", in}), HasSubstr("it is the file of --in"));
  // The file is not there yet, and the paths differ.
  EXPECT_THAT(refusal({"--out", absent, "--ipfix", same}), HasSubstr("it is the file of --out"));
  EXPECT_THAT(refusal({"--records", absent, "--ipfix", absent}),
              HasSubstr("it is the file of --records"));
  EXPECT_EQ(bytes_of(in), before);
  EXPECT_FALSE(std::filesystem::exists(absent));
}

TEST(Programs, RunKeepsWhatItWroteBeforeTheDamage) {
  const std::string in = capture_of({{1, testing::ipv4_frame(60)}, {2, testing::ipv4_frame(60)}});
  std::filesystem::resize_file(in, 24 + 76 + 30);
  const std::string out = scratch("programs_out.pcap"), json = scratch("programs_cut.json");
  EXPECT_THAT(errors_of({"run", "filter", "--in", in, "--out", out, "--json", json}, 1),
              HasSubstr("truncated"));
  EXPECT_EQ(testing::read_capture(out).size(), 1U);
  EXPECT_EQ(nlohmann::json::parse(bytes_of(json))["forwarded"], 1);
}

TEST(Programs, RunReadsAPipeAsItsPacketsCome) {
  // Each second a packet of another source. The record of source 90 comes when its flow has been
  // idle for one to two seconds; then a signal ends the input, which stays open.
  constexpr int64_t kSecondNs = 1'000'000'000;
  std::vector<TestPacket> packets;
  for (int64_t i = 0; i < 100; i++) {
    auto frame = testing::ipv4_frame(60);
    frame[17] = std::byte{46};  // Total length.
    frame[29] = static_cast<std::byte>(i);
    packets.push_back({1'700'000'000 * kSecondNs + i * kSecondNs, frame});
  }
  const std::string bytes = bytes_of(capture_of(packets));
  const std::string pipe = scratch("programs_pipe"), json = scratch("programs_pipe.json");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int writer = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  ASSERT_EQ(write(writer, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  Process process({"run", "telemetry", "--in", pipe, "--records", "-", "--json", json,
                   "--inactive-timeout-ms", "1000"});
  EXPECT_TRUE(process.wait_for_line(
      R"({"source":"0.0.0.90","source_port":0,"destination":"0.0.0.0","destination_port":0,)"
      R"("protocol":0,"vlan":0,"customer_vlan":0,"packets":1,"octets":46,)"
      R"("start_ns":1700000090000000000,"end_ns":1700000090000000000,"tcp_flags":0,)"
      R"("end_reason":"idle"})"));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait_for_end(), 0);
  EXPECT_THAT(process.errors(), HasSubstr("stopped by a signal"));
  const auto report = nlohmann::json::parse(bytes_of(json));
  EXPECT_GE(report["packets"], 92);
  EXPECT_EQ(report["exported"]["packets"], report["packets"]);
  close(writer);
}

TEST(Programs, RunWritesACaptureToStandardOutput) {
  const std::string in = capture_of({{1, testing::ipv4_frame(60)}});
  const std::string out = scratch("programs_stdout.pcap");
  std::ofstream(out).close();  // Process opens an existing file.
  Process process({"run", "filter", "--in", in, "--out", "-"}, out);
  EXPECT_EQ(process.wait_for_end(), 0);
  EXPECT_EQ(testing::read_capture(out).size(), 1U);
  EXPECT_THAT(process.errors(), HasSubstr("filter: 1 packets"));
}

TEST(Programs, RunHasStandardOutputForOneResult) {
  const std::string in = capture_of({{1, testing::ipv4_frame(60)}});
  Process process({"run", "filter", "--in", in, "--json"});
  EXPECT_EQ(process.wait_for_end(), 0);
  const auto report = nlohmann::json::parse(process.output(), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(report.is_object()) << process.output();
  EXPECT_THAT(process.errors(), HasSubstr("filter: 1 packets"));
  EXPECT_THAT(errors_of({"run", "filter", "--in", in, "--out", "-", "--json"}, 2),
              HasSubstr("writes to standard output"));
}

TEST(Programs, ListNamesEachProgram) {
  const std::string json = scratch("programs_list.json");
  EXPECT_EQ(errors_of({"programs", "--json", json}, 0), "");
  const auto list = nlohmann::json::parse(bytes_of(json));
  ASSERT_FALSE(list["programs"].empty());
  for (const auto& program : list["programs"]) {
    EXPECT_EQ(errors_of({"run", program["name"].get<std::string>(), "--help"}, 0), "");
  }
}

}  // namespace
}  // namespace tributary::system_test
