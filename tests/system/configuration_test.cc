// SPDX-License-Identifier: Apache-2.0
// Method:  configurations that cannot be served. Each run ends at once with exit status 2 and one
//          line with the problem, its place and the values allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "tests/support/scratch_directory.h"
#include "tests/system/server.h"

namespace tributary::system_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns the single line of standard error.
std::string refusal(const std::vector<std::string>& arguments, int expected_status = 2) {
  Process process(arguments);
  const auto status = process.wait_for_end();
  EXPECT_EQ(status, expected_status);
  EXPECT_EQ(process.output(), "");
  const auto lines = lines_of(process.errors());
  EXPECT_EQ(lines.size(), 1U) << process.errors();
  return lines.empty() ? "" : lines.front();
}

std::string serve_refusal(const std::string& job, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"serve", "--listen", "127.0.0.1:" + std::to_string(free_port()),
                                 "--job", job};
  words.insert(words.end(), more.begin(), more.end());
  return refusal(words);
}

TEST(Configuration, RefusesAnUnknownKey) {
  const std::string line = serve_refusal("id=1,sorces=4");
  EXPECT_THAT(line, HasSubstr("--job: unknown key 'sorces'"));
  EXPECT_THAT(line, HasSubstr("'sources'"));
}

TEST(Configuration, RefusesAWrongType) {
  const std::string line = serve_refusal("id=1,sources=four");
  EXPECT_THAT(line, HasSubstr("--job: sources=four"));
  EXPECT_THAT(line, HasSubstr("a whole number from 1 to 256"));
}

TEST(Configuration, RefusesAValueOutOfRange) {
  EXPECT_THAT(serve_refusal("id=1,sources=257"),
              HasSubstr("sources=257 is out of range; allowed: a whole number from 1 to 256"));
  EXPECT_THAT(serve_refusal("id=1,sources=4,window=100"),
              HasSubstr("block_cnt_max=100 is not allowed; allowed: a power of two"));
}

TEST(Configuration, RefusesAMissingKey) {
  EXPECT_THAT(serve_refusal("id=1"), HasSubstr("sources"));
}

TEST(Configuration, RefusesADuplicateJob) {
  EXPECT_THAT(serve_refusal("id=1,sources=4", {"--job", "id=1,sources=2"}),
              HasSubstr("id=1 is configured twice"));
}

TEST(Configuration, RefusesAJobTooLargeForTheMemory) {
  const std::string line = serve_refusal("id=1,sources=4", {"--memory-mb", "16"});
  EXPECT_THAT(line, HasSubstr("job 1: block_cnt_max=4096, block_grad_max=2048, history=1 need"));
  EXPECT_THAT(line, HasSubstr("--memory-mb 16"));
}

// A port may become free, so the exit status is not that of a wrong flag.
TEST(Configuration, RefusesAPortInUse) {
  Server first({"id=1,sources=4"});
  const std::string line =
      refusal({"serve", "--listen", first.address(), "--job", "id=1,sources=4"}, 1);
  EXPECT_THAT(line, HasSubstr("--listen"));
  EXPECT_THAT(line, HasSubstr(first.address()));
  EXPECT_THAT(line, HasSubstr("in use"));
  // The same with several cores, although these share a port.
  EXPECT_THAT(
      refusal({"serve", "--listen", first.address(), "--cores", "2", "--job", "id=1,sources=4"}, 1),
      HasSubstr("in use"));
}

TEST(Configuration, RefusesAPortInUseByAServerOfSeveralCores) {
  Server first({"id=1,sources=4"}, {"--cores", "2"});
  for (const char* cores : {"1", "2"}) {
    EXPECT_THAT(
        refusal({"serve", "--listen", first.address(), "--cores", cores, "--job", "id=1,sources=4"},
                1),
        HasSubstr("in use"));
  }
}

