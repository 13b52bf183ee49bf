// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decides which requests over TCP reach the API: readers with the token only.
///
/// Model:   With a token every URL needs it: in the header Authorization, or in a cookie. A browser
///          gets the cookie from URL?token=TOKEN. The cookie does not contain the token.
///          Without a token only loopback addresses are served, and only if the browser asked for
///          one by its name: a page of another host cannot read them (DNS rebinding).
/// Bounds:  Tokens are compared by their hashes, in a time that does not depend on them.
/// Threads: Any.
/// Tests:   tests/server/control/token_gate_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "auth/keys.h"
#include "server/control/http_server.h"

namespace tributary::control {

/// What became of a request over TCP.
enum class GateResult : uint8_t { kPassed, kLogin, kNoToken, kWrongToken, kMethod, kHost };
inline constexpr uint32_t kGateResultCount = 6;
[[nodiscard]] const char* to_string(GateResult result);

/// Requests by result, in the order of GateResult.
using GateCounters = std::array<uint64_t, kGateResultCount>;

class TokenGate {
 public:
  /// @param token_key auth::key_of_secret() of the token; none: every caller may read.
  /// @param port      Of the server. Cookies of two servers on one host have different names.
  TokenGate(std::optional<auth::Key256> token_key, uint16_t port);

  /// Answers the request with `handler` if it may pass. Otherwise answers 401, 405 or 421 with one
  /// sentence, or redirects a browser that logs in.
  [[nodiscard]] Reply handle(const Request& request, const HttpServer::Handler& handler);

  [[nodiscard]] GateCounters counters() const;

 private:
  [[nodiscard]] GateResult judge(const Request& request) const;
  [[nodiscard]] bool has_cookie(const Request& request) const;
  [[nodiscard]] bool is_token(const std::string& token) const;
  [[nodiscard]] Reply login_reply(const Request& request) const;

  const std::optional<auth::Key256> token_key_;
  const std::string cookie_;  ///< "NAME=VALUE".
  /// Relaxed: statistics, which order nothing else.
  std::array<std::atomic<uint64_t>, kGateResultCount> counters_{};
};

/// Reads the address that --http names: a port of 127.0.0.1, or ADDRESS:PORT.
[[nodiscard]] Result<Endpoint> parse_http_address(const std::string& text);

}  // namespace tributary::control
