// SPDX-License-Identifier: Apache-2.0
// Method: a server on a loopback port that answers as the test says. The commands that read its answers
//         end with one line; none throws.
#include "cli/operate/local_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cli/operate/job_command.h"
#include "cli/operate/log_command.h"
#include "cli/operate/record_command.h"
#include "cli/operate/status_command.h"
#include "cli/settings.h"
#include "io/udp/free_port.h"
#include "server/control/http_server.h"
#include "tests/support/scratch_directory.h"

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class LocalServerTest : public ::testing::Test {
 protected:
  LocalServerTest() {
    const uint16_t port = io::free_port(io::Transport::kTcp).value_or(0);
    const Endpoint at = Endpoint::ipv4(0x7f000001, port);
    auto started = control::HttpServer::start(at, [this](const control::Request&) {
      if (bodies_.empty()) return control::Reply{.status = status_, .body = body_};
      control::Reply reply{.body = bodies_.front()};
      bodies_.erase(bodies_.begin());
      return reply;
    });
    EXPECT_TRUE(started.has_value()) << started.error().text;
    if (started) server_ = *std::move(started);
    url_ = "http://" + at.to_string();
  }

  /// Runs a command against the server. @return its exit status; errors_ has standard error.
  int run(std::vector<std::string> words) {
    words.insert(words.end(), {"--url", url_});
    CLI::App app("test", "tributary");
    int exit_code = 0;
    add_status_command(app, exit_code);
    add_who_command(app, exit_code);
    add_job_command(app, exit_code);
    add_log_command(app, exit_code);
    add_record_command(app, exit_code);
    std::vector<const char*> argv{"tributary"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    std::ostringstream none;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const auto ended =
        parse_command_line(app, static_cast<int>(argv.size()), argv.data(), none, none);
    output_ = ::testing::internal::GetCapturedStdout();
    errors_ = ::testing::internal::GetCapturedStderr() + none.str();
    return ended.value_or(exit_code);
  }

  int status_ = 200;
  std::string body_;
  std::vector<std::string> bodies_;  ///< Of the first answers, before body_.
  std::string url_;
  std::string output_;
  std::string errors_;
  std::unique_ptr<control::HttpServer> server_;
};

TEST_F(LocalServerTest, AnswerOfAnotherShapeIsOneLine) {
  const std::map<std::string, std::vector<std::string>> commands{
      {"/v1/status", {"status"}},
      {"/v1/who", {"who"}},
      {"/v1/jobs", {"job", "list"}},
      {"/v1/recorder", {"record", "status"}}};
  for (const char* const body :
       {R"({"status":"ok"})", R"({"rows":[1,2],"jobs":[1],"uptime_s":"x","on":3,"last_file":4})"}) {
    body_ = body;
    for (const auto& [path, words] : commands) {
      EXPECT_EQ(run(words), 1) << path;
      EXPECT_EQ(output_, "");
      EXPECT_THAT(errors_, StartsWith("tributary " + words[0] + ": " + url_ + ": the answer to " +
                                      path + " is not one of tributary "));
      EXPECT_EQ(std::ranges::count(errors_, '\n'), 1);
    }
  }
  body_ = R"({"rows":[1,2]})";
  EXPECT_EQ(run({"log"}), 1);
  EXPECT_THAT(errors_, HasSubstr("the answer to /v1/log is not one of tributary "));
}

TEST_F(LocalServerTest, ErrorThatIsNoTextIsReportedByItsStatus) {
  status_ = 409;
  body_ = R"({"error":{"a":1}})";
  EXPECT_EQ(run({"job", "drain", "7"}), 1);
  EXPECT_EQ(errors_, "tributary job: /v1/jobs/7/drain: status 409\n");
}

TEST_F(LocalServerTest, MissingTokenNamesTheFlag) {
  status_ = 401;
  body_ = R"({"error":"send the header"})";
  EXPECT_EQ(run({"status"}), 1);
  EXPECT_THAT(errors_, HasSubstr("the server asks for a token; to fix: give --token-file"));
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.file("token");
  std::ofstream(path) << "0123456789abcdef\n";
  EXPECT_EQ(run({"status", "--token-file", path}), 1);
  EXPECT_EQ(errors_, "tributary status: send the header\n");  // The server knows more.
}

TEST_F(LocalServerTest, WrongFlagsAreAUsageError) {
  EXPECT_EQ(run({"who", "--token-file", "/nonexistent"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("--token-file /nonexistent: there is no token to read"));
  url_ = "https://127.0.0.1:1";
  EXPECT_EQ(run({"job", "list"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("--url 'https://127.0.0.1:1' is not allowed"));
}

TEST_F(LocalServerTest, WatchedStatusInAFileHasNoEscapeSequences) {
  const nlohmann::json status{{"name", "box"},
                              {"version", "1"},
                              {"service", "filter"},
                              {"listen", "eth0"},
                              {"uptime_s", 1.0},
                              {"rx_packets", 0},
                              {"rx_bytes", 0},
                              {"tx_packets", 0},
                              {"tx_bytes", 0},
                              {"jobs", nlohmann::json::array()},
                              {"cores", nlohmann::json::array()},
                              {"drops", nlohmann::json::object()},
                              {"events", nlohmann::json::object()}};
  bodies_ = {status.dump(), status.dump()};  // Those of one screen; the next answer ends --watch.
  body_ = "{}";
  EXPECT_EQ(run({"status", "--watch"}), 1);
  EXPECT_THAT(output_, StartsWith("box (version 1), filter at eth0"));
  EXPECT_EQ(output_.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tributary::cli
