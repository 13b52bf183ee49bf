// SPDX-License-Identifier: Apache-2.0
// Method: a hostile server on a loopback port that sends any bytes, in parts, without an end, or
//         one by one. The client ends with one line.
#include "server/control/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "io/file_descriptor.h"
#include "server/control/answer_json.h"
#include "server/control/answer_stream.h"
#include "server/control/listener.h"
#include "tests/server/control/tcp_client.h"
#include "tests/support/sanitized.h"

namespace tributary::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kLookAgainMs = 10;
const std::string kGoodHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

/// Reads a request and sends `first`, then `more` at each `pause` until the client disconnects; an
/// empty `more` ends the connection.
class HostileServer {
 public:
  HostileServer(std::string first, std::string more, std::chrono::milliseconds pause = {}) {
    for (uint32_t attempt = 0; attempt < 5 && !listener_.is_open(); attempt++) {
      at_ = testing::free_tcp_address();
      if (auto listener = listen_on_port(at_)) listener_ = *std::move(listener);
    }
    EXPECT_TRUE(listener_.is_open());
    thread_ = std::jthread([this, first = std::move(first), more = std::move(more),
                            pause](const std::stop_token& stop) {
      while (!stop.stop_requested()) serve(stop, first, more, pause);
    });
  }
  [[nodiscard]] ServerAddress address() const { return {"http://" + at_.to_string()}; }
  [[nodiscard]] uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  void serve(const std::stop_token& stop, const std::string& first, const std::string& more,
             std::chrono::milliseconds pause) {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (poll(&ready, 1, kLookAgainMs) != 1) return;
    const io::FileDescriptor client(accept(listener_.get(), nullptr, nullptr));
    std::array<char, 4096> request;
    if (recv(client.get(), request.data(), request.size(), 0) <= 0) return;
    if (!send_all(client.get(), first, stop)) return;
    while (!more.empty() && !stop.stop_requested() && send_all(client.get(), more, stop)) {
      pollfd closed{client.get(), POLLIN, 0};
      poll(&closed, 1, static_cast<int>(pause.count()));
    }
  }
  bool send_all(int client, const std::string& bytes, const std::stop_token& stop) {
    for (size_t at = 0; at < bytes.size() && !stop.stop_requested();) {
      pollfd ready{client, POLLOUT, 0};
      if (poll(&ready, 1, kLookAgainMs) != 1) continue;
      const ssize_t sent =
          ::send(client, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
      sent_bytes_ += static_cast<uint64_t>(sent);
    }
    return true;
  }

  Endpoint at_;
  io::FileDescriptor listener_;
  std::atomic<uint64_t> sent_bytes_ = 0;
  std::jthread thread_;
};

std::string error_of(const HostileServer& server) {
  const auto answer = get(server.address(), "/v1/x");
  return answer ? "no error" : answer.error().text;
}

std::string with_length(const std::string& body) {
  return fmt::format("{}Content-Length: {}\r\n\r\n{}", kGoodHead, body.size(), body);
}

TEST(HttpClient, ReadsAnswersOfAllForms) {
  for (const std::string& answer :
       {with_length("{\"a\":1}"), kGoodHead + "\r\n{\"a\":1}",
        kGoodHead + "Transfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n" + with_length("{\"a\":1}")}) {
    const HostileServer server(answer, "");
    const auto read = get(server.address(), "/v1/x");
    ASSERT_TRUE(read.has_value()) << read.error().text << answer;
    EXPECT_EQ(*read, (nlohmann::json{{"a", 1}}));
  }
}

TEST(HttpClient, HeadsAreBounded) {
  const std::string too_long = "the answer to /v1/x has a head of more than 16384 bytes";
  for (const std::string& more : {std::string("X-A: b\r\n"), std::string(1000, 'x'),
                                  std::string("HTTP/1.1 100 Continue\r\n\r\n")}) {
    const HostileServer server(more.starts_with("HTTP") ? "" : kGoodHead, more);
    EXPECT_THAT(error_of(server), HasSubstr(too_long)) << more;
  }
  const HostileServer status("HTTP/1.1 200 ", std::string(1000, 'x'));
  EXPECT_THAT(error_of(status), HasSubstr(too_long));
  const HostileServer chunk(kGoodHead + "Transfer-Encoding: chunked\r\n\r\n", "1111");
  EXPECT_THAT(error_of(chunk), HasSubstr(too_long));
}

TEST(HttpClient, BodiesAreBounded) {
  const std::string more(size_t{1} << 20, 'x');
  for (const std::string& head :
       {kGoodHead + "\r\n{", kGoodHead + "Content-Length: 9999999999999\r\n\r\n"}) {
    const HostileServer server(head, more);
    EXPECT_THAT(error_of(server),
                HasSubstr(fmt::format("has more than {} bytes; to fix: check that a tributary "
                                      "server listens there",
                                      kAnswerBytesMax)));
    EXPECT_LT(server.sent_bytes(), 2 * kAnswerBytesMax);
  }
}

TEST(HttpClient, SlowAnswersEndInTime) {
  using std::chrono::milliseconds;
  for (const std::string& head : {kGoodHead, kGoodHead + "Content-Length: 100000\r\n\r\n"}) {
    const HostileServer server(head, " ", milliseconds(200));
    const auto began = std::chrono::steady_clock::now();
    EXPECT_THAT(error_of(server), HasSubstr("does not answer (waited 5 s)"));
    EXPECT_LT(std::chrono::steady_clock::now() - began,
              kAnswerWithin * (testing::kIsSanitized ? 10 : 3));
  }
}

TEST(HttpClient, DeepAnswersAreRefused) {
  const auto body = [](size_t depth) {
    return "{\"rows\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  const HostileServer deep(with_length(body(3'000'000)), "");
  EXPECT_THAT(error_of(deep), AllOf(StartsWith(deep.address().place),
                                    HasSubstr("the answer to /v1/x has more than 64 levels")));
  EXPECT_FALSE(read_answer_json(body(64)).has_value());
  EXPECT_TRUE(read_answer_json(body(63)).has_value());
  EXPECT_EQ(read_answer_json("{").error().text, "is not JSON");
  const HostileServer list(with_length("[1]"), "");
  EXPECT_THAT(error_of(list), HasSubstr("the answer to /v1/x is no JSON object"));
}

TEST(HttpClient, EndsWithAServerThatDisconnects) {
  for (const std::string& answer : {std::string("garbage"), std::string("HTTP/1.1 2"),
                                    kGoodHead + "Content-Length: 9\r\n\r\n{"}) {
    const HostileServer server(answer, "");
    EXPECT_THAT(error_of(server), HasSubstr("does not answer (the server closed the connection)"));
  }
}

}  // namespace
}  // namespace tributary::control
