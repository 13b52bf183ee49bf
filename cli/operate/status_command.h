// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary status` and `tributary who`: the state of a running server, asked over its control
/// socket or its --http.
///
/// Threads: One.
/// Errors:  One line with the cause and the remedy; exit status 1 if the server does not answer.
/// Tests:   tests/cli/operate/status_command_test.cc, tests/system/control_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tributary::cli {

/// Adds rates per second to a status: the differences to an earlier one of the same server.
void add_rates(nlohmann::json& status, const nlohmann::json& earlier);

/// Returns a status with rates as one screen of text.
/// @param columns The width of the terminal: a narrow one shows fewer columns of the jobs.
[[nodiscard]] std::string status_text(const nlohmann::json& status, uint32_t columns = UINT32_MAX);

/// Returns the rows of /v1/who that are about a job. @param job Id of a configured job, or of one
/// of its channels; not set: all rows.
[[nodiscard]] nlohmann::json who_rows(const nlohmann::json& rows, std::optional<uint32_t> job);

/// Returns the rows of /v1/who as text: one sentence for each.
[[nodiscard]] std::string who_text(const nlohmann::json& rows);

void add_status_command(CLI::App& app, int& exit_code);
void add_who_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli
