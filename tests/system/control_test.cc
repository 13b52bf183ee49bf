// SPDX-License-Identifier: Apache-2.0
// Method:  a server and four workers as processes; one worker is stopped and continued. The
//          commands find the server through its socket and name the stopped rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "server/control/http_client.h"
#include "tests/server/control/tcp_client.h"
#include "tests/support/sanitized.h"
#include "tests/system/control_folder.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint32_t kWorld = 4;
constexpr uint32_t kStopped = 2;

/// The rank of a paused worker is in `who` from here on.
constexpr std::chrono::seconds kNamedWithin{1};

/// Starts the two workers of a job, which reduce until they are ended.
Workers start_endless_pair(const Server& server, const std::string& elements) {
  Workers workers;
  for (uint32_t rank = 0; rank < 2; rank++) {
    workers.push_back(
        start_worker(server, rank, 2,
                     {"--elements", elements, "--iterations", "10000000", "--deadline-s", "60"}));
  }
  return workers;
}

json rows() { return json::parse(run({"who", "--json"}))["rows"]; }

/// Asks until the rows are about these ranks. A loaded machine may delay others, too.
/// @param missing  The ranks of each row. @return the last rows.
json rows_about(const json& missing) {
  const auto deadline = Clock::now() + kPatience;
  while (true) {
    const json found = rows();
    json ranks = json::array();
    for (const json& row : found) ranks.push_back(row["missing"]);
    if (ranks == missing || Clock::now() > deadline) return found;
  }
}

/// Asks until a row is about this rank. A question that comes kNamedWithin or more after `since`
/// must get such a row, however long a loaded machine takes for the earlier ones. @return null if
/// not.
json row_about(uint32_t rank, Clock::time_point since) {
  while (true) {
    const auto asked = Clock::now();
    for (const json& row : rows()) {
      if (row["missing"] == json({rank})) return row;
    }
    if (asked - since >= kNamedWithin) return nullptr;
  }
}

/// Returns the table of waits on the page as it is served.
std::string waits_on_page(uint16_t port) {
  const std::string page =
      testing::talk(Endpoint::ipv4(0x7f000001, port),
                    "GET / HTTP/1.1\r\nHost: localhost:" + std::to_string(port) + "\r\n\r\n");
  const size_t from = page.find("<tbody id=\"waits\">");
  if (from == std::string::npos) return page;
  return page.substr(from, page.find("</tbody>", from) - from);
}

/// Asks for the page until its table of waits holds the text. @return the last table.
std::string waits_on_page_with(uint16_t port, const std::string& text) {
  const auto deadline = Clock::now() + kPatience;
  while (true) {
    std::string table = waits_on_page(port);
    if (table.find(text) != std::string::npos || Clock::now() > deadline) return table;
  }
}

class Control : public ControlFolder {
 protected:
  /// Sorts the times of answers, and records their median and the longest one.
  static void record_times(std::vector<Clock::duration>& times) {
    std::ranges::sort(times);
    const auto us = [](Clock::duration time) {
      return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
    };
    RecordProperty("median_us", us(times[times.size() / 2]));
    RecordProperty("longest_us", us(times.back()));
  }
};

TEST_F(Control, WhoNamesAPausedRankWithinASecond) {
  const uint16_t port = system_test::free_port(io::Transport::kTcp);
  Server server({"id=1,sources=4,silent_ms=60000"}, {"--http", std::to_string(port)});
  Workers workers;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    workers.push_back(start_worker(server, rank, kWorld,
                                   {"--elements", "60000", "--iterations", "10000000", "--local",
                                    "off", "--deadline-s", "60"}));
  }
  server.wait_until_counted("block_completed", 1000);
  EXPECT_EQ(rows_about(json::array()), json::array());

  const auto stopped = Clock::now();
  workers[kStopped]->signal(SIGSTOP);
  const json found = row_about(kStopped, stopped);
  ASSERT_FALSE(found.is_null()) << "rank 2 was not named within a second";
  EXPECT_EQ(found["job"], 1);
  EXPECT_TRUE(found["block"].is_number_unsigned());
  EXPECT_GE(found["since_ms"], 100);
  // The last block without the rank began at most a second before it stopped.
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - stopped);
  EXPECT_LE(found["since_ms"], passed.count() + 1'000);
  EXPECT_GE(found["last_heard_ms"], 100);
  EXPECT_THAT(found["address"].get<std::string>(), HasSubstr("127.0.0.1:"));
  EXPECT_THAT(found["advice"].get<std::string>(), HasSubstr("rank 2 "));
  EXPECT_EQ(rows_about(json::array({json::array({kStopped})})).size(), 1U);
  EXPECT_THAT(run({"who", "1"}), HasSubstr("rank 2 "));
  EXPECT_THAT(waits_on_page(port), HasSubstr("rank 2 "));
  EXPECT_EQ(json::parse(run({"status", "--json"}))["waits"], 1);

  workers[kStopped]->signal(SIGCONT);
  EXPECT_EQ(rows_about(json::array()), json::array());
  EXPECT_EQ(json::parse(run({"status", "--json"}))["waits"], 0);
  EXPECT_THAT(waits_on_page_with(port, "Nobody waits."), HasSubstr("Nobody waits."));
}

