// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary record`: takes recordings from a running server, lets it record or not, and shows
/// recordings of servers and workers.
///
/// Threads: One.
/// Errors:  One line with the file or the server, and exit status 1. A file that is cut off is
///          shown as far as it goes, with a line that says so, and exit status 0.
/// Tests:   tests/system/record_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

void add_record_command(CLI::App& app, int& exit_code);

}  // namespace tributary::cli
