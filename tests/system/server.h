// SPDX-License-Identifier: Apache-2.0
/// @file
/// A running `tributary serve` on its own port.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/udp/free_port.h"
#include "tests/system/process.h"

namespace tributary::system_test {

/// Returns a currently free port; returns 0 and fails the test if there is none.
uint16_t free_port(io::Transport transport = io::Transport::kUdp);

/// Returns the contents of a file of `--json`.
nlohmann::json json_of(const std::string& path);
/// Requests the counters of a `tributary serve --json json_path` (SIGUSR1) and waits for the file.
nlohmann::json requested_stats(Process& process, const std::string& json_path);

class Server {
 public:
  /// Starts the server and waits until it is ready.
  /// @param jobs Values of --job.
  /// @param host An address of the loopback network.
  explicit Server(const std::vector<std::string>& jobs, const std::vector<std::string>& more = {},
                  const std::string& host = "127.0.0.1");

  [[nodiscard]] uint16_t port() const { return port_; }
  /// "HOST:PORT".
  [[nodiscard]] std::string address() const;

  /// Requests the counters (SIGUSR1) and waits for the file.
  nlohmann::json stats();
  /// Returns the counters that the server has written last.
  [[nodiscard]] nlohmann::json written_stats() const;
  /// Requests the counters repeatedly until counter `name` is at least `value`.
  void wait_until_counted(const std::string& name, uint64_t value);

  /// Waits until the server's process occupies less memory.
  void wait_until_resident_below(uint64_t bytes);

  /// Kills the server with SIGKILL.
  void kill();
  /// Starts another server process on the same port, with the same jobs.
  void start_again();
  void signal(int number);
  /// Returns the memory that the server's process occupies (VmRSS).
  [[nodiscard]] uint64_t resident_bytes() const { return process_->resident_bytes(); }
  /// Sends SIGTERM.
  void terminate() { signal(SIGTERM); }
  /// Waits for `text` on standard error. @return whether it arrived in time.
  bool wait_for_error(const std::string& text);
  /// Waits for the end. @return the exit status.
  std::optional<int> wait_for_end();
  /// Ends the server with SIGTERM.
  /// @return the exit status.
  std::optional<int> stop();

 private:
  [[nodiscard]] bool start();

  std::string host_;
  std::vector<std::string> arguments_;
  std::string json_path_;
  uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace tributary::system_test
