// SPDX-License-Identifier: Apache-2.0
#include "server/control/token_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "auth/keys.h"
#include "io/udp/resolve.h"
#include "io/udp/socket_address.h"

namespace tributary::control {
namespace {

constexpr std::string_view kScheme = "bearer ";

char to_lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// Returns the token of "Bearer TOKEN"; nothing if the header is absent or has another scheme.
std::optional<std::string> bearer_token(const std::string& authorization) {
  if (authorization.size() < kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                  [](char expected, char given) { return expected == to_lower(given); })) {
    return std::nullopt;
  }
  return authorization.substr(kScheme.size());
}

/// Tells whether the header Host names this machine's loopback interface.
bool names_loopback(std::string_view host) {
  const bool has_brackets = host.starts_with('[');
  const size_t colon = host.find(':', has_brackets ? host.find(']') : 0);
  host = host.substr(0, colon);
  if (std::ranges::equal(host, std::string_view("localhost"), {}, to_lower) || host == "[::1]") {
    return true;
  }
  const auto address = Endpoint::parse(fmt::format("{}:1", host));
  return address && io::is_loopback(*address);
}

/// Returns the path if it is safe in a header and on this server; "/" otherwise. A path that begins
/// with two slashes names another host.
std::string redirect_path(const std::string& path) {
  const auto is_plain = [](char c) {
    const char lower = to_lower(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
           c == '_' || c == '-';
  };
  const bool is_safe =
      path.starts_with('/') && !path.starts_with("//") && std::ranges::all_of(path, is_plain);
  return is_safe ? path : "/";
}

/// A page with the sentence and a field for the token. The sentence must be free of markup.
std::string login_page(std::string_view sentence) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" "
      "content=\"light dark\"><title>Tributary: log in</title></head><body><main>"
      "<h1>Tributary</h1><p>{}</p><form><label>Token <input type=\"password\" name=\"token\" "
      "autocomplete=\"current-password\" autofocus></label> <button>Log in</button></form>"
      "</main></body></html>\n",
      sentence);
}

Reply unauthorized(const Request& request, std::string_view sentence) {
  Reply reply = error_reply(401, std::string(sentence));
  if (request.accept.find("text/html") != std::string::npos) {
    reply.body = login_page(sentence);
    reply.type = "text/html; charset=utf-8";
  }
  reply.headers = {{"WWW-Authenticate", "Bearer realm=\"tributary\""}};
  return reply;
}

bool is_reading(const Request& request) {
  return request.method == "GET" || request.method == "HEAD";
}

/// Answers a request that may not pass.
Reply refusal(const Request& request, GateResult result) {
  if (result == GateResult::kMethod) {
    Reply reply = error_reply(
        405,
        "over TCP this server takes commands only with a token: start it with --http-token-file; "
        "allowed: GET and HEAD");
    reply.headers = {{"Allow", "GET, HEAD"}};
    return reply;
  }
  if (result == GateResult::kReadOnly) {
    return error_reply(403,
                       "this token may only read: send one whose line in the server's "
                       "--http-token-file has the word write");
  }
  if (result == GateResult::kHost) {
    return error_reply(421,
                       "without a token this server answers only requests to localhost or a "
                       "loopback address: correct the URL's host");
  }
  if (result == GateResult::kExpired) {
    return unauthorized(request,
                        "the token has expired: ask the server's operator for a new one, or for a "
                        "later day in --http-token-file");
  }
  if (result == GateResult::kWrongToken) {
    return unauthorized(request,
                        "the token is wrong: send one of the file that the server's "
                        "--http-token-file names");
  }
  if (!is_reading(request)) {
    return unauthorized(request,
                        "a command needs its token in the header Authorization: Bearer TOKEN");
  }
  return unauthorized(request,
                      "this server asks for its token: send the header Authorization: Bearer "
                      "TOKEN, or open URL?token=TOKEN in a browser");
}

}  // namespace

const char* to_string(GateResult result) {
  constexpr std::array<const char*, kGateResultCount> kNames{
      "passed", "login", "no_token", "wrong_token", "method", "host", "expired", "read_only"};
  return kNames[static_cast<uint32_t>(result)];
}

std::chrono::sys_seconds TokenGate::wall_clock() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

std::string TokenGate::cookie_name() const { return fmt::format("tributary_{}=", port_); }

std::string TokenGate::cookie_of(const Token& token) const {
  std::string cookie = cookie_name();
  for (const std::byte byte : auth::derive(token.key, "http cookie", {})) {
    cookie += fmt::format("{:02x}", std::to_integer<uint32_t>(byte));
  }
  return cookie;
}

