// SPDX-License-Identifier: Apache-2.0
/// @file
/// The event counts of a worker.
///
/// Units:   Packets, blocks, elements.
/// Threads: Plain values without shared state.
/// Tests:   tests/host/trio_ml/worker_protocol_test.cc, tests/host/communicator_threads_test.cc
#pragma once

#include <cstdint>

namespace tributary::host {

/// Events since the start, summed over all threads of a communicator.
struct CommunicatorCounters {
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t retransmitted = 0;  ///< Contributions sent again.
  uint64_t probes = 0;         ///< Header-only questions about a block.
  uint64_t blocks = 0;         ///< Results accepted.
  uint64_t degraded_blocks = 0;
  uint64_t duplicate_results = 0;
  uint64_t invalid_packets = 0;   ///< Malformed, foreign or of another session; ignored.
  uint64_t forged_packets = 0;    ///< Not sealed with the session's key; ignored.
  uint64_t replayed_packets = 0;  ///< Sealed, but seen before; ignored.
  uint64_t bytes = 0;             ///< Tensor bytes in the results accepted.
  uint64_t underflowed = 0;       ///< Non-zero elements of this rank that became 0 as lanes.

  /// Adds every count of `more`, for an owner of several protocols.
  CommunicatorCounters& operator+=(const CommunicatorCounters& more) {
    packets_sent += more.packets_sent;
    packets_received += more.packets_received;
    retransmitted += more.retransmitted;
    probes += more.probes;
    blocks += more.blocks;
    degraded_blocks += more.degraded_blocks;
    duplicate_results += more.duplicate_results;
    invalid_packets += more.invalid_packets;
    forged_packets += more.forged_packets;
    replayed_packets += more.replayed_packets;
    bytes += more.bytes;
    underflowed += more.underflowed;
    return *this;
  }
};

}  // namespace tributary::host
