// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flags of `tributary serve --protocol switchml`, and what they say.
///
/// Errors: One line that names the flag, the value and what is allowed.
/// Tests:  tests/cli/serve_switchml_test.cc, tests/system/switchml_test.cc
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

/// The table "session": `--session workers=10.0.0.1+10.0.0.2,elements=256`, or [[session]].
[[nodiscard]] const KeyTable& session_keys();

/// Adds the flags. @param flags Must stay where it is until the parse is over.
void add_switchml_flags(CLI::App& command, Settings& settings, SwitchmlFlags& flags);

/// Whether any of them was given.
[[nodiscard]] bool uses_switchml_flags(const CLI::App& command);

/// Completes `config`, whose listen, cores, memory and buffers are there. Without --session and
/// --control there is one control point on the loopback interface, if the program has gRPC.
[[nodiscard]] Result<server::SwitchmlConfig> with_switchml_flags(server::SwitchmlConfig config,
                                                                 const SwitchmlFlags& flags);

}  // namespace tributary::cli
