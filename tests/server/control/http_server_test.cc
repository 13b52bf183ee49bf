// SPDX-License-Identifier: Apache-2.0
// Method: a server on a socket in a scratch directory: good requests, garbage, clients that send
//         nothing, and 1,000 connections at once.
#include "server/control/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/file_descriptor.h"
#include "server/control/http_client.h"
#include "server/control/listener.h"
#include "server/socket_place.h"
#include "tests/support/sanitized.h"
#include "tests/support/scratch_directory.h"

namespace tributary::control {
namespace {

using server::process_at;
using server::socket_path;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Longest time until a thread notices that it must end.
constexpr int kLookAgainMs = 10;

Reply echo(const Request& request) {
  if (request.path == "/broken") throw std::runtime_error("handler failed");
  if (request.path == "/refused") return error_reply(404, "no such thing");
  nlohmann::json body{{"method", request.method}, {"path", request.path}};
  if (!request.query.empty()) body["query"] = request.query;
  if (!request.body.empty()) body["body"] = request.body;
  return {.body = body.dump()};
}

class HttpServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<HttpServer> start() {
    auto server = HttpServer::start(path_, echo);
    if (server) return *std::move(server);
    ADD_FAILURE() << server.error().text;
    return nullptr;
  }
  /// @return a descriptor that is not open if the server's queue of callers is full.
  [[nodiscard]] io::FileDescriptor connected() const {
    io::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int result =
        connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    return result == 0 ? std::move(socket) : io::FileDescriptor();
  }
  /// Sends bytes and returns everything that the server sends until it disconnects.
  [[nodiscard]] std::string talk(const std::string& bytes) const {
    const io::FileDescriptor socket = connected();
    send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::string answer;
    std::array<char, 4096> buffer;
    pollfd file{socket.get(), POLLIN, 0};
    while (poll(&file, 1, /*timeout=*/20'000) == 1) {
      const ssize_t size = recv(socket.get(), buffer.data(), buffer.size(), 0);
      if (size <= 0) return answer;
      answer.append(buffer.data(), static_cast<size_t>(size));
    }
    ADD_FAILURE() << "the server does not disconnect";
    return answer;
  }

  testing::ScratchDirectory scratch_;
  const std::string path_ = socket_path(scratch_.path(), "box");
};

TEST_F(HttpServerTest, AnswersAndRemovesItsSocket) {
  {
    const auto server = start();
    ASSERT_NE(server, nullptr);
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    const auto answer = get(path_, "/v1/x");
    ASSERT_TRUE(answer.has_value()) << answer.error().text;
    EXPECT_EQ(*answer, (nlohmann::json{{"method", "GET"}, {"path", "/v1/x"}}));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THAT(
      get(path_, "/v1/x").error().text,
      HasSubstr("the server does not answer (no connection); to fix: check that its process "
                "runs and is not stopped"));
}

TEST_F(HttpServerTest, ClientNamesTheProcessThatDoesNotAnswer) {
  const io::FileDescriptor listener = *listen_on_path(path_);
  EXPECT_EQ(process_at(path_), getpid());
  // Reads a request and ends the connection.
  const std::jthread server([&listener](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd ready{listener.get(), POLLIN, 0};
      if (poll(&ready, 1, kLookAgainMs) != 1) continue;
      const io::FileDescriptor client(accept(listener.get(), nullptr, nullptr));
      std::array<char, 4096> bytes;
      static_cast<void>(recv(client.get(), bytes.data(), bytes.size(), 0));
    }
  });
  const std::string error = get(path_, "/v1/x").error().text;
  EXPECT_THAT(error, HasSubstr(fmt::format(
                         "(the server closed the connection); to fix: check that its process "
                         "(pid {}) runs",
                         getpid())));
  EXPECT_EQ(process_at(path_ + "x"), 0);
}

TEST_F(HttpServerTest, ClientNamesAHostWithoutAnAddress) {
  EXPECT_THAT(get(std::string("http://no-such-host.invalid:80"), "/v1/x").error().text,
              HasSubstr("cannot find the address of 'no-such-host.invalid'"));
}

TEST_F(HttpServerTest, ReportsTheServersErrors) {
  const auto server = start();
  EXPECT_EQ(get(path_, "/refused").error().text, "no such thing");
  EXPECT_EQ(get(path_, "/broken").error().text, "handler failed");
}

TEST_F(HttpServerTest, PassesQueryAndBodyOn) {
  const auto server = start();
  EXPECT_EQ(*ask(path_, "DELETE", "/v1/x?force=true"),
            (nlohmann::json{{"method", "DELETE"}, {"path", "/v1/x"}, {"query", "force=true"}}));
  const nlohmann::json body{{"id", 3}};
  for (const char* method : {"POST", "PUT", "PATCH"}) {
    EXPECT_EQ(*ask(path_, method, "/y", body),
              (nlohmann::json{{"method", method}, {"path", "/y"}, {"body", body.dump()}}));
  }
  EXPECT_EQ(ask(path_, "POST", "/refused", body).error().text, "no such thing");
}

TEST_F(HttpServerTest, RequestWithoutABodyIsAnsweredAtOnce) {
  const auto server = start();
  for (const char* method : {"POST", "PATCH", "DELETE", "PUT", "OPTIONS"}) {
    // The connection stays open, and no length says that nothing follows.
    const std::string answer = talk(std::string(method) + " /x HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << method;
  }
}

TEST_F(HttpServerTest, BodiesThatAreLargeCompressedOrWithoutLengthAreRefused) {
  const auto server = start();
  const auto post = [this](const std::string& headers, const std::string& body = "") {
    return talk("POST /x HTTP/1.1\r\n" + headers + "\r\n" + body);
  };
  const auto length = [](size_t bytes) { return fmt::format("Content-Length: {}\r\n", bytes); };
  EXPECT_THAT(post(length(kBodyBytesMax), std::string(kBodyBytesMax, 'x')),
              StartsWith("HTTP/1.1 200"));
  const std::string large = post(length(kBodyBytesMax + 1));
  EXPECT_THAT(large, StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(large, HasSubstr("{\"error\":\"the body has 8193 bytes; allowed: at most 8192\"}"));
  EXPECT_THAT(post("Content-Length: -1\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(post("Content-Length: -1\r\n"),
              HasSubstr("Content-Length: -1 is not a whole number"));
  EXPECT_THAT(post("Content-Length: 1\r\nContent-Encoding: gzip\r\n", "x"),
              StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(post("Content-Length: 1\r\nContent-Type: multipart/form-data; boundary=a\r\n", "x"),
              StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(post("Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 411"));
  for (const char* method : {"POST", "GET"}) {
    EXPECT_THAT(talk(method + (" /" + std::string(kTargetBytesMax, 'x')) + " HTTP/1.1\r\n\r\n"),
                StartsWith("HTTP/1.1 414"));
  }
  EXPECT_TRUE(get(path_, "/").has_value());
}

TEST_F(HttpServerTest, GarbageGetsOneAnswer) {
  const auto server = start();
  for (const std::string& bytes :
       {std::string("garbage\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("BREW / HTTP/1.1\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n")}) {
    const std::string answer = talk(bytes);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 4")) << bytes;
    EXPECT_THAT(answer, HasSubstr("{\"error\":")) << bytes;
  }
  EXPECT_TRUE(get(path_, "/").has_value());
}

TEST_F(HttpServerTest, ClientsThatSendNothingAreDisconnected) {
  const auto server = start();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(talk("GET / HT"), "");
  EXPECT_GE(std::chrono::steady_clock::now() - began, kRequestWithin);
}

TEST_F(HttpServerTest, SlowClientsLeaveThreadsToOthersAndDoNotDelayTheEnd) {
  auto server = start();
  std::vector<io::FileDescriptor> slow;
  for (uint32_t i = 0; i < 2 * kThreads; i++) slow.push_back(connected());
  EXPECT_TRUE(get(path_, "/").has_value());
  const auto began = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began,
            kRequestWithin * (testing::kIsSanitized ? 10 : 1));
}

TEST_F(HttpServerTest, SurvivesAThousandConnections) {
  const auto server = start();
  std::vector<io::FileDescriptor> sockets;
  for (uint32_t i = 0; i < 1000; i++) sockets.push_back(connected());
  EXPECT_TRUE(get(path_, "/").has_value());
  sockets.clear();
  EXPECT_TRUE(get(path_, "/").has_value());
}

TEST_F(HttpServerTest, SecondServerIsRefusedAndTheFirstGoesOn) {
  const auto first = start();
  const auto second = HttpServer::start(path_, echo);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().text, HasSubstr("another server has it"));
  EXPECT_TRUE(get(path_, "/").has_value());
}

TEST_F(HttpServerTest, AProcessWithoutFreeDescriptorsIsToldSo) {
  if (testing::kIsSanitized) GTEST_SKIP() << "UBSan opens descriptors of its own";
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);  // The lowest free one.
  close(next);
  uint32_t refused = 0;
  for (int free = 0; free < 8; free++) {
    const rlimit few{static_cast<rlim_t>(next + free), limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto server = HttpServer::start(path_, echo);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (server.has_value()) continue;
    refused++;
    EXPECT_THAT(server.error().text, HasSubstr("Too many open files"));
  }
  EXPECT_GE(refused, 3U);  // The lock, the socket and the thread's descriptor.
}

TEST_F(HttpServerTest, PathThatIsTooLongIsRefused) {
  const auto server = HttpServer::start(scratch_.path() / std::string(120, 'x'), echo);
  ASSERT_FALSE(server.has_value());
  EXPECT_THAT(server.error().text, HasSubstr("more than 107 characters"));
}

}  // namespace
}  // namespace tributary::control
