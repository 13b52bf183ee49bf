// SPDX-License-Identifier: Apache-2.0
// Method: a server on a loopback port that answers as the test says. The commands that read its
//         answers end with one line; none throws.
#include "cli/operate/local_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
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
    auto started = control::HttpServer::start(at, [this](const control::Request& request) {
      authorization_ = request.authorization;
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
  std::string authorization_;  ///< Authorization header of the last request.
  std::string body_;
  std::vector<std::string> bodies_;  ///< Bodies of the first answers, sent before body_.
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
  EXPECT_EQ(run({"status", "--token-file", path}), kExitUsage);
  EXPECT_EQ(errors_, "tributary status: --token-file " + path +
                         ": other users can read it; run: chmod 600 " + path + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  EXPECT_EQ(run({"status", "--token-file", path}), 1);
  EXPECT_EQ(errors_, "tributary status: send the header\n");  // The server knows more.
}

// A server reads such a file, too: its --http-token-file.
TEST_F(LocalServerTest, TokenStandsBehindComments) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.file("token");
  const auto write = [&path](const std::string& text) {
    std::ofstream(path) << text;
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(0600));
  };
  body_ = R"({"rows":[]})";
  write("# tokens of rack1\n\n  # readers\n 0123456789abcdef read\nfedcba9876543210 write\n");
  EXPECT_EQ(run({"who", "--token-file", path}), 0) << errors_;
  EXPECT_EQ(authorization_, "Bearer 0123456789abcdef");
  write("# tokens of rack1\n\n");
  EXPECT_EQ(run({"who", "--token-file", path}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("there is no token to read"));
}

TEST_F(LocalServerTest, PerfettoAndJsonExcludeEachOther) {
  CLI::App app("test", "tributary");
  int exit_code = 0;
  add_record_command(app, exit_code);
  std::ostringstream none;
  const std::vector<const char*> argv{"tributary",  "record",           "show",  "/none",
                                      "--perfetto", "/none/trace.json", "--json"};
  EXPECT_EQ(parse_command_line(app, static_cast<int>(argv.size()), argv.data(), none, none),
            kExitUsage);
  EXPECT_THAT(none.str(), HasSubstr("--perfetto"));
}

TEST_F(LocalServerTest, WrongFlagsAreAUsageError) {
  EXPECT_EQ(run({"who", "--token-file", "/nonexistent"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("--token-file /nonexistent: is not a readable file"));
  EXPECT_EQ(run({"who", "--token-file", "/dev/zero"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("--token-file /dev/zero: is not a readable file"));
  url_ = "https://127.0.0.1:1";
  EXPECT_EQ(run({"job", "list"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("--url 'https://127.0.0.1:1' is not allowed"));
}

/// Returns whether a text has a byte that a terminal takes as a command: C0 but for newlines, DEL,
/// C1.
bool has_control(const std::string& text) {
  return std::ranges::any_of(
             text, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == 0x7f; }) ||
         text.find("\xc2\x9b") != std::string::npos;
}

TEST_F(LocalServerTest, TextsOfAServerDoNotReachTheTerminalRaw) {
  const std::string evil = "\x1b]0;pwned\x07\u009b31m\x7f";
  const std::string shown = "\\u001b]0;pwned\\u0007\\u009b31m\\u007f";
  status_ = 409;
  body_ = nlohmann::json{{"error", evil + "\nx"}}.dump();
  EXPECT_EQ(run({"job", "list"}), 1);
  EXPECT_EQ(errors_, "tributary job: " + shown + "\\u000ax\n");
  status_ = 200;
  const nlohmann::json log{
      {"rows", {{{"time", evil}, {"level", evil}, {evil, evil}, {"event", "a\u009b"}}}}};
  const nlohmann::json who{{"rows",
                            {{{"job", 1},
                              {"missing", {2}},
                              {"block", evil},
                              {"since_ms", evil},
                              {"last_heard_ms", 1},
                              {"address", evil},
                              {"advice", evil}}}}};
  const nlohmann::json record{{"on", true},        {"events_per_core", evil}, {"recorded", 1},
                              {"overwritten", 1},  {"left_out", 1},           {"last_file", evil},
                              {"last_error", evil}};
  const std::vector<std::pair<nlohmann::json, std::vector<std::string>>> answers{
      {log, {"log"}}, {who, {"who"}}, {record, {"record", "status"}}};
  for (const auto& [answer, words] : answers) {
    body_ = answer.dump();
    EXPECT_EQ(run(words), 0) << errors_;
    EXPECT_THAT(output_, HasSubstr(shown));
    EXPECT_FALSE(has_control(output_)) << output_;
    std::vector<std::string> as_json = words;
    as_json.emplace_back("--json");
    EXPECT_EQ(run(as_json), 0) << errors_;
    EXPECT_FALSE(has_control(output_)) << output_;
    const auto printed = nlohmann::json::parse(output_);
    if (answer.contains("rows")) {
      EXPECT_EQ(printed.at("rows"), answer.at("rows"));
    } else {
      EXPECT_EQ(printed, answer);
    }
  }
}

TEST_F(LocalServerTest, DeepAnswersAreOneLine) {
  for (const size_t depth : {100U, 300'000U}) {
    body_ = "{\"rows\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
    for (const std::string command : {"status", "who", "log"}) {
      EXPECT_EQ(run({command, "--json"}), 1);
      EXPECT_THAT(errors_, HasSubstr("answer")) << command;
      EXPECT_THAT(errors_, ::testing::EndsWith(" has more than 64 levels\n")) << command;
    }
  }
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
