// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's side of SwitchML's control plane: the calls of the published client, in its order.
///
/// Build:   Needs gRPC, like server/switchml/control_server.h.
/// Threads: Any. Blocks until every worker of the job has arrived or the deadline passes.
/// Errors:  One line with the control point, the failed call and its status text.
/// Source:  p4lang/p4app-switchML, commit b5c74a0: its client's grpc_client.cc.
/// Tests:   tests/system/switchml_worker_test.cc
#pragma once

#include <cstdint>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::server {

struct SessionRequest {
  Endpoint control;  ///< The server's control point.
  uint32_t rank = 0;
  uint32_t world = 1;
  uint32_t elements = 256;  ///< In each packet: 64 or 256.
  uint64_t mac = 0;         ///< MAC address of the sending interface, in the low 48 bits.
  uint32_t ipv4 = 0;        ///< Source address of the packets; host order.
  uint64_t session_id = 0;  ///< Rank 0 chooses it; the other ranks receive it.
  Duration deadline = seconds(60);
};

/// Registers this worker and waits for the others.
/// @return where to send packets: the switch's address with SwitchML's port.
[[nodiscard]] Result<Endpoint> join_session(const SessionRequest& request);

}  // namespace tributary::server
