// SPDX-License-Identifier: Apache-2.0
/// @file
/// Asks a server of this machine over its control socket.
///
/// Threads: Any.
/// Errors:  One line with the socket's path, the cause and the remedy.
/// Tests:   tests/server/control/http_server_test.cc
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace tributary::control {

/// The longest wait for an answer. A healthy server answers within 50 ms.
inline constexpr std::chrono::seconds kAnswerWithin{5};

/// Sends "GET path" to the socket. @return the JSON of the answer; the server's error text if the
/// status is not 200.
[[nodiscard]] Result<nlohmann::json> get(const std::string& socket_path, const std::string& path);

/// Sends "GET path" to the socket. @return the body of the answer, whatever its type.
[[nodiscard]] Result<std::string> get_bytes(const std::string& socket_path,
                                            const std::string& path);

/// Sends a request of another method, as get() does. A status from 200 to 299 is a success.
/// @param path May have a query. @param body Null: none.
[[nodiscard]] Result<nlohmann::json> ask(const std::string& socket_path, const std::string& method,
                                         const std::string& path,
                                         const nlohmann::json& body = nullptr);

}  // namespace tributary::control
