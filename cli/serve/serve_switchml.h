// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flags of `tributary serve --protocol switchml`, and their conversion to a configuration.
///
/// Errors:  One line that names the flag, the value and the values allowed.
/// Tests:   tests/cli/serve/serve_switchml_test.cc, tests/system/switchml_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "cli/settings.h"
#include "server/switchml/switchml_appliance.h"

namespace tributary::cli {

struct SwitchmlFlags {
  std::vector<KeyValues> sessions;
  std::vector<std::string> control;
  uint32_t sessions_max = switchml::ShardConfig{}.sessions_max;
  uint32_t slots_max = switchml::kSlotsDefault;
  Duration deadline = server::ControlConfig{}.deadline;
  Duration idle_after = server::SessionBook::Config{}.idle_after;
};

/// Returns the table "session": `--session workers=10.0.0.1+10.0.0.2,elements=256`, or [[session]].
[[nodiscard]] const KeyTable& session_keys();

/// Adds the flags.
/// @param flags Must not move until parsing is over.
void add_switchml_flags(CLI::App& command, Settings& settings, SwitchmlFlags& flags);

/// Returns whether any of these flags was given.
[[nodiscard]] bool uses_switchml_flags(const CLI::App& command);

/// Completes `config`, in which listen, cores, memory and buffers are set. Without --session and
/// --control it adds one control point on the loopback interface, if the program was built with
/// gRPC.
[[nodiscard]] Result<server::SwitchmlConfig> with_switchml_flags(server::SwitchmlConfig config,
                                                                 const SwitchmlFlags& flags);

}  // namespace tributary::cli
