// SPDX-License-Identifier: Apache-2.0
#include "server/control/http_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <string_view>
#include <thread>

#include "base/pipe_signal_guard.h"
#include "io/udp/resolve.h"
#include "server/socket_place.h"

namespace tributary::control {
namespace {

using server::SocketState;

/// Pause before another attempt while the server's queue of callers is full.
constexpr std::chrono::milliseconds kRetryEvery{10};

constexpr std::string_view kScheme = "http://";
constexpr uint16_t kHttpPort = 80;
constexpr int kNoToken = 401;

bool is_url(const ServerAddress& server) { return server.place.starts_with(kScheme); }

/// Sends the request. Linux refuses a caller of a Unix socket whose queue is full, so that the
/// caller must try again.
httplib::Result send(httplib::Client& client, const ServerAddress& server,
                     const httplib::Request& request) {
  const auto deadline = std::chrono::steady_clock::now() + kAnswerWithin;
  while (true) {
    httplib::Result reply = client.send(request);
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

std::string cause_of(httplib::Error error, std::chrono::steady_clock::duration waited) {
  if (waited >= kAnswerWithin) return fmt::format("waited {} s", kAnswerWithin.count());
  if (error == httplib::Error::Connection) return "no connection";
  if (error == httplib::Error::Read) return "the server closed the connection";
  return httplib::to_string(error);
}

/// Returns one line about a request without an answer.
std::string no_answer(const ServerAddress& server, httplib::Error error,
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
                     cause_of(error, waited), remedy);
}

/// Sends the request. @return the server's error text unless the status is from 200 to 299.
Result<httplib::Response> exchange(const ServerAddress& server, const std::string& method,
                                   const std::string& path, const nlohmann::json& body) {
  httplib::Request request;
  request.method = method;
  request.path = path;
  if (!body.is_null()) {
    request.body = body.dump();
    request.set_header("Content-Type", "application/json");
  }
  if (!server.token.empty()) request.set_header("Authorization", "Bearer " + server.token);
  httplib::Client client(server.place);
  if (!is_url(server)) client.set_address_family(AF_UNIX);
  client.set_connection_timeout(kAnswerWithin);
  client.set_read_timeout(kAnswerWithin);
  client.set_write_timeout(kAnswerWithin);
  const PipeSignalGuard guard;  // The server may close the connection before the request is out.
  const auto sent_at = std::chrono::steady_clock::now();
  const httplib::Result reply = send(client, server, request);
  if (!reply)
    return failure(no_answer(server, reply.error(), std::chrono::steady_clock::now() - sent_at));
  if (reply->status >= 200 && reply->status <= 299) return *reply;
  if (reply->status == kNoToken && server.token.empty()) {
    return failure(fmt::format(
        "{}: the server asks for a token; to fix: give --token-file with one of the tokens in the "
        "server's --http-token-file",
        server.place));
  }
  const auto json = nlohmann::json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  const auto error = json.is_object() ? json.find("error") : json.end();
  if (error == json.end() || !error->is_string()) {
    return failure(fmt::format("{}: status {}", path, reply->status));
  }
  return failure(error->get<std::string>());
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

Result<nlohmann::json> ask(const ServerAddress& server, const std::string& method,
                           const std::string& path, const nlohmann::json& body) {
  const auto reply = exchange(server, method, path, body);
  if (!reply) return tl::unexpected(reply.error());
  auto json = nlohmann::json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return failure(fmt::format("{}: the answer to {} is not JSON", server.place, path));
}

}  // namespace tributary::control