const Token* TokenGate::token_of_cookie(const Request& request, const Tokens& tokens) const {
  const std::string name = cookie_name();
  std::vector<auth::Key256> sent;  // Hashes, so that the comparison takes as long for any cookie.
  std::string_view rest = request.cookie;
  while (!rest.empty() && sent.size() < kCookiesMax) {
    const size_t end = std::min(rest.find(';'), rest.size());
    std::string_view each = rest.substr(0, end);
    each.remove_prefix(std::min(each.find_first_not_of(' '), each.size()));
    if (each.starts_with(name)) sent.push_back(auth::hash(std::as_bytes(std::span(each))));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (sent.empty()) return nullptr;
  const Token* found = nullptr;
  for (const Token& token : tokens) {
    const std::string cookie = cookie_of(token);
    const auth::Key256 hash = auth::hash(std::as_bytes(std::span(cookie)));
    for (const auth::Key256& each : sent) {
      if (auth::is_same_key(each, hash)) found = &token;
    }
  }
  return found;
}

TokenGate::Verdict TokenGate::judge_token(const Tokens& tokens, const std::string& token) const {
  const Token* const found = find_token(tokens, token);
  if (found == nullptr) return {GateResult::kWrongToken};
  return {found->has_expired(clock_()) ? GateResult::kExpired : GateResult::kPassed, found};
}

TokenGate::Verdict TokenGate::judge(const Request& request, const Tokens& tokens) const {
  const bool reads = is_reading(request);
  if (const auto token = bearer_token(request.authorization)) {
    Verdict verdict = judge_token(tokens, *token);
    if (verdict.result == GateResult::kPassed && !reads && !verdict.token->may_write) {
      verdict.result = GateResult::kReadOnly;
    }
    return verdict;
  }
  // A form of another web page can send a cookie or a URL, but no header.
  if (!reads) return {GateResult::kNoToken};
  if (request.token) {
    Verdict verdict = judge_token(tokens, *request.token);
    if (verdict.result == GateResult::kPassed) verdict.result = GateResult::kLogin;
    return verdict;
  }
  const Token* const token = token_of_cookie(request, tokens);
  if (token == nullptr) return {GateResult::kNoToken};
  return {token->has_expired(clock_()) ? GateResult::kExpired : GateResult::kPassed, token};
}

Reply TokenGate::login_reply(const Request& request, const Token& token) const {
  // Lax: a link from a chat or a wiki opens the page of a user who has logged in.
  return {.status = 303,
          .body = {},
          .headers = {{"Location", redirect_path(request.path)},
                      {"Set-Cookie", cookie_of(token) + "; Path=/; HttpOnly; SameSite=Lax"}}};
}

Reply TokenGate::handle(const Request& request, const HttpServer::Handler& handler) {
  std::shared_ptr<const Tokens> tokens;  // The verdict points into it.
  Verdict verdict{GateResult::kPassed};
  if (tokens_) {
    tokens = tokens_();
    verdict = judge(request, *tokens);
  } else if (!names_loopback(request.host)) {
    verdict = {GateResult::kHost};
  } else if (!is_reading(request)) {
    verdict = {GateResult::kMethod};
  }
  counters_[static_cast<uint32_t>(verdict.result)].fetch_add(1, std::memory_order_relaxed);
  Reply reply;
  if (verdict.result == GateResult::kPassed) {
    reply = handler(request);
  } else if (verdict.result == GateResult::kLogin) {
    reply = login_reply(request, *verdict.token);
  } else {
    reply = refusal(request, verdict.result);
  }
  reply.headers.emplace_back("Cache-Control", "no-store");
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  return reply;
}

GateCounters TokenGate::counters() const {
  GateCounters counters{};
  for (uint32_t i = 0; i < kGateResultCount; i++) {
    counters[i] = counters_[i].load(std::memory_order_relaxed);
  }
  return counters;
}

Result<Endpoint> parse_http_address(const std::string& text) {
  const bool is_port = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  auto endpoint = io::resolve(is_port ? "127.0.0.1:" + text : text, /*default_port=*/0);
  if (endpoint) return endpoint;
  return failure(fmt::format("--http {}: {}; allowed: a port of 127.0.0.1, or ADDRESS:PORT", text,
                             endpoint.error().text),
                 endpoint.error().kind);
}

}  // namespace tributary::control
