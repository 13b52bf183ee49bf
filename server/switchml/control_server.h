// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's control plane over gRPC, as an unmodified client calls it: UdpSession, Barrier and
/// Broadcast of server/switchml/switchml.proto. RdmaSession is answered with an error.
///
/// Model:   One or more control points, each an address of its own where one job forms at a time
///          (server/switchml/rendezvous.h); they share the sessions. A call that waits takes no
///          thread.
/// Build:   With gRPC (Debian: libgrpc++-dev, protobuf-compiler-grpc). Without, start() says how to
///          get it and sessions come from the configuration.
/// Threads: start() and stop() belong to one thread; gRPC calls the desk from its own.
/// Errors:  A call that fails has a status code and one line of text. Where the published
/// controller
///          answers a refused session with zeros, the client here gets the reason.
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

/// Where the published controller listens. Source: its grpc_server.py.
inline constexpr uint16_t kSwitchmlControlPort = 50'099;

struct ControlConfig {
  std::vector<Endpoint> addresses;  ///< Port 0 lets the system choose.
  /// Longest wait in a barrier or a broadcast. Assumed: as long as ranks of a job take to start.
  Duration deadline = seconds(60);
};

/// Who gives sessions to workers. Called by several threads.
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

  /// Whether this program was built with gRPC.
  [[nodiscard]] static bool available();
  /// @param desk Must outlive it.
  static Result<std::unique_ptr<ControlServer>> start(const ControlConfig& config,
                                                      SessionDesk& desk);
  /// Where it listens, in the order of the configuration.
  [[nodiscard]] virtual const std::vector<Endpoint>& addresses() const = 0;
};

}  // namespace tributary::server
