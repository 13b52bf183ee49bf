// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of the OpenAPI description that requests share: the schemas of all answers, and the
/// ways to show a token.
///
/// Threads: Pure functions.
/// Tests:   tests/server/control/schemas_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace tributary::control {

/// Returns `components` of the description: `schemas` and `securitySchemes`.
[[nodiscard]] nlohmann::json openapi_components();

/// Returns the reference to one of the schemas.
[[nodiscard]] nlohmann::json schema_ref(std::string_view name);

/// Returns `security` of an operation: the tokens that a request needs.
/// @param commands Whether the operation changes the server.
[[nodiscard]] nlohmann::json openapi_security(bool commands);

}  // namespace tributary::control
