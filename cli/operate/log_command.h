// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary log`: shows the last lines of a running server's log, and sets its level, over its
/// control socket or its --http.
///
/// Threads: One.
/// Errors:  One line with the cause and the remedy; exit status 1 if the server does not answer or
///          keeps no log.
/// Tests:   tests/system/log_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

void add_log_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli
