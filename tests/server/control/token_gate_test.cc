// SPDX-License-Identifier: Apache-2.0
// Method: requests made by hand, with each kind of token and without one, at chosen times; each
// answer and its counter.
#include "server/control/token_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kToken = "correct-horse-battery";
constexpr const char* kWriter = "writer-0123456789abcdef";
constexpr const char* kShort = "short-lived-0123456789";
constexpr std::chrono::sys_seconds kNoon =
    std::chrono::sys_days(std::chrono::year(2027) / 1 / 31) + std::chrono::hours(12);

/// kToken reads, kWriter writes until the end of the day, and kShort reads until noon.
std::shared_ptr<const Tokens> three_tokens() {
  return std::make_shared<const Tokens>(
      *parse_tokens("correct-horse-battery\nwriter-0123456789abcdef write 2027-01-31\n"
                    "short-lived-0123456789 read 2027-01-31T12:00:00Z\n"));
}

std::string bearer(const std::string& token) { return "Bearer " + token; }

Reply page(const Request&) { return {.body = "page"}; }

std::string header_of(const Reply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.headers) {
    if (key == name) return value;
  }
  return {};
}

class TokenGateTest : public ::testing::Test {
 protected:
  Reply handle(const Request& request) { return gate_.handle(request, page); }
  /// Logs in and returns the cookie.
  std::string log_in() {
    const std::string cookie =
        header_of(handle({.method = "GET", .path = "/", .token = kToken}), "Set-Cookie");
    return cookie.substr(0, cookie.find(';'));
  }
  std::chrono::sys_seconds now_ = kNoon - std::chrono::hours(1);
  TokenGate gate_{three_tokens, 8080, [this] { return now_; }};
};

