// SPDX-License-Identifier: Apache-2.0
// Method:  runs commands as users do, with standard output on a full disk (/dev/full), and with
//          result files that are devices, pipes and links. A failed write must fail the command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/scratch_directory.h"
#include "tests/system/process.h"
#include "tests/system/server.h"

namespace tributary::system_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<std::string> kTinyRun{"lab",          "run",    "--iterations",         "1",
                                        "--model.name", "custom", "--model.bucket_bytes", "4096",
                                        "--train",      "2"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_failure_on_a_full_disk(const std::vector<std::string>& arguments) {
  Process process(arguments, "/dev/full");
  EXPECT_EQ(process.wait_for_end(), 1) << arguments[0];
  EXPECT_THAT(process.errors(), HasSubstr("tributary: standard output ")) << arguments[0];
}

TEST(Output, FullDiskBehindStandardOutputFailsEveryCommand) {
  expect_failure_on_a_full_disk({"--version"});
  expect_failure_on_a_full_disk({"serve", "--help"});
  expect_failure_on_a_full_disk({"lab", "run", "--show"});
  expect_failure_on_a_full_disk({"lab", "resources", "switchml-64"});  // More than a buffer.
  expect_failure_on_a_full_disk(kTinyRun);
}

TEST(Output, ResultFlagWithoutAFileWritesToStandardOutputAlone) {
  for (const std::string flag : {"--json", "--json=-"}) {
    Process process({"plan", "--workers", "2", flag});
    EXPECT_EQ(process.wait_for_end(), 0) << flag;
    const auto json = nlohmann::json::parse(process.output(), nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json.is_object()) << flag << "\n" << process.output();
    EXPECT_THAT(process.errors(), HasSubstr("best ring")) << "the text goes to standard error";
  }
  EXPECT_FALSE(fs::exists("-"));
}

// Otherwise the capture would have the number of standard output.
TEST(Output, AClosedStandardOutputDamagesNoOtherFile) {
  const testing::ScratchDirectory scratch;
  const std::string capture = scratch.path() / "a.pcap", program = TRIBUTARY_PROGRAM;
  const auto run = [&](const std::string& command) {
    const int status = std::system((program + " " + command + " 2>/dev/null").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  ASSERT_EQ(run("traffic --packets 100 --out " + capture + " >/dev/null"), 0);
  const auto bytes = fs::file_size(capture);
  EXPECT_EQ(run("run telemetry --in " + capture + " --records - >&-"), 1);
  EXPECT_EQ(run("run telemetry --in " + capture + " --ipfix - >&-"), 1);
  EXPECT_EQ(fs::file_size(capture), bytes);
  const std::string lines = scratch.path() / "lines";
  EXPECT_EQ(run("run telemetry --in " + capture + " --records - >" + lines), 0);
  EXPECT_TRUE(std::ifstream(lines).get() == '{');
}

TEST(Output, TwoResultsOnStandardOutputAreRefused) {
  Process process({"lab", "figure", "trio-16", "--quick", "--json", "--csv"});
  EXPECT_EQ(process.wait_for_end(), 2);
  EXPECT_THAT(process.errors(),
              HasSubstr("--csv needs a FILE, because --json writes to standard output"));
}

/// Returns the names below `SUBCOMMANDS` in a command's help.
std::vector<std::string> subcommands_in(const std::string& help) {
  std::vector<std::string> names;
  bool listed = false;
  for (const std::string& line : lines_of(help)) {
    if (!line.empty() && line[0] != ' ') {
      listed = line.starts_with("Subcommands:");
    } else if (listed && line.size() > 2 && line.starts_with("  ") && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return names;
}

/// Calls `visit` for a command and those up to `levels` below it. @return the number of visits.
template <class Visit>
uint32_t walk_commands(const std::vector<std::string>& command, uint32_t levels,
                       const Visit& visit) {
  visit(command);
  if (levels == 0) return 1;
  Process process(with(command, {"--help"}));
  EXPECT_EQ(process.wait_for_end(), 0) << process.errors();
  uint32_t visits = 1;
  for (const std::string& name : subcommands_in(process.output())) {
    visits += walk_commands(with(command, {name}), levels - 1, visit);
  }
  return visits;
}

TEST(Output, FullDiskBehindStandardOutputFailsTheHelpOfEveryCommand) {
  const uint32_t levels = testing::kIsSanitized ? 1 : 2;  // Sanitized programs start slowly.
  const uint32_t visits = walk_commands({}, levels, [](const std::vector<std::string>& command) {
    expect_failure_on_a_full_disk(with(command, {"--help"}));
  });
  EXPECT_GT(visits, testing::kIsSanitized ? 10U : 30U);  // The walk has found the commands.
}

TEST(Output, FullDiskBehindStandardOutputFailsReportsAndRuns) {
  const std::vector<std::string> tiny(kTinyRun.begin() + 2, kTinyRun.end());
  expect_failure_on_a_full_disk({"lab", "list"});
  expect_failure_on_a_full_disk(with({"lab", "trace", "--limit", "1"}, tiny));
  expect_failure_on_a_full_disk({"doctor", "--port", std::to_string(free_port())});
  expect_failure_on_a_full_disk({"plan", "--workers", "4"});
  expect_failure_on_a_full_disk({"programs"});
}

/// A run whose result could not be written would be lost, so nothing runs.
TEST(Output, ResultFilesAreCheckedBeforeTheRun) {
  const std::string path = scratch("absent") + "/result.json";
  for (const std::vector<std::string>& command :
       {kTinyRun, std::vector<std::string>{"lab", "figure", "trio-13", "--quick"},
        std::vector<std::string>{"lab", "faults", "--quick"},
        std::vector<std::string>{"bench", "latency", "--quick"},
        std::vector<std::string>{"doctor"}}) {
    Process process(with(command, {"--json", path}));
    EXPECT_EQ(process.wait_for_end(), 2) << command[0];
    EXPECT_THAT(process.errors(), HasSubstr("--json " + path +
                                            ": cannot be written: no file can "
                                            "be created in its folder: No such file"));
    EXPECT_EQ(process.output(), "");
  }
}

TEST(Output, FullDiskBehindStandardOutputFailsAWorkerAfterItsFilesAreWritten) {
  Server server({"id=1,sources=1"});
  const std::string json = scratch("full_output.json");
  expect_failure_on_a_full_disk({"worker", "--server", server.address(), "--elements", "100",
                                 "--iterations", "1", "--json", json});
  EXPECT_TRUE(fs::exists(json));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Output, ServerThatCannotSayReadyDoesNotServe) {
  expect_failure_on_a_full_disk(
      {"serve", "--listen", "127.0.0.1:" + std::to_string(free_port()), "--job", "id=1,sources=1"});
}

TEST(Output, ServerKeepsLinksDevicesAndPipes) {
  const fs::path link = scratch("to_full");
  fs::create_symlink("/dev/full", link);
  const fs::path pipe = scratch("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<std::string> serve{
      "serve", "--listen",       "127.0.0.1:" + std::to_string(free_port()),
      "--job", "id=1,sources=1", "--json"};
  Process to_device(with(serve, {link}));
  EXPECT_EQ(to_device.wait_for_end(), 2);
  EXPECT_THAT(to_device.errors(), HasSubstr("No space left on device"));
  EXPECT_TRUE(fs::is_symlink(link));
  Process to_pipe(with(serve, {pipe}));
  EXPECT_EQ(to_pipe.wait_for_end(), 2);
  EXPECT_THAT(to_pipe.errors(), HasSubstr("nobody reads this pipe; start its reader first"));
  EXPECT_TRUE(fs::is_fifo(pipe));

  fs::create_symlink("serve_target.json", scratch("to_file"));
  Process to_file(with(serve, {scratch("to_file")}));
  ASSERT_TRUE(to_file.wait_for_line("ready"));
  to_file.signal(SIGTERM);
  EXPECT_EQ(to_file.wait_for_end(), 0);
  EXPECT_TRUE(fs::is_symlink(scratch("to_file")));
  EXPECT_TRUE(fs::is_regular_file(scratch("serve_target.json")));
}

TEST(Output, LabResultsGoIntoDevices) {
  Process process(with(kTinyRun, {"--json", "/dev/full"}));
  EXPECT_EQ(process.wait_for_end(), 1);
  EXPECT_THAT(process.errors(), HasSubstr("No space left on device"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace tributary::system_test