// A worker with --job 2 joins channel 1 of job 1 only.
TEST_F(Control, WhoOfAJobCoversItsChannels) {
  Server server({"id=1,sources=2,channels=2"}, {"--name", "box"});
  const auto waiting =
      start_worker(server, 0, 2, {"--job", "2", "--elements", "1000", "--deadline-s", "60"});
  EXPECT_EQ(rows_about(json::array({json::array({1})})).size(), 1U);
  const json found = json::parse(run({"who", "1", "--json"}))["rows"];
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["job"], 2);
  EXPECT_EQ(found[0]["channel_of"], 1);
  EXPECT_EQ(found[0]["missing"], json({1}));
  EXPECT_THAT(run({"who", "1"}), HasSubstr("channel 1 of job 1: rank 1 "));
  EXPECT_EQ(json::parse(run({"job", "list", "--json"}))["jobs"][1]["channel_of"], 1);
}

TEST_F(Control, JobShowsWhatItsWorkersReport) {
  Server server({"id=1,sources=2"}, {"--name", "box"});
  const Workers workers = start_endless_pair(server, "60000");
  const auto sources = [this] {
    return control::ask(folder_ + "/box.sock", "GET", "/v1/jobs/1")->at("sources");
  };
  const auto has_report = [](const json& source) {
    return source["report"].is_object() && source["report"]["bytes_per_s"] > 0;
  };
  const auto deadline = Clock::now() + kPatience;
  json found = sources();
  while (!std::ranges::all_of(found, has_report) && Clock::now() < deadline) found = sources();
  ASSERT_EQ(found.size(), 2U);
  for (const json& source : found) {
    ASSERT_TRUE(has_report(source)) << source;
    EXPECT_GT(source["report"]["blocks"], 0);
    EXPECT_EQ(source["report"]["degraded_share"], 0);
  }
}

/// Questions to a server whose workers reduce as fast as they can.
constexpr uint32_t kQuestions = 200;
/// Source: the project's goal, 50 ms. Nine of ten answers must meet it on any machine.
constexpr std::chrono::milliseconds kAnswerWithin{50};

TEST_F(Control, AnswersSoonAtFullLoad) {
  Server server({"id=1,sources=2"}, {"--name", "box"});
  const Workers workers = start_endless_pair(server, "1000000");
  server.wait_until_counted("block_completed", 1000);
  std::vector<Clock::duration> waits;
  for (uint32_t i = 0; i < kQuestions; i++) {
    const auto asked = Clock::now();
    ASSERT_TRUE(control::ask(folder_ + "/box.sock", "GET", "/v1/status").has_value());
    waits.push_back(Clock::now() - asked);
  }
  record_times(waits);
  if (!testing::kIsSanitized) {
    EXPECT_LT(waits[kQuestions * 9 / 10], kAnswerWithin);
  }
}

/// Connections whose clients send a byte at a time. Those that the server ends come again.
class SlowClients {
 public:
  SlowClients(const Endpoint& server, uint32_t count) : server_(server) {
    for (uint32_t i = 0; i < count; i++) clients_.emplace_back(server);
  }
  /// Sends the next byte of a request, or connects, on each of these connections.
  void go_on(uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++) {
      testing::TcpClient& client = clients_[i % clients_.size()];
      if (client.is_disconnected()) client = testing::TcpClient(server_);
      if (client.wait_for(POLLOUT, 0)) client.send("G");
    }
  }

 private:
  const Endpoint server_;
  std::vector<testing::TcpClient> clients_;
};

