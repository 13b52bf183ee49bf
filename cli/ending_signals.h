// SPDX-License-Identifier: Apache-2.0
/// @file
/// The signals that end a command.
#pragma once

#include <csignal>

namespace tributary::cli {

/// Returns SIGINT and SIGTERM.
[[nodiscard]] inline sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace tributary::cli
