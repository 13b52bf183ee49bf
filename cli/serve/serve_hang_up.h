// SPDX-License-Identifier: Apache-2.0
/// @file
/// SIGHUP at a server that reads its --config file only at its start: SwitchML and packet programs.
/// The server goes on, and the log tells whether the file asks for other settings.
///
/// Tests: tests/system/control_of_programs_test.cc
#pragma once

#include <functional>

#include "cli/settings.h"
#include "server/log/log.h"

namespace tributary::cli {

/// Returns the handler of SIGHUP. Empty if there is no file: SIGHUP then ends the server, for
/// example when its terminal is closed.
/// @param settings,log Must outlive the returned function.
/// @param before       Called first, to read other files again, such as the tokens.
[[nodiscard]] std::function<void()> on_hang_up(
    const Settings& settings, server::Log& log, std::function<void()> before = [] {});

}  // namespace tributary::cli