/// As many slow clients as the project's goal names.
constexpr uint32_t kSlowClients = 1000;
/// The longest scrape among slow clients, on a machine with a load of its own. While slow clients
/// occupied the threads that answer, a scrape waited for minutes.
constexpr std::chrono::seconds kScrapeWithin{5};

TEST_F(Control, SlowConnectionsDelayNoScrape) {
  const uint16_t port = system_test::free_port(io::Transport::kTcp);
  Server server({"id=1,sources=2"}, {"--http", std::to_string(port)});
  const Workers workers = start_endless_pair(server, "60000");
  server.wait_until_counted("block_completed", 1000);
  const Endpoint at = Endpoint::ipv4(0x7f000001, port);
  SlowClients slow(at, kSlowClients);
  std::vector<Clock::duration> waits;
  for (uint32_t i = 0; i < kQuestions / 2; i++) {
    slow.go_on(i * 50, 50);
    const auto asked = Clock::now();
    ASSERT_THAT(testing::talk(at, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                HasSubstr("tributary_build_info"));
    waits.push_back(Clock::now() - asked);
  }
  record_times(waits);
  if (!testing::kIsSanitized) {
    EXPECT_LT(waits.back(), kScrapeWithin);
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Control, WhoNamesTheProcessOfAWorkerOfThisMachine) {
  Server server({"id=1,sources=2,silent_ms=60000"});
  Workers workers;
  for (uint32_t rank = 0; rank < 2; rank++) {
    workers.push_back(start_worker(server, rank, 2,
                                   {"--elements", "60000", "--iterations", "10000000", "--local",
                                    "on", "--deadline-s", "60"}));
  }
  server.wait_until_counted("block_completed", 1000);
  workers[1]->signal(SIGSTOP);
  const auto deadline = Clock::now() + kPatience;
  std::string advice;
  json found = rows();
  while (Clock::now() < deadline && advice.find("is silent") == std::string::npos) {
    found = rows();
    advice = found.empty() ? "" : found[0]["advice"].get<std::string>();
  }
  ASSERT_EQ(found.size(), 1U);
  const std::string address = found[0]["address"];
  ASSERT_THAT(address, StartsWith("local pid "));
  const std::string pid = address.substr(std::string("local pid ").size());
  EXPECT_EQ(advice, "rank 1 is silent: check that its process on this machine (pid " + pid +
                        ") runs and is not stopped");
  // It is the process that the test has stopped.
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string line;
  std::getline(stat, line);
  EXPECT_THAT(line, HasSubstr("(tributary) T "));
  workers[1]->signal(SIGCONT);
}

TEST_F(Control, StatusFindsTheOnlyServerAndAsksForANameOtherwise) {
  EXPECT_THAT(run({"status"}, 1), HasSubstr("no server of this machine"));
  Server first({"id=1,sources=2"}, {"--name", "first"});
  const json status = json::parse(run({"status", "--json"}));
  EXPECT_EQ(status["name"], "first");
  EXPECT_EQ(status["listen"], first.address());
  EXPECT_EQ(status["jobs"][0]["sources"], 2);
  EXPECT_TRUE(status["jobs"][0].contains("blocks_per_s"));
  {
    Server second({"id=1,sources=3"});
    EXPECT_THAT(run({"status"}, 1), HasSubstr("give --name with one of: " + second.address()));
    EXPECT_EQ(
        json::parse(run({"status", "--json", "--name", second.address()}))["jobs"][0]["sources"],
        3);
    EXPECT_EQ(second.stop(), 0);
  }
  EXPECT_THAT(run({"who", "9"}, 1), HasSubstr("job '9' does not exist; jobs: 1"));
  EXPECT_THAT(run({"who", "256"}, 2), HasSubstr("255"));
  EXPECT_EQ(first.stop(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Control, SocketOfAKilledServerIsTakenOver) {
  Server server({"id=1,sources=2"}, {"--name", "box"});
  server.kill();
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/box.sock"));
  EXPECT_THAT(run({"status"}, 1), HasSubstr("no server of this machine"));
  server.start_again();
  EXPECT_EQ(json::parse(run({"status", "--json"}))["name"], "box");
}

TEST_F(Control, SecondServerOfTheSameNameIsRefused) {
  const Server server({"id=1,sources=2"}, {"--name", "box"});
  const std::string listen = "127.0.0.1:" + std::to_string(free_port());
  EXPECT_THAT(run({"serve", "--listen", listen, "--job", "id=1,sources=2", "--name", "box"}, 2),
              HasSubstr("another server has it; to fix: give --name NAME"));
  EXPECT_THAT(run({"serve", "--listen", listen, "--job", "id=1,sources=2", "--name", "a/b"}, 2),
              HasSubstr("--name 'a/b' is not allowed"));
}

TEST_F(Control, HttpServesTheDashboardToThoseWithTheToken) {
  const std::string token_file = scratch("http_token");
  std::ofstream(token_file) << "0123456789abcdef\n";
  std::filesystem::permissions(token_file, std::filesystem::perms::owner_read);
  const uint16_t port = system_test::free_port(io::Transport::kTcp);
  Server server({"id=1,sources=2"},
                {"--http", std::to_string(port), "--http-token-file", token_file, "--api", "off"});
  const Endpoint at = Endpoint::ipv4(0x7f000001, port);
  const auto ask = [&at](const std::string& method, const std::string& url,
                         const std::string& token) {
    return testing::talk(at, method + " " + url + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " +
                                 token + "\r\n\r\n");
  };
  const std::string good = "0123456789abcdef";
  EXPECT_THAT(ask("GET", "/", good), HasSubstr("<td><a href=\"/jobs/1\">1</a></td>"));
  EXPECT_THAT(ask("GET", "/v1/status", good), HasSubstr(server.address()));
  EXPECT_THAT(ask("DELETE", "/v1/jobs/1", good), HasSubstr("HTTP/1.1 403"));
  EXPECT_THAT(ask("GET", "/", good + "0"), HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(ask("GET", "/metrics", good),
              HasSubstr("tributary_http_requests_total{result=\"wrong_token\"} 1\n"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_NE(entry.path().extension(), ".sock");
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Control, HttpTakesCommandsWithATokenThatMayWrite) {
  const std::string token_file = scratch("http_tokens");
  const auto write_tokens = [&token_file](const std::string& text) {
    std::ofstream(token_file + ".next") << text;
    std::filesystem::permissions(token_file + ".next", std::filesystem::perms::owner_read);
    std::filesystem::rename(token_file + ".next", token_file);
  };
  write_tokens("reader-0123456789\nwriter-0123456789 write\nold-0123456789abc write 2020-01-31\n");
  const uint16_t port = system_test::free_port(io::Transport::kTcp);
  Server server({"id=1,sources=2"},
                {"--http", std::to_string(port), "--http-token-file", token_file});
  const auto add_job = [&](uint32_t id, const std::string& token) {
    const std::string body = "{\"id\": " + std::to_string(id) + ", \"sources\": 2}";
    return testing::talk(Endpoint::ipv4(0x7f000001, port),
                         "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token +
                             "\r\nContent-Type: application/json\r\nContent-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  EXPECT_THAT(add_job(2, "writer-0123456789"), HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(add_job(3, "reader-0123456789"), HasSubstr("HTTP/1.1 403"));
  EXPECT_THAT(add_job(3, "old-0123456789abc"), HasSubstr("the token has expired"));
  EXPECT_EQ(json::parse(run({"job", "list", "--json"}))["jobs"].size(), 2U);
  write_tokens("next-0123456789ab write\n");
  EXPECT_THAT(add_job(3, "writer-0123456789"), HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(add_job(3, "next-0123456789ab"), HasSubstr("HTTP/1.1 200"));
  EXPECT_TRUE(server.wait_for_error("event=tokens_read"));
  // The same over the commands, as from another machine.
  const std::string url = "http://127.0.0.1:" + std::to_string(port);
  const std::vector<std::string> there{"--url", url + "/", "--token-file", token_file};
  const auto run_there = [&there](std::vector<std::string> words, int status = 0) {
    words.insert(words.end(), there.begin(), there.end());
    return run(words, status);
  };
  EXPECT_EQ(json::parse(run_there({"status", "--json"}))["listen"], server.address());
  EXPECT_THAT(run_there({"job", "remove", "3"}), StartsWith("removed job 3"));
  EXPECT_THAT(run_there({"who"}), StartsWith("no job waits"));
  EXPECT_THAT(run_there({"log"}), HasSubstr("event=job_removed"));
  EXPECT_THAT(run({"status", "--url", url}, 1), HasSubstr("token"));
  EXPECT_THAT(run({"status", "--url", "box"}, 2), HasSubstr("allowed: http://HOST:PORT"));
  EXPECT_THAT(run({"status", "--url", "http://127.0.0.1:1"}, 1), HasSubstr("does not answer"));
  EXPECT_THAT(run({"status", "--url", url, "--token-file", "/none"}, 2),
              HasSubstr("--token-file /none: is not a readable file"));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Control, HttpTakesTheTokenThatSystemdProvides) {
  const std::string folder = scratch("credentials");
  std::filesystem::create_directory(folder);
  const auto provide = [&folder](const std::string& text, mode_t mode) {
    const std::string path = folder + "/tributary-http-token";
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
  };
  setenv("CREDENTIALS_DIRECTORY", folder.c_str(), /*overwrite=*/1);
  const std::vector<std::string> open{
      "serve",       "--listen",       "127.0.0.1:" + std::to_string(free_port()),
      "--job",       "id=1,sources=2", "--http",
      "0.0.0.0:8080"};
  // The unit's text for "no file".
  provide("none", 0440);
  EXPECT_THAT(run(open, 2), HasSubstr("give --http-token-file"));
  provide("0123456789abcdef\n", 0444);
  EXPECT_THAT(run(open, 2), HasSubstr("other users can read it"));
  // A file means that the operator wants a token, although the address needs none.
  provide("", 0440);
  std::vector<std::string> here = open;
  here.back() = "127.0.0.1:8080";
  EXPECT_THAT(run(here, 2),
              HasSubstr("the token (of a service: /etc/tributary/NAME.http-token) in " + folder +
                        "/tributary-http-token: is empty"));
  // systemd's ACL shows as the group's bits.
  provide("0123456789abcdef\n", 0440);
  const uint16_t port = system_test::free_port(io::Transport::kTcp);
  Server server({"id=1,sources=2"}, {"--http", std::to_string(port)});
  unsetenv("CREDENTIALS_DIRECTORY");
  const auto ask = [port](const std::string& token) {
    return testing::talk(
        Endpoint::ipv4(0x7f000001, port),
        "GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n");
  };
  EXPECT_THAT(ask("0123456789abcdef"), HasSubstr(server.address()));
  EXPECT_THAT(ask("0123456789abcdeF"), HasSubstr("HTTP/1.1 401"));
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Control, HttpIsRefusedWhereStrangersCouldRead) {
  const std::string open_file = scratch("open_token");
  std::ofstream(open_file) << "0123456789abcdef\n";
  std::filesystem::permissions(open_file, std::filesystem::perms::all);
  const auto refusal = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"serve", "--listen", "127.0.0.1:" + std::to_string(free_port())};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, 2);
  };
  const std::string job = "id=1,sources=2";
  EXPECT_THAT(refusal({"--job", job, "--http", "0.0.0.0:8080"}),
              HasSubstr("other machines can reach this address; give --http-token-file"));
  EXPECT_THAT(refusal({"--job", job, "--http", "0.0.0.0:8080", "--http-token-file", open_file}),
              HasSubstr("other users can read it; run: chmod 600"));
  EXPECT_THAT(refusal({"--job", job, "--http", "nothing:at:all"}),
              HasSubstr("allowed: a port of 127.0.0.1, or ADDRESS:PORT"));
  EXPECT_THAT(refusal({"--job", job, "--http-token-file", open_file}),
              HasSubstr("--http-token-file needs --http"));
  EXPECT_THAT(refusal({"--protocol", "switchml", "--http", "0.0.0.0:8080"}),
              HasSubstr("give --http-token-file"));
}

TEST_F(Control, ServerServesWithoutAWritableFolder) {
  setenv("RUNTIME_DIRECTORY", "/proc/none", /*overwrite=*/1);
  Server server({"id=1,sources=1"});
  EXPECT_TRUE(server.wait_for_error("no folder for the control socket is writable"));
  EXPECT_EQ(server.stats()["command"], "serve");
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace tributary::system_test
