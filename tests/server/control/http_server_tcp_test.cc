// SPDX-License-Identifier: Apache-2.0
// Method: a server on a TCP port of the loopback interface: good requests, garbage, clients that
//         are slow to send or to read, 1,000 connections, floods from one address, requests without
//         an end, and a process without a free descriptor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "server/control/http_server.h"
#include "tests/server/control/tcp_client.h"
#include "tests/support/sanitized.h"

namespace tributary::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::talk;
using testing::TcpClient;

constexpr size_t kLargeBytes = size_t{32} << 20;
constexpr size_t kHugeBytes = size_t{65} << 20;
static_assert(kLargeBytes <= kAnswersBytesMax && kHugeBytes > kAnswersBytesMax);

Reply echo(const Request& request) {
  if (request.path == "/large") return {.body = std::string(kLargeBytes, 'x')};
  if (request.path == "/huge") return {.body = std::string(kHugeBytes, 'x')};
  return {.body = nlohmann::json{{"method", request.method},
                                 {"path", request.path},
                                 {"host", request.host},
                                 {"authorization", request.authorization},
                                 {"cookie", request.cookie},
                                 {"token", request.token.value_or("none")}}
                      .dump(),
          .headers = {{"X-Test", "yes"}}};
}

const std::string kGoodRequest = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

class HttpServerTcp : public ::testing::Test {
 protected:
  /// Another program may take the port between the search and the start.
  std::unique_ptr<HttpServer> start(Endpoint& at) {
    for (uint32_t attempt = 0; attempt < 5; attempt++) {
      at = testing::free_tcp_address();
      auto server = HttpServer::start(at, echo, &counters_);
      if (server) return *std::move(server);
    }
    return nullptr;
  }
  void SetUp() override {
    server_ = start(at_);
    ASSERT_NE(server_, nullptr);
  }

  [[nodiscard]] uint64_t ended(ConnectionEnd how) const {
    return counters_[static_cast<uint32_t>(how)].load();
  }

  Endpoint at_;
  ConnectionCounters counters_{};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTcp, HandlerSeesTheHeadersAndSetsSome) {
  const std::string answer = talk(at_,
                                  "GET /x?token=a%20b HTTP/1.1\r\nHost: h\r\nCookie: c=d\r\n"
                                  "Authorization: Bearer e\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("X-Test: yes\r\n"));
  const auto body = nlohmann::json::parse(answer.substr(answer.find('{')));
  EXPECT_EQ(body, (nlohmann::json{{"method", "GET"},
                                  {"path", "/x"},
                                  {"host", "h"},
                                  {"authorization", "Bearer e"},
                                  {"cookie", "c=d"},
                                  {"token", "a b"}}));
}

TEST_F(HttpServerTcp, ATargetInAbsoluteFormHasHostAndPath) {
  const auto asked = [this](const std::string& target) {
    const std::string answer = talk(at_, "GET " + target + " HTTP/1.1\r\nHost: other\r\n\r\n");
    const auto body = nlohmann::json::parse(answer.substr(answer.find('{')));
    return std::vector<std::string>{body["host"], body["path"], body["token"]};
  };
  EXPECT_THAT(asked("http://h:80/x/y?token=a"), ElementsAre("h:80", "/x/y", "a"));
  EXPECT_THAT(asked("http://h"), ElementsAre("h", "/", "none"));
  EXPECT_THAT(asked("/http://h/x"), ElementsAre("other", "/http://h/x", "none"));
}

TEST_F(HttpServerTcp, PortInUseIsRefused) {
  const auto second = HttpServer::start(at_, echo);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().text, HasSubstr("cannot listen there (Address already in use)"));
}

