// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small HTTP server on a Unix socket or a TCP port. cpp-httplib parses the requests.
///
/// Threads: One reads requests and writes answers (connections.h); kThreads answer. None of them is
///          a core. The handler runs in the kThreads.
/// Bounds:  connections.h. A connection carries one request.
/// Errors:  start() returns one line. A bad request gets one JSON object with `error`: 411 for a
///          body without its length, 413 if it is too large, 414 for a long URL before one, 415 if
///          it is compressed or in parts.
/// Tests:   tests/server/control/http_server_test.cc, http_server_tcp_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "server/control/connections.h"

namespace tributary::control {

inline constexpr uint32_t kThreads = 4;
/// Longest path and query of a request that has a body.
inline constexpr size_t kTargetBytesMax = 256;

struct Request {
  std::string method;
  std::string path;
  std::string query = {};                 ///< Everything behind the "?"; empty: nothing.
  std::string body = {};                  ///< Body of POST, PUT and PATCH; at most kBodyBytesMax.
  std::string host = {};                  ///< Header Host; empty if absent, like the next three.
  std::string authorization = {};         ///< Header Authorization.
  std::string cookie = {};                ///< Header Cookie.
  std::string accept = {};                ///< Header Accept.
  std::optional<std::string> token = {};  ///< Parameter `token` of the URL.
};

struct Reply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< Additional ones.
};

/// Returns {"error": text} with this status.
[[nodiscard]] Reply error_reply(int status, const std::string& text);

class HttpServer {
 public:
  using Handler = std::function<Reply(const Request&)>;

  /// Listens on a socket that only this user and root can connect to. Takes over a stale file.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& path, Handler handler);
  /// Listens on a TCP port. The handler decides who may ask.
  /// @param counters Must outlive the server; null: nobody counts.
  static Result<std::unique_ptr<HttpServer>> start(const Endpoint& at, Handler handler,
                                                   ConnectionCounters* counters = nullptr);
  /// Ends all connections at once and removes the Unix socket.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Returns the path of the Unix socket; empty for a TCP port.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  class Implementation;
  HttpServer(std::string path, std::unique_ptr<Implementation> implementation);

  const std::string path_;
  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace tributary::control
