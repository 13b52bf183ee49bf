// SPDX-License-Identifier: Apache-2.0
// Method: requests made by hand, with and without the token; each answer and its counter.
#include "server/control/token_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auth/secret.h"

namespace tributary::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kToken = "correct horse battery";

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
  TokenGate gate_{*auth::key_of_secret(kToken), 8080};
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
  EXPECT_THAT(gate_.counters(), ElementsAre(3, 0, 0, 0, 0, 0));
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
  EXPECT_THAT(gate_.counters(), ElementsAre(3, 4, 0, 0, 0, 0));
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
    EXPECT_THAT(reply.body, HasSubstr("this server asks for its token"));
  }
  // Another server's cookie is of no use, even with the same token.
  TokenGate other(*auth::key_of_secret(kToken), 8081);
  EXPECT_EQ(other.handle({.method = "GET", .path = "/", .cookie = cookie}, page).status, 401);
}

TEST_F(TokenGateTest, BrowsersGetAForm) {
  const Reply reply = handle({.method = "GET", .path = "/", .accept = "text/html,*/*"});
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.type, "text/html; charset=utf-8");
  EXPECT_THAT(reply.body, HasSubstr("name=\"token\""));
}

TEST_F(TokenGateTest, OnlyReads) {
  const std::string good = std::string("Bearer ") + kToken;
  EXPECT_EQ(handle({.method = "HEAD", .path = "/", .authorization = good}).status, 200);
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const Reply reply = handle({.method = method, .path = "/v1/jobs", .authorization = good});
    EXPECT_EQ(reply.status, 405) << method;
    EXPECT_EQ(header_of(reply, "Allow"), "GET, HEAD");
    EXPECT_THAT(reply.body, HasSubstr("over TCP this API only reads"));
  }
  EXPECT_EQ(handle({.method = "POST", .path = "/", .token = kToken}).status, 405);
}

TEST(OpenGate, WithoutATokenOnlyLoopbackHostsAreServed) {
  TokenGate gate(std::nullopt, 8080);
  const auto status_for = [&gate](const std::string& host) {
    return gate.handle({.method = "GET", .path = "/", .host = host}, page).status;
  };
  for (const char* host : {"localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]",
                           "[::1]:8080", "127.1.2.3:1"}) {
    EXPECT_EQ(status_for(host), 200) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
        "10.0.0.1:8080", "[::2]:8080", "[", ":", "]"}) {
    EXPECT_EQ(status_for(host), 421) << host;
  }
  EXPECT_EQ(gate.handle({.method = "POST", .path = "/", .host = "localhost"}, page).status, 405);
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
