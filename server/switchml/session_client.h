// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's side of SwitchML's control plane: the calls of the published client, in its order.
///
/// Build:   With gRPC, as server/switchml/control_server.h.
/// Threads: Any; blocks until every worker of the job has come, at most as long as asked for.
/// Errors:  One line: which call could not be made at which control point, or what it answered.
/// Source:  p4lang/p4app-switchML, commit b5c74a0: its client's grpc_client.cc.
/// Tests:   tests/system/switchml_worker_test.cc
#pragma once

#include <cstdint>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::server {

struct SessionRequest {
  Endpoint control;  ///< Where the server takes calls.
  uint32_t rank = 0;
  uint32_t world = 1;
  uint32_t elements = 256;  ///< Of a packet: 64 or 256.
  uint64_t mac = 0;         ///< Of the interface that this worker sends from; low 48 bits.
  uint32_t ipv4 = 0;        ///< From where it sends; host order.
  uint64_t session_id = 0;  ///< Rank 0 says it; the others are told.
  Duration deadline = seconds(60);
};

/// Makes a worker known, and waits for the others. @return where to send packets to: the switch's
/// address, with SwitchML's port.
[[nodiscard]] Result<Endpoint> join_session(const SessionRequest& request);

}  // namespace tributary::server
