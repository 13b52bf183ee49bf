// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/resources_command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/scratch_directory.h"

namespace tributary::cli {
namespace {

int run(const std::vector<std::string>& words) {
  CLI::App app;
  int exit_code = -1;
  add_lab_resources(app, exit_code);
  std::vector<const char*> arguments{"test", "resources"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  app.parse(static_cast<int>(arguments.size()), arguments.data());
  return exit_code;
}

TEST(LabResources, WritesReportAndPicture) {
  const testing::ScratchDirectory scratch;
  const std::string json_path = scratch.path() / "r.json";
  const std::string svg_path = scratch.path() / "r.svg";
  EXPECT_EQ(run({"switchml-64", "--json", json_path, "--svg", svg_path}), 0);
  std::ifstream json_file(json_path);
  const auto json = nlohmann::json::parse(json_file);
  EXPECT_EQ(json["stages"], 12);
  EXPECT_EQ(json["stateful_alus"], 35);
  EXPECT_TRUE(std::ifstream(svg_path).good());
}

TEST(LabResources, ProgramThatDoesNotFitFails) {
  EXPECT_EQ(run({"switchml-64-fifth-operand"}), 1);
  EXPECT_EQ(run({"switchml-72"}), 1);
  EXPECT_EQ(run({"no-such-program"}), 1);
  EXPECT_EQ(run({"switchml-64", "--json", "/no/such/folder/r.json"}), 1);
}

}  // namespace
}  // namespace tributary::cli
