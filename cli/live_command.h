// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet program on live traffic: the flags that say where and how, and its life as a server. For
/// `tributary serve --program` and for programs outside this tree.
///
/// Threads: The main thread.
/// Errors:  One line with the flag, the value and the allowed values.
/// Tests:   tests/cli/live_command_test.cc, tests/system/inline_test.cc,
///          tests/system/inline_dpdk_test.cc, tests/system/vxlan_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "cli/core_flags.h"
#include "io/inline/side_spec.h"
#include "programs/live_service.h"
#include "server/log/log.h"

namespace tributary::cli {

/// Describes the texts that --port takes for a program.
inline constexpr std::string_view kInlinePortHelp =
    "A --port is an INTERFACE, also written packet:INTERFACE; dpdk:DEVICE[,key=value]...; or a "
    "tunnel of frames in UDP, vxlan:ADDRESS[:PORT],peer=ADDRESS[:PORT][,vni=NUMBER]";

struct LiveFlags {
  std::vector<std::string> ports;  ///< As written; one or two.
  CoreFlags cores;
  server::LogConfig log;
  std::string records = {};  ///< Files of flow records; empty: none.
  std::string ipfix = {};
  std::string json_path;
};

/// Declares --records and --ipfix. @param note Ends their descriptions.
void add_record_files(CLI::App& command, std::string& records, std::string& ipfix,
                      const std::string& note = "");

/// Returns the interfaces, DPDK devices or tunnels of one or two `--port` texts.
[[nodiscard]] Result<std::vector<io::InlineSideSpec>> inline_sides(
    const std::vector<std::string>& ports);

/// Serves until a signal ends the program. Its hashes get a random seed.
/// @param title Begins each error line: "tributary serve".
/// @pre block_awaited_signals() @return the exit code.
[[nodiscard]] int serve_program(const std::string& title, const programs::ServedProgram& program,
                                const KeyValues& settings, const LiveFlags& flags);

/// Lets `command` serve `program`; its settings are flags, as for a run over a capture.
void add_live_run(CLI::App& command, const programs::ServedProgram& program,
                  const std::string& title, int& exit_code);

}  // namespace tributary::cli
