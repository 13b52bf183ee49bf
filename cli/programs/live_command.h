// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet program on live traffic: the flags that say where and how, and its life as a server.
/// For `tributary serve --program` and for programs outside this tree.
///
/// Threads: The main thread.
/// Errors:  One line with the flag, the value and the allowed values.
/// Tests:   tests/cli/programs/live_command_test.cc, tests/system/inline_test.cc,
///          tests/system/inline_dpdk_test.cc, tests/system/vxlan_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "cli/core_flags.h"
#include "cli/serve/serve_loop.h"
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

/// A packet program that runs, from its start to its report.
class LiveProgram {
 public:
  /// Starts the cores. The program's hashes get a random seed.
  /// @pre block_awaited_signals()
  static Result<std::unique_ptr<LiveProgram>> start(const programs::ServedProgram& program,
                                                    const KeyValues& settings,
                                                    const LiveFlags& flags);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the names of its ports: "eth0 and eth1".
  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] programs::LiveService& running() { return *running_; }

  /// Returns its part of cli::serve(), which writes the program's events to `log`. This object and
  /// `log` must outlive it.
  /// @param title Begins each line on standard error: "tributary serve".
  [[nodiscard]] Service service(const std::string& title, const LiveFlags& flags, server::Log& log);

  /// Serves until a signal ends the program, then prints its report.
  /// @param service From service(). @return the exit code.
  [[nodiscard]] int serve(const Service& service);

 private:
  LiveProgram(std::string name, std::string place, std::unique_ptr<programs::LiveService> running)
      : name_(std::move(name)), place_(std::move(place)), running_(std::move(running)) {}
  /// Returns the file of `--json`.
  [[nodiscard]] nlohmann::json stats();

  const std::string name_;
  const std::string place_;
  const std::unique_ptr<programs::LiveService> running_;
};

/// Lets `command` serve `program`; its settings are flags, as for a run over a capture.
void add_live_run(CLI::App& command, const programs::ServedProgram& program,
                  const std::string& title, int& exit_code);

}  // namespace tributary::cli
