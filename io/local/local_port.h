// SPDX-License-Identifier: Apache-2.0
/// @file
/// A client's port to a server on the same machine, through shared memory: no network card and no
/// network stack of the kernel. A busy side makes no system call; a sleeping side is woken.
///
/// Model:   One queue. Each packet goes to the ring of the core that owns it (SteeringField). The
///          source of all packets is the server's UDP address.
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: The queue belongs to one thread; any thread may call wake() and counters().
/// Errors:  connect() returns one line. Later, the end of the connection is counted once in
///          peer_closed, after the last packet; a packet without room in tx_refused.
/// Memory:  The connection's rings, about 2 MB for each core of the server, and a stage of 256 KB.
/// Tests:   tests/io/local/local_port_test.cc, tests/io/local/local_process_test.cc
#pragma once

#include <memory>

#include "base/result.h"
#include "engine/port.h"

namespace tributary::io {

/// Connects to the local server of the aggregator at this UDP address. Waits at most three seconds.
/// Refuses an address of another machine, a server that does not answer, and one whose user does
/// not hold the UDP address.
[[nodiscard]] Result<std::unique_ptr<engine::Port>> connect_local_port(const Endpoint& server);

}  // namespace tributary::io
