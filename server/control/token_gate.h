// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decides which requests over TCP reach the API.
///
/// Model:   With tokens every URL needs one: in the header Authorization, or to read in a cookie. A
///          browser gets the cookie from URL?token=TOKEN. The cookie does not contain the token.
///          Commands need the header, which no web page of another host can send. Without tokens
///          only loopback addresses may read, and only if the browser asked for one by its name: a
///          page of another host cannot read them (DNS rebinding).
/// Bounds:  Tokens are compared by their hashes, in a time that does not depend on them. Of a
///          request's cookies, at most kCookiesMax of this server are looked at.
/// Threads: Any.
/// Tests:   tests/server/control/token_gate_test.cc
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/control/http_server.h"
#include "server/control/tokens.h"

namespace tributary::control {

/// The result of checking a request over TCP.
enum class GateResult : uint8_t {
  kPassed,
  kLogin,
  kNoToken,
  kWrongToken,
  kMethod,  ///< A command to a server without tokens.
  kHost,
  kExpired,
  kReadOnly,  ///< A command with a token that may only read.
};
inline constexpr uint32_t kGateResultCount = 8;
[[nodiscard]] const char* to_string(GateResult result);

/// Requests by result, in the order of GateResult.
using GateCounters = std::array<uint64_t, kGateResultCount>;

class TokenGate {
 public:
  /// Cookies of this server that a request may have. Assumed: a browser has one, because all have
  /// one path.
  static constexpr size_t kCookiesMax = 4;

  /// Returns the tokens that are valid at present. Any thread calls it.
  using TokenSource = std::function<std::shared_ptr<const Tokens>()>;

  /// @param tokens Empty: every caller may read, and nobody may write.
  /// @param port   Port of the server. Cookies of two servers on one host have different names.
  /// @param clock  Clock for the tokens' last days.
  TokenGate(TokenSource tokens, uint16_t port,
            std::function<std::chrono::sys_seconds()> clock = wall_clock)
      : tokens_(std::move(tokens)), port_(port), clock_(std::move(clock)) {}

  /// Answers the request with `handler` if it may pass. Otherwise answers 401, 403, 405 or 421
  /// with one sentence, or redirects a browser that logs in.
  [[nodiscard]] Reply handle(const Request& request, const HttpServer::Handler& handler);

  [[nodiscard]] GateCounters counters() const;

 private:
  /// The result for a request, and its token; null: none.
  struct Verdict {
    GateResult result;
    const Token* token = nullptr;
  };
  [[nodiscard]] static std::chrono::sys_seconds wall_clock();
  [[nodiscard]] Verdict judge(const Request& request, const Tokens& tokens) const;
  /// Judges the token that a header or URL names.
  [[nodiscard]] Verdict judge_token(const Tokens& tokens, const std::string& token) const;
  /// Returns the token whose cookie the request carries; null for none.
  [[nodiscard]] const Token* token_of_cookie(const Request& request, const Tokens& tokens) const;
  /// Returns the beginning of each cookie of this server, with "=".
  [[nodiscard]] std::string cookie_name() const;
  [[nodiscard]] std::string cookie_of(const Token& token) const;
  [[nodiscard]] Reply login_reply(const Request& request, const Token& token) const;

  const TokenSource tokens_;
  const uint16_t port_;
  const std::function<std::chrono::sys_seconds()> clock_;
  /// Relaxed: statistics, which order nothing else.
  std::array<std::atomic<uint64_t>, kGateResultCount> counters_{};
};

/// Reads the address that --http names: a port of 127.0.0.1, or ADDRESS:PORT.
[[nodiscard]] Result<Endpoint> parse_http_address(const std::string& text);

}  // namespace tributary::control
