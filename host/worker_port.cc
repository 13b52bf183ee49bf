// SPDX-License-Identifier: Apache-2.0
#include "host/worker_port.h"

#include <fmt/format.h>

#include "io/local/local_port.h"
#include "io/udp/udp_port.h"

namespace tributary::host {

Result<std::unique_ptr<engine::Port>> open_worker_port(const Endpoint& server, LocalUse local) {
  if (local != LocalUse::kOff) {
    auto port = io::connect_local_port(server);
    if (port) return port;
    if (local == LocalUse::kOn) {
      return failure(
          fmt::format("local=on: {}; start the aggregator on this machine with --local "
                      "on, or give local=auto to use UDP",
                      port.error().text));
    }
  }
  io::UdpPortConfig config;
  config.peer = server;
  auto port = io::UdpPort::open(config);
  if (!port) return tl::unexpected(port.error());
  return std::move(*port);
}

std::optional<LocalUse> parse_local_use(std::string_view text) {
  if (text == "auto") return LocalUse::kAuto;
  if (text == "on") return LocalUse::kOn;
  if (text == "off") return LocalUse::kOff;
  return {};
}

}  // namespace tributary::host
