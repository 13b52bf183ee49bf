// SPDX-License-Identifier: Apache-2.0
// Method:  runs commands as users do, with standard output on a full disk (/dev/full), and with
//          result files that are devices, pipes and links. A failed write must fail the command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

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
