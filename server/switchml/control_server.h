// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's control plane over gRPC for unmodified clients: UdpSession, Barrier and Broadcast of
/// server/switchml/switchml.proto. It answers RdmaSession with an error.
///
/// Model:   Control points, each with an address, share the sessions. One job forms at a control
///          point at a time (server/switchml/rendezvous.h). A waiting call holds no thread.
/// Build:   Needs gRPC (Debian: libgrpc++-dev, protobuf-compiler-grpc). Without it, start() says
///          how to install it, and sessions come from the configuration.
/// Threads: One thread calls start() and stop(); gRPC calls the desk from threads of its own.
/// Errors:  A failed call returns a status code and one line of text, also for a refused session,
///          which the published controller answers with zeros.
/// Tests:   tests/server/switchml/switchml_appliance_test.cc, tests/system/switchml_test.cc
#pragma once

#include <memory>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "server/switchml/session_book.h"
#include "server/switchml/switch_address.h"

namespace tributary::server {

/// Port of the published controller. Source: its grpc_server.py.
inline constexpr uint16_t kSwitchmlControlPort = 50'099;

struct ControlConfig {
  std::vector<Endpoint> addresses;  ///< Port 0 lets the system choose.
  /// Longest wait in a barrier or a broadcast. Assumed: covers the start of all ranks of a job.
  Duration deadline = seconds(60);
};

/// Registers workers with sessions. Several threads call it.
class SessionDesk {
 public:
  virtual Result<SwitchAddress> join(const SessionBook::Request& request) = 0;

 protected:
  ~SessionDesk() = default;
};

class ControlServer {
 public:
  virtual ~ControlServer() = default;
  ControlServer() = default;
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Returns whether this program was built with gRPC.
  [[nodiscard]] static bool available();
  /// Starts a control point at each address. `desk` must outlive the server.
  static Result<std::unique_ptr<ControlServer>> start(const ControlConfig& config,
                                                      SessionDesk& desk);
  /// Returns the addresses it listens on, in the order of the configuration.
  [[nodiscard]] virtual const std::vector<Endpoint>& addresses() const = 0;
};

}  // namespace tributary::server
