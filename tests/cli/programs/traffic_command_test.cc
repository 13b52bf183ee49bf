// SPDX-License-Identifier: Apache-2.0
// Method: command lines as a user gives them. The capture is read back and compared with the
// generator's packets; every refusal is one line that names the flag.
#include "cli/programs/traffic_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/settings.h"
#include "io/capture/capture_reader.h"
#include "tests/cli/command_bed.h"
#include "tests/support/scratch_directory.h"
#include "traffic/generator.h"

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

Ran run(const std::vector<std::string>& args) {
  return run_subcommand("traffic", add_traffic, run_traffic, args);
}

/// Returns the error line of a refused command line.
std::string refusal(std::vector<std::string> args) {
  args.insert(args.end(), {"--out", "/dev/null"});
  const Ran refused = run(args);
  EXPECT_EQ(refused.exit, kExitUsage);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  return refused.err;
}

TEST(TrafficCommand, WarnsOfAFloodThatBeginsAfterTheLastPacket) {
  const testing::ScratchDirectory folder;
  const std::string path = folder.path() / "t.pcap";
  // 100 packets at 1000 a second end after 0.1 s.
  const std::vector<std::string> args{"--packets", "100", "--rate", "1000",
                                      "--flood",   "syn", "--out",  path};
  const Ran late = run(args);
  EXPECT_EQ(late.exit, 0);
  EXPECT_THAT(late.err,
              HasSubstr("no packet of the flood: the capture ends before it begins (at 1 s)"));
  EXPECT_THAT(late.err, HasSubstr("an earlier --flood-start"));

  std::vector<std::string> early = args;
  early.insert(early.end(), {"--flood-start", "0.01"});
  EXPECT_EQ(run(early).err, "");
}

