// SPDX-License-Identifier: Apache-2.0
/// @file
/// A running `tributary serve` on a port of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/udp/free_port.h"
#include "tests/system/process.h"

namespace tributary::system_test {

/// A port that nobody has right now; 0 and a failed test if there is none.
uint16_t free_port(io::Transport transport = io::Transport::kUdp);

class Server {
 public:
  /// Starts it and waits until it is ready. @param jobs Values of --job.
  explicit Server(const std::vector<std::string>& jobs, const std::vector<std::string>& more = {});

  [[nodiscard]] uint16_t port() const { return port_; }
  /// "127.0.0.1:PORT".
  [[nodiscard]] std::string address() const;

  /// Asks for the counters (SIGUSR1) and waits for the file.
  nlohmann::json stats();
  /// Asks again and again until counter `name` is at least `value`.
  void wait_until_counted(const std::string& name, uint64_t value);

  /// kill -9.
  void kill();
  /// Another server process on the same port, with the same jobs.
  void start_again();
  /// SIGTERM. @return the exit status.
  std::optional<int> stop();

 private:
  [[nodiscard]] bool start();

  std::vector<std::string> arguments_;
  std::string json_path_;
  uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace tributary::system_test
