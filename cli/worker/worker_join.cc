// SPDX-License-Identifier: Apache-2.0
#include "cli/worker/worker_join.h"

#include <fmt/format.h>

#include <cstdio>
#include <random>
#include <utility>

#include "auth/secret.h"
#include "base/clock.h"
#include "base/prng.h"
#include "cli/console.h"
#include "host/switchml/switchml_protocol.h"
#include "host/worker_port.h"
#include "io/devices/device_port.h"
#include "io/udp/resolve.h"
#include "io/udp/udp_port.h"
#include "server/switchml/control_server.h"
#include "server/switchml/session_client.h"
#include "server/switchml/switch_address.h"
#include "wire/headers.h"
#include "wire/switchml.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

/// First port of the dynamic range, which is never registered. Source: RFC 6335 §6.
constexpr uint32_t kEphemeralPortFirst = 49'152;

Result<std::unique_ptr<engine::Port>> open_device(const WorkerOptions& options,
                                                  const Endpoint& server) {
  io::DevicePortConfig config;
  if (const auto added = io::add_device(options.port, config.spec); !added) {
    return tl::unexpected(added.error());
  }
  // Choose a new port each time, so that packets of an earlier run do not reach this one.
  std::random_device random;
  config.local = Endpoint::ipv4(
      0, static_cast<uint16_t>(kEphemeralPortFirst + random() % (65'536 - kEphemeralPortFirst)));
  config.peer = server;
  auto opened = io::open_device_port(config);
  if (!opened) return tl::unexpected(opened.error());
  for (const std::string& warning : opened->warnings) {
    print_error("tributary worker: warning: {}\n", warning);
  }
  return std::move(opened->port);
}

/// Opens the worker's port.
/// @param local For SwitchML; not set: the kernel chooses.
Result<std::unique_ptr<engine::Port>> open_port(const WorkerOptions& options, const Endpoint& local,
                                                const Endpoint& server) {
  if (!options.port.empty()) return open_device(options, server);
  if (options.protocol == Protocol::kTrioMl) {
    return host::open_worker_port(server, options.session.local);
  }
  io::UdpPortConfig config;
  config.local = local;
  config.peer = server;
  auto port = io::UdpPort::open(config);
  if (!port) return failure(port.error().text);
  return std::move(*port);
}

/// Checks that a packet of this many gradients fits the port; otherwise none would ever arrive.
Result<void> check_packets(uint32_t gradients, auth::Mode mode, const engine::Port& port) {
  const uint32_t head_bytes = wire::head_bytes_max(mode);
  const uint32_t bytes = head_bytes + gradients * wire::kGradientBytes;
  if (bytes <= port.payload_bytes_max()) return {};
  return failure(fmt::format(
      "--gradients {} needs payloads of {} bytes; the port's MTU leaves {}: give --gradients {}, "
      "or the device a larger mtu=",
      gradients, bytes, port.payload_bytes_max(),
      (port.payload_bytes_max() - head_bytes) / wire::kGradientBytes));
}

bool is_impaired(const io::FaultRates& faults) {
  return faults.loss + faults.duplicate + faults.reorder > 0;
}

/// Wraps the port with the faults that the options ask for.
Result<std::unique_ptr<engine::Port>> with_faults(const WorkerOptions& options,
                                                  std::unique_ptr<engine::Port> port,
                                                  uint32_t channel = 0) {
  if (!is_impaired(options.faults)) return port;
  auto impaired = io::ImpairedPort::make(
      std::move(port),
      {.rx = options.faults, .tx = options.faults, .seed = rank_seed(options) + channel});
  if (!impaired) return tl::unexpected(impaired.error());
  return *std::move(impaired);
}

Result<std::unique_ptr<host::Communicator>> join_trio_ml(const WorkerOptions& options) {
  auto aggregators = host::parse_aggregators(options.server, wire::kTrioMlPort);
  if (!aggregators) return failure_in("--server: ", aggregators.error());
  if (const auto found = host::resolve(*aggregators); !found) return tl::unexpected(found.error());
  host::CommunicatorConfig config = options.session;
  config.server = aggregators->front().address;
  config.aggregators = *std::move(aggregators);
  config.on_join_wait = [](const std::string& what) {
    print_error("tributary worker: waiting to join: {}\n", what);
  };
  config.on_event = [](const host::WorkerEvent& event) {
    if (event.kind == host::WorkerEvent::Kind::kDegraded) return;  // Counted in the result.
    const bool waits = event.kind == host::WorkerEvent::Kind::kWaiting;
    print_error("tributary worker: {}{}\n", waits ? "waiting: " : "", event.text);
  };
  const auto found = auth::find_secret(options.auth, options.secret_path);
  if (!found) return tl::unexpected(found.error());
  config.auth = *found;
  if (!is_impaired(options.faults) && options.port.empty()) {
    return host::Communicator::join(config);
  }
  const auto open = [&](uint32_t channel,
                        const Endpoint& server) -> Result<std::unique_ptr<engine::Port>> {
    auto port = open_port(options, {}, server);
    if (!port) return tl::unexpected(port.error());
    if (const auto fits = check_packets(config.gradients, config.auth.mode, **port); !fits) {
      return tl::unexpected(fits.error());
    }
    return with_faults(options, *std::move(port), channel);
  };
  return host::Communicator::join(config, open);
}

// --- SwitchML ---

/// A worker's own address and the switch's address.
struct Path {
  Endpoint local;  ///< Port 0: the kernel chooses.
  Endpoint server;
};

/// Registers with the control point and so learns the switch's address.
Result<Path> ask_for_session(const WorkerOptions& options, Path path) {
  const auto control = io::resolve(options.switchml.control, server::kSwitchmlControlPort);
  if (!control) return failure_in("--control: ", control.error());
  // The switch identifies the worker by this address, so packets must come from it.
  const auto own = server::switch_address(path.local, *control);
  if (!own) return failure_in("--local: ", own.error());
  std::random_device random;
  const auto met = server::join_session({.control = *control,
                                         .rank = options.session.rank,
                                         .world = options.session.world,
                                         .elements = options.session.gradients,
                                         .mac = own->mac,
                                         .ipv4 = own->ipv4,
                                         .session_id = uint64_t{random()} << 32 | random(),
                                         .deadline = options.session.deadline});
  if (!met) return tl::unexpected(met.error());
  path.local = Endpoint::ipv4(own->ipv4, 0);
  if (options.server.empty()) path.server = *met;
  return path;
}

Result<Path> find_path(const WorkerOptions& options) {
  Path path;
  if (!options.switchml.local.empty()) {
    const auto local = io::resolve(options.switchml.local, wire::kSwitchmlPort);
    if (!local) return failure_in("--local: ", local.error());
    path.local = *local;
    path.local.port = 0;
  }
  if (!options.server.empty()) {
    const auto server = io::resolve(options.server, wire::kSwitchmlPort);
    if (!server) return failure_in("--server: ", server.error());
    path.server = *server;
  }
  if (options.switchml.control.empty()) return path;
  return ask_for_session(options, path);
}

Result<std::unique_ptr<host::Communicator>> join_switchml(const WorkerOptions& options) {
  const auto path = find_path(options);
  if (!path) return tl::unexpected(path.error());
  auto port = open_port(options, path->local, path->server);
  if (!port) return failure_in("--local: ", port.error());
  port = with_faults(options, *std::move(port));
  if (!port) return tl::unexpected(port.error());
  const host::SwitchmlConfig config{.server = path->server,
                                    .rank = options.session.rank,
                                    .world = options.session.world,
                                    .elements = options.session.gradients,
                                    .pool = options.session.window,
                                    .timeout = options.switchml.resend_after,
                                    .deadline = options.session.deadline};
  if (const auto good = check(config); !good) return tl::unexpected(good.error());
  return host::Communicator::drive(std::make_unique<host::SwitchmlProtocol>(config),
                                   *std::move(port));
}

}  // namespace

uint64_t rank_seed(const WorkerOptions& options) {
  return Prng(Prng(options.seed).any_u64() + options.session.rank).any_u64();
}

Result<std::unique_ptr<host::Communicator>> join_job(const WorkerOptions& options) {
  return options.protocol == Protocol::kSwitchml ? join_switchml(options) : join_trio_ml(options);
}

}  // namespace tributary::cli