TEST_F(HttpServerTcp, GarbageGetsOneAnswer) {
  for (const std::string& bytes :
       {std::string("garbage\r\n\r\n"), std::string("GET\r\n\r\n"), std::string(300, '\n'),
        std::string("GET / HTTP/9.9\r\n\r\n"), "GET /" + std::string(9000, 'x') + "\r\n\r\n"}) {
    EXPECT_THAT(talk(at_, bytes), StartsWith("HTTP/1.1 4")) << bytes.substr(0, 20);
  }
  static_cast<void>(
      talk(at_, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", 12)));  // TLS.
  EXPECT_THAT(talk(at_, kGoodRequest), StartsWith("HTTP/1.1 200"));
}

// A proxy may take the first of two headers, and the server the last one.
TEST_F(HttpServerTcp, RefusesAHeaderGivenTwiceThatDecides) {
  EXPECT_THAT(talk(at_, "GET /x HTTP/1.1\r\nHost: localhost\r\nhost: h\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 400"),
                    HasSubstr("the header Host appears 2 times; allowed: once")));
  EXPECT_THAT(
      talk(at_, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n"),
      StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(talk(at_, "GET /x HTTP/1.1\r\nHost: h\r\nAccept: a\r\nAccept: b\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTcp, NamesTheLengthOfALongBody) {
  const std::string length(30, '9');
  EXPECT_THAT(talk(at_, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + "\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("the body has " + length + " bytes")));
}

// A client that sends a body gets an answer, although the server does not read all of it.
TEST_F(HttpServerTcp, RequestWithABodyIsAnswered) {
  const std::string body(20'000, 'x');
  EXPECT_THAT(talk(at_, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n" + body),
              StartsWith("HTTP/1.1 "));
}

// Thousands of ranges would multiply the answer, and a request without an end the server's memory.
TEST_F(HttpServerTcp, AnswersAreWholeAndRequestsBounded) {
  std::string ranges = "bytes=0-";
  while (ranges.size() < 8000) ranges += ",0-";
  const std::string answer =
      talk(at_, "GET /x HTTP/1.1\r\nHost: h\r\nRange: " + ranges + "\r\n\r\n");
  EXPECT_LT(answer.size(), 1000U);
  std::string headers = "GET /x HTTP/1.1\r\n";
  while (headers.size() < 2 * kRequestBytesMax)
    headers += "X-Y: " + std::string(1000, 'z') + "\r\n";
  EXPECT_THAT(talk(at_, headers + "\r\n"), Not(HasSubstr(" 200 ")));
  EXPECT_THAT(talk(at_, kGoodRequest), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTcp, SlowClientsAreDisconnectedAndDelayNobody) {
  std::vector<TcpClient> slow;
  for (uint32_t i = 0; i < 2 * kThreads; i++) slow.emplace_back(at_);
  for (const TcpClient& client : slow) client.send("GET /x HT");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(talk(at_, kGoodRequest), StartsWith("HTTP/1.1 200"));
  if (!testing::kIsSanitized) {
    EXPECT_LT(std::chrono::steady_clock::now() - began, kRequestWithin);
  }
  for (const TcpClient& client : slow) EXPECT_EQ(client.receive(), "");
  EXPECT_EQ(ended(ConnectionEnd::kTimedOut), 2 * kThreads);
}

TEST_F(HttpServerTcp, SlowBodiesDelayNobody) {
  std::vector<TcpClient> slow;
  for (uint32_t i = 0; i < 2 * kThreads; i++) slow.emplace_back(at_);
  for (const TcpClient& client : slow) {
    client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{");
  }
  EXPECT_THAT(talk(at_, kGoodRequest), StartsWith("HTTP/1.1 200"));
  for (const TcpClient& client : slow) client.send("}");
  for (const TcpClient& client : slow) EXPECT_THAT(client.receive(), StartsWith("HTTP/1.1 200"));
}

// More bytes than the sockets of client and server hold.
TEST_F(HttpServerTcp, ClientsThatDoNotReadDelayNobody) {
  std::vector<TcpClient> slow;
  for (uint32_t i = 0; i < 2 * kThreads; i++) slow.emplace_back(at_);
  for (const TcpClient& client : slow) client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(talk(at_, kGoodRequest), StartsWith("HTTP/1.1 200"));
  EXPECT_GT(slow.back().receive().size(), kLargeBytes);
}

// Neither answer fits into the sockets, so both wait at the server.
TEST_F(HttpServerTcp, AnswerAboveTheLimitStaysBesideASmallerOne) {
  const TcpClient huge(at_);
  huge.send("GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(huge.wait_for(POLLIN, testing::kPatienceMs));
  const TcpClient large(at_);
  large.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_TRUE(large.wait_for(POLLIN, testing::kPatienceMs));
  EXPECT_GT(huge.receive().size(), kHugeBytes);
  EXPECT_GT(large.receive().size(), kLargeBytes);
  EXPECT_EQ(ended(ConnectionEnd::kDisplaced), 0U);
}

// The newest of the largest answers is exempt. The two others exceed 64 MiB by their heads.
TEST_F(HttpServerTcp, OldestAnswerAboveTheLimitIsDisplaced) {
  static_assert(2 * kLargeBytes == kAnswersBytesMax);
  std::vector<TcpClient> clients;
  for (uint32_t i = 0; i < 3; i++) {
    clients.emplace_back(at_);
    clients.back().send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    ASSERT_TRUE(clients.back().wait_for(POLLIN, testing::kPatienceMs));
  }
  EXPECT_LT(clients[0].receive().size(), kLargeBytes);
  for (uint32_t i = 1; i < 3; i++) EXPECT_GT(clients[i].receive().size(), kLargeBytes);
  EXPECT_EQ(ended(ConnectionEnd::kDisplaced), 1U);
}

TEST_F(HttpServerTcp, ExpectedContinueComesBeforeTheBody) {
  const TcpClient client(at_);
  client.send("POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  ASSERT_TRUE(client.wait_for(POLLIN, testing::kPatienceMs));
  client.send("{}");
  const std::string answer = client.receive();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200"));
}

TEST_F(HttpServerTcp, SurvivesAThousandConnections) {
  std::vector<TcpClient> clients;
  for (uint32_t i = 0; i < 1000; i++) clients.emplace_back(at_);
  EXPECT_THAT(talk(at_, kGoodRequest), StartsWith("HTTP/1.1 200"));
}

// The oldest connections of the address with most of them go first.
TEST_F(HttpServerTcp, ManyConnectionsDisplaceThoseOfTheirOwnAddress) {
  const auto began = std::chrono::steady_clock::now();
  const Endpoint elsewhere = Endpoint::ipv4(0x7f000002, 0);
  const TcpClient other(elsewhere, at_);
  other.send("GET /x HTTP/1.1\r\n");
  std::vector<TcpClient> flood;
  for (uint32_t i = 0; i < 2 * kConnectionsMax; i++) {
    flood.emplace_back(at_);
    flood.back().send("G");
  }
  EXPECT_THAT(talk(at_, kGoodRequest), StartsWith("HTTP/1.1 200"));
  if (std::chrono::steady_clock::now() - began > kRequestWithin / 2) {
    GTEST_SKIP() << "this machine is so slow that requests time out";
  }
  EXPECT_FALSE(other.is_disconnected());
  EXPECT_TRUE(flood.front().is_disconnected());
  EXPECT_FALSE(flood.back().is_disconnected());
  other.send("Host: h\r\n\r\n");
  EXPECT_THAT(other.receive(), StartsWith("HTTP/1.1 200"));
  EXPECT_GT(ended(ConnectionEnd::kDisplaced), kConnectionsMax - 2);
}

// Clients that have their answers and stay connected go before one that is still sending.
TEST_F(HttpServerTcp, AnsweredConnectionsAreDisplacedFirst) {
  constexpr size_t kFlood = kConnectionsMax + 8;
  const auto began = std::chrono::steady_clock::now();
  const TcpClient other(Endpoint::ipv4(0x7f000002, 0), at_);
  other.send("GET /x HTTP/1.1\r\n");
  std::vector<TcpClient> flood;
  for (uint32_t i = 0; i < kFlood; i++) {
    flood.emplace_back(at_);
    flood.back().send(kGoodRequest);
    ASSERT_TRUE(flood.back().wait_for(POLLIN, testing::kPatienceMs));
  }
  if (std::chrono::steady_clock::now() - began > kRequestWithin / 2) {
    GTEST_SKIP() << "this machine is so slow that requests time out";
  }
  EXPECT_FALSE(other.is_disconnected());
  other.send("Host: h\r\n\r\n");
  EXPECT_THAT(other.receive(), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(flood.front().receive(), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(ended(ConnectionEnd::kAnswered), kFlood + 1);
  EXPECT_EQ(ended(ConnectionEnd::kDisplaced), 0U);
}

TEST_F(HttpServerTcp, EndsWhileClientsAreConnected) {
  std::vector<TcpClient> clients;
  for (uint32_t i = 0; i < 100; i++) clients.emplace_back(at_);
  server_.reset();
  for (const TcpClient& client : clients) EXPECT_EQ(client.receive(), "");
}

/// Lets a caller wait while this process has no free descriptor. Ends the process: 0 if the caller
/// got its answer as soon as descriptors were free.
[[noreturn]] void serve_without_descriptors() {
  Endpoint at;
  std::unique_ptr<HttpServer> server;
  for (uint32_t attempt = 0; attempt < 5 && server == nullptr; attempt++) {
    at = testing::free_tcp_address();
    auto started = HttpServer::start(at, echo);
    if (started) server = *std::move(started);
  }
  if (server == nullptr) _exit(1);
  TcpClient client;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<io::FileDescriptor> all;
  while (all.empty() || all.back().is_open()) all.emplace_back(dup(STDIN_FILENO));
  client.connect(at);
  client.send(kGoodRequest);
  if (client.wait_for(POLLIN, /*timeout_ms=*/200)) _exit(2);  // Nobody could accept it.
  all.clear();
  const bool is_answered = client.receive().starts_with("HTTP/1.1 200") &&
                           talk(at, kGoodRequest).starts_with("HTTP/1.1 200");
  _exit(is_answered ? 0 : 3);
}

TEST(HttpServerDescriptors, CallersWaitUntilADescriptorIsFree) {
  if (testing::kIsSanitized) GTEST_SKIP() << "UBSan's check of types needs descriptors, too";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // A process without threads of other tests.
  EXPECT_EXIT(serve_without_descriptors(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tributary::control
