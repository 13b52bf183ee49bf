// SPDX-License-Identifier: Apache-2.0
// Method: runs the command on two blocks, which takes milliseconds, and reads its file back.
#include "cli/lab/trace_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/scratch_directory.h"

namespace tributary::cli {
namespace {

class LabTrace : public ::testing::Test {
 protected:
  /// Runs two workers and two blocks for one iteration, with `words` appended to the command line.
  int run(const std::vector<std::string>& words) {
    CLI::App app;
    int exit_code = -1;
    add_lab_trace(app, exit_code);
    std::vector<std::string> all{"test",
                                 "trace",
                                 "--workers",
                                 "2",
                                 "--iterations",
                                 "1",
                                 "--model.name",
                                 "custom",
                                 "--model.bucket_bytes",
                                 "8192",
                                 "--window",
                                 "64",
                                 "--json",
                                 path_};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<const char*> arguments;
    for (const std::string& word : all) arguments.push_back(word.c_str());
    app.parse(static_cast<int>(arguments.size()), arguments.data());
    return exit_code;
  }
  /// Returns the objects of the file, one for each line.
  [[nodiscard]] std::vector<nlohmann::json> lines() const {
    std::ifstream file(path_);
    std::vector<nlohmann::json> lines;
    std::string line;
    while (std::getline(file, line)) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  const testing::ScratchDirectory scratch_;
  const std::string path_ = scratch_.path() / "trace.jsonl";
};

TEST_F(LabTrace, TracesThePacketsOfOneBlock) {
  ASSERT_EQ(run({"--block", "1", "--limit", "1000"}), 0);
  const auto events = lines();
  ASSERT_GT(events.size(), 20U);
  EXPECT_EQ(events.back()["more"], 0);
  uint32_t arrivals = 0;
  uint32_t results = 0;
  double last_ns = 0;
  for (size_t i = 0; i + 1 < events.size(); i++) {
    EXPECT_GE(events[i]["at_ns"], last_ns);
    last_ns = events[i]["at_ns"];
    arrivals += events[i]["kind"] == "arrive" ? 1 : 0;
    results += events[i]["kind"] == "send" && events[i]["what"] == "result" ? 1 : 0;
    EXPECT_EQ(events[i]["fields"].value("block", 1), 1);
  }
  EXPECT_EQ(arrivals, 2U);
  EXPECT_EQ(results, 1U);
}

TEST_F(LabTrace, LimitBoundsTheEvents) {
  ASSERT_EQ(run({"--limit", "5"}), 0);
  const auto events = lines();
  EXPECT_EQ(events.size(), 6U);
  EXPECT_GT(events.back()["more"], 100);
}

TEST_F(LabTrace, PrintsSnapshotsInOrderOfTime) {
  ASSERT_EQ(run({"--at", "100us", "--at", "60us"}), 0);
  const auto snapshots = lines();
  ASSERT_EQ(snapshots.size(), 2U);
  EXPECT_EQ(snapshots[0]["at_ns"], 60'000.0);
  EXPECT_EQ(snapshots[1]["at_ns"], 100'000.0);
  EXPECT_EQ(snapshots[1]["node"], "switch");
  EXPECT_EQ(snapshots[1]["threads"].size(), 4U);
  EXPECT_EQ(snapshots[1]["threads"][0]["waits for"], "add loop");
  EXPECT_EQ(snapshots[1]["blocks"].size(), 2U);
  EXPECT_EQ(snapshots[1]["blocks"][1]["admitted"], "2");
}

TEST_F(LabTrace, UnpricedListsPlacesOnly) {
  ASSERT_EQ(run({"--unpriced"}), 0);
  std::ifstream file(path_);
  const auto nodes = nlohmann::json::parse(file);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0]["node"], "switch");
  EXPECT_EQ(nodes[0]["program"], "trio-ml");
  EXPECT_GE(nodes[0]["unpriced"].size(), 1U);
  EXPECT_FALSE(nodes[0].contains("instructions"));
}

TEST_F(LabTrace, AccountingListsInstructionsAndPlaces) {
  ASSERT_EQ(run({"--accounting"}), 0);
  std::ifstream file(path_);
  const auto nodes = nlohmann::json::parse(file);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0]["node"], "switch");
  EXPECT_EQ(nodes[0]["program"], "trio-ml");
  EXPECT_EQ(nodes[0]["instructions"][0]["name"], "parse_header");
  EXPECT_EQ(nodes[0]["instructions"][0]["measured"]["lmem_reads"], 2);
  for (const auto& row : nodes[0]["unpriced"]) {
    EXPECT_THAT(std::string(row["place"]), ::testing::ContainsRegex("^[a-z_/]+\\.h:[0-9]+$"));
  }
  EXPECT_GE(nodes[0]["unpriced"].size(), 1U);
}

TEST_F(LabTrace, AccountingTakesNoSelection) {
  for (const char* flag : {"--accounting", "--unpriced"}) {
    EXPECT_EQ(run({flag, "--node", "switch"}), 0);
    EXPECT_EQ(run({flag, "--block", "0"}), 2);
    EXPECT_EQ(run({flag, "--to", "5us"}), 2);
    EXPECT_EQ(run({flag, "--node", "no-such-node"}), 1);
    EXPECT_EQ(run({flag, "--backend", "ideal"}), 1);
  }
}

TEST_F(LabTrace, RequestWithoutAMatchFails) {
  EXPECT_EQ(run({"--block", "99"}), 1);
  EXPECT_EQ(run({"--job", "2"}), 1);
  EXPECT_EQ(run({"--at", "5s"}), 1);
  EXPECT_EQ(run({"--node", "no-such-node"}), 1);
  EXPECT_EQ(run({"--backend", "ideal"}), 1);
  EXPECT_EQ(run({"--from", "5s"}), 1);
}

TEST_F(LabTrace, HasOneIterationUnlessAFileOrAFlagSaysOtherwise) {
  const std::vector<WrittenKey> none = trace_settings("", {});
  ASSERT_EQ(none.size(), 1U);
  EXPECT_EQ(none[0].name, "iterations");
  EXPECT_EQ(none[0].text, "1");
  EXPECT_TRUE(trace_settings("s.toml", {}).empty());
  const std::vector<WrittenKey> flag{{.name = "iterations", .text = "5", .where = "--set"}};
  ASSERT_EQ(trace_settings("", flag).size(), 1U);
  EXPECT_EQ(trace_settings("", flag)[0].text, "5");
}

TEST_F(LabTrace, RefusesWrongFlagsBeforeTheRun) {
  EXPECT_EQ(run({"--kind", "replay"}), 2);
  EXPECT_EQ(run({"--at", "12"}), 2);
  EXPECT_EQ(run({"--from", "soon"}), 2);
  EXPECT_EQ(run({"--from", "2us", "--to", "1us"}), 2);
  EXPECT_EQ(run({"--gradients", "0"}), 2);
  EXPECT_EQ(run({"/no/such/file.toml"}), 2);
  EXPECT_EQ(run({"--links", "--capture", "switch.0>worker-0.0=/tmp/x.pcap"}), 2);
}

}  // namespace
}  // namespace tributary::cli
