// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a worker's protocol through the steps in a fuzzer's input: tensors, packets of its peers
/// (any bytes, or valid ones with some bytes replaced), and time.
///
/// Checks:  Each step sends a bounded number of packets, each at most packet_bytes_max(). Texts are
///          bounded. No packet enlarges the terms that the worker asked for. At the end, all
///          transfers are done.
/// Threads: One. Time is virtual.
/// Tests:   tests/fuzz/replay_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "host/tensor_protocol.h"
#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {

/// A step's first byte.
enum class ProtocolStep : uint8_t {
  kRaw,     ///< A peer (one byte), then a byte string.
  kPacket,  ///< A peer, then a peer's packet, as Peers::packet() reads it, then its damage.
  kSubmit,  ///< A tensor: its elements (one byte) and its type (one byte).
  kWait,    ///< 16 bits: up to 6.5 s.
};
inline constexpr uint32_t kProtocolSteps = 4;

/// The peers of a protocol.
struct Peers {
  std::vector<Endpoint> addresses;
  /// Reads which of a peer's packets to make, and makes it.
  std::function<std::vector<std::byte>(InputReader& in)> packet;
  /// Called for each packet that the protocol sends.
  std::function<void(std::span<const std::byte>)> on_sent = [](std::span<const std::byte>) {};
};

/// The limits that hold whatever the peers send.
struct ProtocolLimits {
  uint32_t window = 1;
  uint32_t packet_bytes = 0;
};

/// Bytes of the longest text: up to 256 ranks by number.
inline constexpr size_t kTextBytesMax = 2048;

/// Runs all steps, then closes the protocol.
void run_steps(InputReader& in, host::TensorProtocol& protocol, const Peers& peers,
               const ProtocolLimits& limits);

}  // namespace tributary::fuzz
