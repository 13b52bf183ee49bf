// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary job`: lists, adds, removes, drains and changes the jobs of a running server, over
/// its control socket or its --http.
///
/// Threads: One.
/// Errors:  One line with the cause and the remedy; exit status 1 if the server refuses or does not
///          answer, kExitUsage for a refused command line.
/// Tests:   tests/cli/operate/job_command_test.cc, tests/system/job_command_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/key_table.h"

namespace tributary::cli {

/// Returns the body of POST /v1/jobs. The path of secret_file becomes absolute, because the server
/// runs in another folder. @param keys Checked against server::job_keys().
[[nodiscard]] nlohmann::json job_body(uint32_t id, std::span<const WrittenKey> keys);

/// Returns the jobs of GET /v1/jobs as text: one line for each channel.
[[nodiscard]] std::string job_list_text(const nlohmann::json& jobs);

void add_job_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli
