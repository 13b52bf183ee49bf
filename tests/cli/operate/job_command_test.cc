// SPDX-License-Identifier: Apache-2.0
// Method: keys as flags give them, and the body that the server gets; jobs as the server lists
//         them, and their text.
#include "cli/operate/job_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "cli/settings.h"

namespace tributary::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

WrittenKey written(const char* name, const char* text) {
  return {.name = name, .text = text, .where = ""};
}

TEST(JobCommand, BodyHasTheTypesOfTheKeys) {
  const std::vector<WrittenKey> keys{
      written("sources", "4"),        written("mitigation", "on"),
      written("pin", "false"),        written("timeout_ms", "30"),
      written("clients", "sessions"), written("upstream", "10.0.0.1:12000")};
  EXPECT_EQ(job_body(7, keys), (json{{"id", 7},
                                     {"sources", 4},
                                     {"mitigation", true},
                                     {"pin", false},
                                     {"timeout_ms", 30},
                                     {"clients", "sessions"},
                                     {"upstream", "10.0.0.1:12000"}}));
}

TEST(JobCommand, PathOfTheSecretIsAbsolute) {
  const std::vector<WrittenKey> keys{written("secret_file", "job.secret")};
  EXPECT_EQ(job_body(7, keys)["secret_file"],
            (std::filesystem::current_path() / "job.secret").string());
}

TEST(JobCommand, ListHasALineForEachJob) {
  EXPECT_EQ(job_list_text(json::array()), "no jobs\n");
  const json job{{"id", 7},           {"session", 0},
                 {"draining", false}, {"members", 3},
                 {"sources", 4},      {"blocks_in_progress", 5},
                 {"blocks_total", 9}, {"memory_bytes", 3U << 20}};
  json draining = job;
  draining["draining"] = true;
  draining["session"] = 12;
  const std::string text = job_list_text({job, draining});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(text, HasSubstr("3/4"));
  EXPECT_THAT(text, HasSubstr("3 MB"));
  EXPECT_THAT(text, HasSubstr("drains"));
}

TEST(JobCommand, ListTellsChannelsFromJobs) {
  json job{{"id", 7},
           {"channel_of", 7},
           {"session", 0},
           {"draining", false},
           {"members", 3},
           {"sources", 4},
           {"blocks_in_progress", 5},
           {"blocks_total", 9},
           {"memory_bytes", 3U << 20}};
  json channel = job;
  channel["id"] = 8;
  const std::string text = job_list_text({job, channel});
  EXPECT_THAT(text, HasSubstr("  job channel of   session"));
  EXPECT_THAT(text, HasSubstr("\n    7          -         -       3/4"));
  EXPECT_THAT(text, HasSubstr("\n    8          7         -       3/4"));
}

/// Returns the error of a command line that is refused before any server is asked.
std::string error_of(const std::vector<const char*>& words) {
  CLI::App app("", "tributary");
  int exit_code = 0;
  add_job_command(app, exit_code);
  std::vector<const char*> arguments{"tributary", "job"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::ostringstream out;
  std::ostringstream err;
  const auto ended =
      parse_command_line(app, static_cast<int>(arguments.size()), arguments.data(), out, err);
  EXPECT_EQ(ended, kExitUsage);
  return err.str();
}

TEST(JobCommand, RefusesBadCommandLines) {
  EXPECT_THAT(error_of({"add", "256", "--sources", "4"}), HasSubstr("0 to 255"));
  EXPECT_THAT(error_of({"add", "3", "--sources", "300"}), HasSubstr("1 to 256"));
  EXPECT_THAT(error_of({"add", "3", "--sorces", "4"}), HasSubstr("did you mean '--sources'?"));
  EXPECT_THAT(error_of({"add", "3"}), HasSubstr("--sources"));
  EXPECT_THAT(error_of({"set", "3", "--timeout-ms", "0"}), HasSubstr("1 to 60000"));
  EXPECT_THAT(error_of({"remove"}), HasSubstr("ID"));
  EXPECT_THAT(error_of({"rename", "3"}), HasSubstr("unknown command 'rename'"));
}

}  // namespace
}  // namespace tributary::cli