TEST(Configuration, RefusesAnUnwritableStatisticsFile) {
  EXPECT_THAT(serve_refusal("id=1,sources=4", {"--json", "/nonexistent/stats.json"}),
              HasSubstr("--json /nonexistent/stats.json"));
}

TEST(Configuration, RefusalNamesFileAndLine) {
  const std::string path = scratch("serve.toml");
  std::ofstream(path) << "[[job]]\nid = 1\nsources = 300\n";
  const std::string line = refusal({"serve", "--config", path});
  EXPECT_THAT(line, HasSubstr(path + ":3: sources=300"));
}

TEST(Configuration, ServersRefusalStatesTheAllowedValues) {
  Server server({"id=1,sources=2"});
  Process process(
      {"worker", "--server", server.address(), "--world", "3", "--rank", "0", "--deadline-s", "5"});
  EXPECT_EQ(process.wait_for_end(), 1);
  EXPECT_THAT(process.errors(), HasSubstr("2"));
  Process unknown({"worker", "--server", server.address(), "--job", "9", "--world", "2", "--rank",
                   "0", "--deadline-s", "5"});
  EXPECT_EQ(unknown.wait_for_end(), 1);
  EXPECT_THAT(unknown.errors(), HasSubstr("job 9"));
}

TEST(Configuration, ServerExitsCleanlyOnSigint) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  Process process({"serve", "--listen", address, "--job", "id=1,sources=4"});
  ASSERT_TRUE(process.wait_for_line("ready"));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait_for_end(), 0);
}

// The terminal of a server that was closed sends SIGHUP.
TEST(Configuration, HangUpEndsTheServerInOrder) {
  Server server({"id=1,sources=4"}, {"--linger-s", "1"});
  const auto before = server.stats();
  server.signal(SIGHUP);
  EXPECT_EQ(server.wait_for_end(), 0);
  EXPECT_GT(server.written_stats()["uptime_s"], before["uptime_s"]);
}

TEST(Configuration, HangUpReloadsTheJobsOfTheFile) {
  const testing::ScratchDirectory folder;
  const std::string path = folder.file(
      "c.toml", "[[job]]\nid = 1\nsources = 2\n[[job]]\nid = 2\nsources = 2\nmitigation = true\n");
  Server server({}, {"--config", path});
  const auto ids = [&server] {
    std::vector<uint32_t> found;
    const auto stats = server.stats();
    for (const auto& job : stats["jobs"]) found.push_back(job["id"]);
    return found;
  };
  EXPECT_THAT(ids(), ElementsAre(1, 2));
  (void)folder.file("c.toml",
                    "[[job]]\nid = 2\nsources = 2\nmitigation = true\ntimeout_ms = 40\n"
                    "[[job]]\nid = 3\nsources = 4\n");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.wait_for_error("jobs_reloaded added=1 drained=1 changed=1 unchanged=0"));
  EXPECT_THAT(ids(), ElementsAre(2, 3));

  (void)folder.file("c.toml",
                    "linger-s = 9\n"
                    "[[job]]\nid = 2\nsources = 2\nmitigation = true\ntimeout_ms = 40\n"
                    "[[job]]\nid = 3\nsources = 4\n");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.wait_for_error("settings_not_reloaded"));

  (void)folder.file("c.toml", "[[job]]\nid = 300\nsources = 4\n");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.wait_for_error("reload_failed"));
  EXPECT_THAT(ids(), ElementsAre(2, 3));

  (void)folder.file("c.toml", "[[jobs]]\nid = 2\nsources = 2\n");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.wait_for_error("did you mean 'job'?"));
  (void)folder.file("c.toml", "");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.wait_for_error("has no [[job]]"));
  (void)folder.file("c.toml", "[[job]]\nid = 2\nsources = 2\n[[job]]\nid = 2\nsources = 3\n");
  server.signal(SIGHUP);
  ASSERT_TRUE(server.wait_for_error("[[job]]: id=2 is configured twice"));
  EXPECT_THAT(ids(), ElementsAre(2, 3));
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace tributary::system_test