TEST(TrafficCommand, WritesTheGeneratorsPackets) {
  const testing::ScratchDirectory folder;
  const std::string path = folder.path() / "t.pcap";
  const std::string json_path = folder.path() / "t.json";
  const Ran done = run({"--packets",
                        "3000",
                        "--flows",
                        "100",
                        "--rate",
                        "1000",
                        "--seed",
                        "5",
                        "--flood",
                        "syn",
                        "--flood-start",
                        "0.01",
                        "--flood-seconds",
                        "0.05",
                        "--flood-sources",
                        "10000000",
                        "--flash-crowd",
                        "20",
                        "--flash-crowd-start",
                        "0.02",
                        "--out",
                        path,
                        "--json",
                        json_path});
  ASSERT_EQ(done.exit, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("3000 packets, "));
  EXPECT_THAT(done.out, HasSubstr("  flash_crowd "));

  traffic::Config config;
  config.packets = 3'000;
  config.seed = 5;
  config.background.flows = 100;
  config.background.rate = 1'000;
  config.flood = traffic::FloodConfig{.rate = 10'000,  // Ten times --rate.
                                      .start = milliseconds(10),
                                      .length = milliseconds(50),
                                      .sources = 10'000'000};
  config.flash_crowd = traffic::FlashCrowdConfig{.sources = 20, .start = milliseconds(20)};
  auto generator = *traffic::Generator::create(config);
  auto reader = *io::CaptureReader::open(path);
  std::chrono::nanoseconds start{};
  for (int i = 0; i < 3'000; i++) {
    const auto packet = generator.next();
    const auto captured = reader.next();
    ASSERT_TRUE(packet && captured && *captured);
    ASSERT_TRUE(std::ranges::equal((*captured)->bytes, packet->frame)) << i;
    const std::chrono::nanoseconds at =
        (*captured)->at.time_since_epoch() -
        std::chrono::nanoseconds(in_nanoseconds(packet->at.since_start()));
    if (i == 0) start = at;
    ASSERT_EQ(at, start);
  }
  const auto end = reader.next();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);

  std::ifstream file(json_path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["packets"], 3'000);
  EXPECT_EQ(json["settings"]["seed"], 5);
  EXPECT_EQ(json["settings"]["flood"]["kind"], "syn");
  EXPECT_EQ(json["settings"]["flood"]["rate"], 10'000);
  EXPECT_EQ(json["flood_server"], "198.18.0.1");
  EXPECT_EQ(json["flash_crowd_server"], "198.18.0.2");
  EXPECT_EQ(json["classes"][1]["class"], "flood");
  EXPECT_EQ(json["classes"][1]["source_prefixes"], nlohmann::json::array({"240.0.0.0/8"}));
  EXPECT_EQ(json["classes"][1]["packets"], generator.summary().of(traffic::Label::kFlood).packets);
}

TEST(TrafficCommand, SameSeedSameFile) {
  const testing::ScratchDirectory folder;
  const std::vector<std::string> paths{folder.path() / "a", folder.path() / "b"};
  std::vector<std::string> contents;
  for (const std::string& path : paths) {
    ASSERT_EQ(run({"--packets", "500", "--out", path}).exit, 0);
    std::ifstream file(path, std::ios::binary);
    contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  EXPECT_GT(contents[0].size(), 500U * 60);
  EXPECT_EQ(contents[0], contents[1]);
}

TEST(TrafficCommand, DrawsReflectorsFromASmallPool) {
  const testing::ScratchDirectory folder;
  const std::string json_path = folder.path() / "t.json";
  ASSERT_EQ(run({"--packets", "10", "--flood", "amplification", "--out", folder.path() / "t.pcap",
                 "--json", json_path})
                .exit,
            0);
  std::ifstream file(json_path);
  EXPECT_EQ(nlohmann::json::parse(file)["settings"]["flood"]["sources"], 2'000);
}

TEST(TrafficCommand, RefusesInOneLine) {
  EXPECT_THAT(refusal({"--flows", "0"}),
              HasSubstr("--flows=0 is out of range; allowed: a whole number from 1 to 10000000"));
  EXPECT_THAT(refusal({"--packets", "-1"}), HasSubstr("--packets=-1"));
  EXPECT_THAT(refusal({"--seconds", "-1"}), HasSubstr("--seconds=-1"));
  EXPECT_THAT(refusal({"--zipf", "6"}), HasSubstr("--zipf=6"));
  EXPECT_THAT(refusal({"--rate", "0"}), HasSubstr("--rate=0"));
  EXPECT_THAT(refusal({"--churn", "x"}), HasSubstr("--churn=x"));
  EXPECT_THAT(refusal({"--servers", "65535"}), HasSubstr("--servers=65535"));
  EXPECT_THAT(refusal({"--ipv6-percent", "101"}), HasSubstr("--ipv6-percent=101"));
  EXPECT_THAT(refusal({"--udp-percent", "101"}), HasSubstr("--udp-percent=101"));
  EXPECT_THAT(refusal({"--flood", "sin"}),
              HasSubstr("--flood=sin is unknown; allowed: syn, amplification, pulse"));
  EXPECT_THAT(refusal({"--flood", "syn", "--flood-sources", "10000001"}),
              HasSubstr("--flood-sources=10000001"));
  EXPECT_THAT(refusal({"--flood", "syn", "--flood-seconds", "0"}), HasSubstr("--flood-seconds=0"));
  EXPECT_THAT(refusal({"--flood", "pulse", "--pulse-on-ms", "0"}), HasSubstr("--pulse-on-ms=0"));
  EXPECT_THAT(refusal({"--flash-crowd", "0"}), HasSubstr("--flash-crowd=0"));
}

TEST(TrafficCommand, RefusesSettingsOfAnAbsentFlood) {
  EXPECT_THAT(refusal({"--flood-rate", "10"}), HasSubstr("--flood"));
  EXPECT_THAT(refusal({"--pulse-off-ms", "10"}), HasSubstr("--flood"));
  EXPECT_EQ(refusal({"--flood", "syn", "--pulse-on-ms", "10"}),
            "tributary traffic: --pulse-on-ms has no effect; allowed: none, or any with --flood "
            "pulse\n");
  EXPECT_THAT(refusal({"--flood", "amplification", "--pulse-off-ms", "10"}),
              HasSubstr("--pulse-off-ms has no effect"));
  EXPECT_THAT(refusal({"--flash-crowd-start", "1"}), HasSubstr("--flash-crowd"));
}

TEST(TrafficCommand, NeedsAWritableFile) {
  const Ran missing = run({"--packets", "1"});
  EXPECT_EQ(missing.exit, kExitUsage);
  EXPECT_THAT(missing.err, HasSubstr("--out is missing"));
  const Ran unwritable = run({"--packets", "1", "--out", "/nonexistent/t.pcap"});
  EXPECT_EQ(unwritable.exit, kExitUsage);
  EXPECT_THAT(unwritable.err, HasSubstr("--out /nonexistent/t.pcap: cannot be written"));
}

}  // namespace
}  // namespace tributary::cli