TEST_F(TokenGateTest, HeaderOpens) {
  for (const std::string scheme : {"Bearer ", "bearer ", "BEARER "}) {
    const Reply reply = handle({.method = "GET", .path = "/", .authorization = scheme + kToken});
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "page");
    EXPECT_EQ(header_of(reply, "Cache-Control"), "no-store");
    EXPECT_EQ(header_of(reply, "X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(header_of(reply, "Referrer-Policy"), "no-referrer");
  }
  EXPECT_THAT(gate_.counters(), ElementsAre(3, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(TokenGateTest, LoginSetsACookieWithoutTheTokenAndRedirects) {
  const Reply reply = handle({.method = "GET", .path = "/jobs/1", .token = kToken});
  EXPECT_EQ(reply.status, 303);
  EXPECT_EQ(header_of(reply, "Location"), "/jobs/1");
  const std::string cookie = header_of(reply, "Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("tributary_8080="));
  EXPECT_THAT(cookie, HasSubstr("; HttpOnly"));
  EXPECT_THAT(cookie, HasSubstr("; SameSite=Lax"));
  EXPECT_THAT(cookie, Not(HasSubstr("horse")));
  for (const std::string& sent : {log_in(), "a=b; " + log_in(), log_in() + ";c=d"}) {
    EXPECT_EQ(handle({.method = "GET", .path = "/", .cookie = sent}).status, 200) << sent;
  }
  EXPECT_THAT(gate_.counters(), ElementsAre(3, 4, 0, 0, 0, 0, 0, 0));
}

TEST_F(TokenGateTest, LooksAtFewCookiesOfItsName) {
  const std::string cookie = log_in();
  const auto status_with = [&](const std::string& before, size_t count) {
    std::string sent;
    for (size_t i = 0; i < count; i++) sent += before;
    return handle({.method = "GET", .path = "/", .cookie = sent + cookie}).status;
  };
  EXPECT_EQ(status_with("other=1; ", 100), 200);
  EXPECT_EQ(status_with(";", 8000), 200);
  EXPECT_EQ(status_with("tributary_8080=0; ", TokenGate::kCookiesMax - 1), 200);
  EXPECT_EQ(status_with("tributary_8080=0; ", TokenGate::kCookiesMax), 401);
}

TEST_F(TokenGateTest, RedirectsStayOnThisServer) {
  for (const char* path : {"//evil.example/", "/\r\nSet-Cookie: a=b", "/a?b", "x", "/\xc3\xa4"}) {
    const Reply reply = handle({.method = "GET", .path = path, .token = kToken});
    EXPECT_EQ(header_of(reply, "Location"), "/") << path;
  }
}

TEST_F(TokenGateTest, WrongTokensGetOneSentence) {
  const std::string wrong = std::string(kToken) + "x";
  EXPECT_THAT(handle({.method = "GET", .path = "/", .authorization = "Bearer " + wrong}).body,
              HasSubstr("the token is wrong"));
  EXPECT_EQ(handle({.method = "GET", .path = "/", .token = wrong}).status, 401);
  EXPECT_EQ(handle({.method = "GET", .path = "/", .token = ""}).status, 401);
  // A wrong token wins over a good cookie, so that a typing error is noticed.
  const Reply both = handle({.method = "GET", .path = "/", .cookie = log_in(), .token = wrong});
  EXPECT_EQ(both.status, 401);
  EXPECT_EQ(header_of(both, "WWW-Authenticate"), "Bearer realm=\"tributary\"");
  EXPECT_EQ(gate_.counters()[static_cast<uint32_t>(GateResult::kWrongToken)], 4U);
}

TEST_F(TokenGateTest, NothingWithoutAToken) {
  const std::string cookie = log_in();
  for (const Request& request :
       {Request{.method = "GET", .path = "/"}, Request{.method = "GET", .path = "/healthz"},
        Request{.method = "POST", .path = "/v1/jobs"},
        Request{.method = "GET", .path = "/", .authorization = "Basic abc"},
        Request{.method = "GET", .path = "/", .cookie = cookie.substr(0, cookie.size() - 1)},
        Request{.method = "GET", .path = "/", .cookie = ";;;= ;"}}) {
    const Reply reply = handle(request);
    EXPECT_EQ(reply.status, 401);
    EXPECT_THAT(reply.body, HasSubstr("token"));
    EXPECT_THAT(reply.body, HasSubstr("Authorization: Bearer TOKEN"));
  }
  // Another server's cookie is of no use, even with the same token.
  TokenGate other(three_tokens, 8081);
  EXPECT_EQ(other.handle({.method = "GET", .path = "/", .cookie = cookie}, page).status, 401);
}

TEST_F(TokenGateTest, BrowsersGetAForm) {
  const Reply reply = handle({.method = "GET", .path = "/", .accept = "text/html,*/*"});
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.type, "text/html; charset=utf-8");
  EXPECT_THAT(reply.body, HasSubstr("name=\"token\""));
}

TEST_F(TokenGateTest, CommandsNeedATokenThatMayWrite) {
  EXPECT_EQ(handle({.method = "HEAD", .path = "/", .authorization = bearer(kToken)}).status, 200);
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const Reply read =
        handle({.method = method, .path = "/v1/jobs", .authorization = bearer(kToken)});
    EXPECT_EQ(read.status, 403) << method;
    EXPECT_THAT(read.body, HasSubstr("this token may only read"));
    const Reply written =
        handle({.method = method, .path = "/v1/jobs", .authorization = bearer(kWriter)});
    EXPECT_EQ(written.body, "page") << method;
  }
  EXPECT_EQ(handle({.method = "GET", .path = "/", .authorization = bearer(kWriter)}).status, 200);
  EXPECT_EQ(gate_.counters()[static_cast<uint32_t>(GateResult::kReadOnly)], 5U);
}

// A page of another host can make a browser send these, but never the header.
TEST_F(TokenGateTest, CommandsTakeNeitherCookieNorUrl) {
  const Reply login = handle({.method = "GET", .path = "/", .token = kWriter});
  const std::string set = header_of(login, "Set-Cookie");
  const std::string cookie = set.substr(0, set.find(';'));
  EXPECT_EQ(handle({.method = "GET", .path = "/", .cookie = cookie}).status, 200);
  for (const Request& request :
       {Request{.method = "POST", .path = "/v1/jobs", .cookie = cookie},
        Request{.method = "DELETE", .path = "/v1/jobs/1", .cookie = cookie},
        Request{.method = "POST", .path = "/v1/jobs", .token = kWriter}}) {
    const Reply reply = handle(request);
    EXPECT_EQ(reply.status, 401);
    EXPECT_THAT(reply.body, HasSubstr("a command needs its token in the header Authorization"));
  }
  // With the header the cookie has no effect.
  EXPECT_EQ(
      handle(
          {.method = "POST", .path = "/v1/jobs", .authorization = bearer(kToken), .cookie = cookie})
          .status,
      403);
}

TEST_F(TokenGateTest, ExpiredTokensGetTheirOwnSentence) {
  const Reply login = handle({.method = "GET", .path = "/", .token = kShort});
  EXPECT_EQ(login.status, 303);
  const std::string set = header_of(login, "Set-Cookie");
  const std::string cookie = set.substr(0, set.find(';'));
  now_ = kNoon - std::chrono::seconds(1);
  EXPECT_EQ(handle({.method = "GET", .path = "/", .cookie = cookie}).status, 200);
  now_ = kNoon;
  for (const Request& request :
       {Request{.method = "GET", .path = "/", .authorization = bearer(kShort)},
        Request{.method = "POST", .path = "/", .authorization = bearer(kShort)},
        Request{.method = "GET", .path = "/", .cookie = cookie},
        Request{.method = "GET", .path = "/", .token = kShort}}) {
    const Reply reply = handle(request);
    EXPECT_EQ(reply.status, 401);
    EXPECT_THAT(reply.body, HasSubstr("the token has expired"));
    EXPECT_EQ(header_of(reply, "WWW-Authenticate"), "Bearer realm=\"tributary\"");
  }
  EXPECT_EQ(gate_.counters()[static_cast<uint32_t>(GateResult::kExpired)], 4U);
  // A last day ends with the day.
  const Request write{.method = "POST", .path = "/", .authorization = bearer(kWriter)};
  now_ = kNoon + std::chrono::hours(12) - std::chrono::seconds(1);
  EXPECT_EQ(handle(write).status, 200);
  now_ = kNoon + std::chrono::hours(12);
  EXPECT_EQ(handle(write).status, 401);
}

TEST_F(TokenGateTest, ACookieEndsWithItsToken) {
  std::shared_ptr<const Tokens> tokens = three_tokens();
  TokenGate gate([&tokens] { return tokens; }, 8080);
  const std::string cookie = log_in();
  const Request request{.method = "GET", .path = "/", .cookie = cookie};
  EXPECT_EQ(gate.handle(request, page).status, 200);
  tokens = std::make_shared<const Tokens>(*parse_tokens("another-0123456789abcdef"));
  EXPECT_EQ(gate.handle(request, page).status, 401);
}

TEST(OpenGate, WithoutATokenOnlyLoopbackHostsAreServed) {
  TokenGate gate({}, 8080);
  const auto status_for = [&gate](const std::string& host) {
    return gate.handle({.method = "GET", .path = "/", .host = host}, page).status;
  };
  for (const char* host : {"localhost", "localhost:8080", "LocalHost:8080", "127.0.0.1",
                           "127.0.0.1:8080", "[::1]", "[::1]:8080", "127.1.2.3:1"}) {
    EXPECT_EQ(status_for(host), 200) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
        "10.0.0.1:8080", "[::2]:8080", "[", ":", "]"}) {
    EXPECT_EQ(status_for(host), 421) << host;
  }
  const Reply command = gate.handle({.method = "POST", .path = "/", .host = "localhost"}, page);
  EXPECT_EQ(command.status, 405);
  EXPECT_EQ(header_of(command, "Allow"), "GET, HEAD");
  EXPECT_THAT(command.body, HasSubstr("takes commands only with a token"));
}

TEST(HttpAddress, IsAPortOrAnAddress) {
  EXPECT_EQ(parse_http_address("8080")->to_string(), "127.0.0.1:8080");
  EXPECT_EQ(parse_http_address("0.0.0.0:80")->to_string(), "0.0.0.0:80");
  EXPECT_EQ(parse_http_address("[::1]:80")->to_string(), "[::1]:80");
  for (const char* text : {"", "0", "65536", "1.2.3.4", "1.2.3.4:x", "99999999999999999999"}) {
    const auto address = parse_http_address(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_THAT(address.error().text, HasSubstr("allowed: a port of 127.0.0.1, or ADDRESS:PORT"));
  }
}

}  // namespace
}  // namespace tributary::control
