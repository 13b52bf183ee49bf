// SPDX-License-Identifier: Apache-2.0
/// @file
/// Asks a running server over its control socket or its TCP port.
///
/// Threads: Any.
/// Errors:  One line with the socket's path or the URL, the cause and the remedy. The server's own
///          error text is a stranger's: print it through terminal_text().
/// Memory:  An answer is bounded in time, size and depth, whatever the server sends.
/// Tests:   tests/server/control/http_client_test.cc, http_server_test.cc, http_server_tcp_test.cc
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/result.h"

namespace tributary::control {

/// The longest time for a connection, and the longest for a whole answer. A healthy server answers
/// within 50 ms.
inline constexpr std::chrono::seconds kAnswerWithin{5};
inline constexpr size_t kAnswerBytesMax = size_t{64} << 20;
/// A recording may be large and its network slow. None of its parts may take longer than
/// kAnswerWithin.
inline constexpr std::chrono::seconds kRecordingWithin{120};
inline constexpr size_t kRecordingBytesMax = size_t{1} << 30;

/// The address at which a server answers, and its token.
struct ServerAddress {
  // NOLINTNEXTLINE(google-explicit-constructor): the path of a socket is an address.
  ServerAddress(std::string at, std::string with_token = {})
      : place(std::move(at)), token(std::move(with_token)) {}

  std::string place;  ///< The path of its control socket, or http://HOST:PORT.
  std::string token;  ///< Over TCP; empty: none.
};

/// Sends "GET path" to the server. @return the JSON of the answer; the server's error text if the
/// status is not 200.
[[nodiscard]] Result<nlohmann::json> get(const ServerAddress& server, const std::string& path);

/// Sends "GET path" to the server. @return the body of the answer, whatever its type.
[[nodiscard]] Result<std::string> get_bytes(const ServerAddress& server, const std::string& path);
/// Gets the bytes of a recording, which may be longer and take longer than other answers.
[[nodiscard]] Result<std::string> get_recording(const ServerAddress& server,
                                                const std::string& path);

/// Sends a request of another method, as get() does. A status from 200 to 299 is a success.
/// @param path May have a query. @param body Null: none.
[[nodiscard]] Result<nlohmann::json> ask(const ServerAddress& server, const std::string& method,
                                         const std::string& path,
                                         const nlohmann::json& body = nullptr);

}  // namespace tributary::control
