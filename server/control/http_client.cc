// SPDX-License-Identifier: Apache-2.0
#include "server/control/http_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <string_view>
#include <thread>

#include "base/number_text.h"
#include "base/pipe_signal_guard.h"
#include "io/udp/resolve.h"
#include "server/control/answer_json.h"
#include "server/control/answer_stream.h"
#include "server/socket_place.h"

namespace tributary::control {
namespace {

using server::SocketState;

/// Pause before another attempt while the server's queue of callers is full.
constexpr std::chrono::milliseconds kRetryEvery{10};

constexpr std::string_view kScheme = "http://";
constexpr uint16_t kHttpPort = 80;
constexpr int kNoToken = 401;

constexpr AnswerLimits kAnswer{kAnswerWithin, kAnswerWithin, kAnswerBytesMax};
constexpr AnswerLimits kRecording{kRecordingWithin, kAnswerWithin, kRecordingBytesMax};

bool is_url(const ServerAddress& server) { return server.place.starts_with(kScheme); }

/// Sends the request. Linux refuses a caller of a Unix socket whose queue is full, so that the
/// caller must try again.
httplib::Result send(AnswerClient& client, const ServerAddress& server,
                     const httplib::Request& request) {
  const auto deadline = std::chrono::steady_clock::now() + kAnswerWithin;
  while (true) {
    httplib::Result reply = client.exchange(request);
    if (reply.error() != httplib::Error::Connection || is_url(server) ||
        server::probe(server.place) != SocketState::kAnswers ||
        std::chrono::steady_clock::now() >= deadline) {
      return reply;
    }
    std::this_thread::sleep_for(kRetryEvery);
  }
}

/// Returns the host and port of a URL.
std::string_view place_of(std::string_view url) {
  url.remove_prefix(kScheme.size());
  return url.substr(0, url.find('/'));
}

struct HostAndPort {
  std::string host;
  int port;
};
/// Returns the parts of "host", "host:port", "[v6]" and "[v6]:port", or the path of a socket. A
/// text of another form becomes a host to which nobody can connect.
HostAndPort parts_of(const ServerAddress& server) {
  if (!is_url(server)) return {server.place, kHttpPort};
  std::string_view host = place_of(server.place);
  uint16_t port = kHttpPort;
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
    port = parse_number<uint16_t>(host.substr(colon + 1)).value_or(0);
    if (port != 0) host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {std::string(host), port};
}

std::string cause_of(httplib::Error error, AnswerFault fault,
                     std::chrono::steady_clock::duration waited) {
  const bool is_connection = error == httplib::Error::Connection;
  if (fault == AnswerFault::kTimedOut || (is_connection && waited >= kAnswerWithin)) {
    return fmt::format("waited {} s", std::chrono::floor<std::chrono::seconds>(waited).count());
  }
  if (is_connection) return "no connection";
  if (error == httplib::Error::Read) return "the server closed the connection";
  return httplib::to_string(error);
}

/// Returns one line about a request without an answer.
std::string no_answer(const ServerAddress& server, httplib::Error error, AnswerFault fault,
                      std::chrono::steady_clock::duration waited) {
  std::string remedy = "check that its process";
  if (is_url(server)) {
    const auto address = io::resolve(place_of(server.place), kHttpPort);
    if (!address) return fmt::format("{}: {}", server.place, address.error().text);
    remedy += " runs, with systemctl status or ps, and serves this address with --http";
  } else {
    const int pid = server::process_at(server.place);
    if (pid != 0) remedy += fmt::format(" (pid {})", pid);
    remedy += " runs and is not stopped, with systemctl status or ps";
  }
  return fmt::format("{}: the server does not answer ({}); to fix: {}", server.place,
                     cause_of(error, fault, waited), remedy);
}

/// Returns one line about an answer that is too large.
std::string too_large(const ServerAddress& server, const std::string& path, AnswerFault fault,
                      const AnswerLimits& limits) {
  const std::string excess =
      fault == AnswerFault::kBodyTooLarge
          ? fmt::format("has more than {} bytes", limits.body_bytes_max)
          : fmt::format("has a head of more than {} bytes, or a line of more than {}",
                        kAnswerHeadBytesMax, kAnswerLineBytesMax);
  return fmt::format("{}: the answer to {} {}; to fix: check that a tributary server listens there",
                     server.place, path, excess);
}

/// Sends the request. @return the server's error text unless the status is from 200 to 299.
Result<httplib::Response> exchange(const ServerAddress& server, const std::string& method,
                                   const std::string& path, const nlohmann::json& body,
                                   const AnswerLimits& limits = kAnswer) {
  httplib::Request request;
  request.method = method;
  request.path = path;
  if (!body.is_null()) {
    request.body = body.dump();
    request.set_header("Content-Type", "application/json");
  }
  if (!server.token.empty()) request.set_header("Authorization", "Bearer " + server.token);
  const auto [host, port] = parts_of(server);
  AnswerClient client(host, port, limits);
  if (!is_url(server)) client.set_address_family(AF_UNIX);
  client.set_connection_timeout(kAnswerWithin);
  const PipeSignalGuard guard;  // The server may close the connection before the request is out.
  const auto sent_at = std::chrono::steady_clock::now();
  const httplib::Result reply = send(client, server, request);
  const AnswerFault fault = client.fault();
  if (fault == AnswerFault::kHeadTooLarge || fault == AnswerFault::kBodyTooLarge) {
    return failure(too_large(server, path, fault, limits));
  }
  if (!reply) {
    const auto waited = std::chrono::steady_clock::now() - sent_at;
    return failure(no_answer(server, reply.error(), fault, waited));
  }
  if (reply->status >= 200 && reply->status <= 299) return *reply;
  if (reply->status == kNoToken && server.token.empty()) {
    return failure(fmt::format(
        "{}: the server asks for a token; to fix: give --token-file with one of the tokens in the "
        "server's --http-token-file",
        server.place));
  }
  const auto json = read_answer_json(reply->body);
  if (json && json->is_object()) {
    const auto error = json->find("error");
    if (error != json->end() && error->is_string()) return failure(error->get<std::string>());
  }
  return failure(fmt::format("{}: status {}", path, reply->status));
}

}  // namespace

Result<nlohmann::json> get(const ServerAddress& server, const std::string& path) {
  return ask(server, "GET", path);
}

Result<std::string> get_bytes(const ServerAddress& server, const std::string& path) {
  auto reply = exchange(server, "GET", path, nullptr);
  if (!reply) return tl::unexpected(reply.error());
  return std::move(reply->body);
}

Result<std::string> get_recording(const ServerAddress& server, const std::string& path) {
  auto reply = exchange(server, "GET", path, nullptr, kRecording);
  if (!reply) return tl::unexpected(reply.error());
  return std::move(reply->body);
}

Result<nlohmann::json> ask(const ServerAddress& server, const std::string& method,
                           const std::string& path, const nlohmann::json& body) {
  const auto reply = exchange(server, method, path, body);
  if (!reply) return tl::unexpected(reply.error());
  auto json = read_answer_json(reply->body);
  if (json && json->is_object()) return json;
  return failure(fmt::format("{}: the answer to {} {}", server.place, path,
                             json ? "is no JSON object" : json.error().text));
}

}  // namespace tributary::control
