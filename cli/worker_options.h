// SPDX-License-Identifier: Apache-2.0
/// @file
/// What `tributary worker` was told to do.
///
/// Errors: add_worker_command() checks every field; whoever fills one in otherwise keeps to the
///         ranges named here.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "host/communicator.h"
#include "io/faults/impaired_port.h"
#include "wire/protocol.h"

namespace tributary::cli {

enum class ElementType : uint8_t { kInt32, kFloat32 };

using wire::Protocol;

/// What only a worker of SwitchML is told.
struct SwitchmlWorkerOptions {
  std::string control;  ///< Where to ask for a session; empty: the server is told its sessions.
  std::string local;    ///< Address to send from; empty: the one that leads to the server.
  /// Without a result so long, a packet is sent again. Source: the published client's setting.
  Duration resend_after = milliseconds(10);
};

struct WorkerOptions {
  Protocol protocol = Protocol::kTrioMl;
  /// HOST:PORT, resolved when the run starts. Empty: the session's (SwitchML with `control`).
  std::string server;
  std::string port;  ///< dpdk:…, or empty for a UDP socket.
  /// Its server is filled in by the run. SwitchML: `gradients` are a packet's elements, `window`
  /// the slots of the pool.
  host::CommunicatorConfig session;
  SwitchmlWorkerOptions switchml;
  host::AllReduceOptions reduction;  ///< Format and scale are for float32.
  ElementType type = ElementType::kFloat32;
  uint64_t elements = 1'000'000;
  uint64_t iterations = 10;
  uint32_t inflight = 1;  ///< All-reduces on their way at once.
  uint64_t seed = 1;      ///< The same on all ranks, or their values do not match.
  bool verify = false;    ///< Compare every result with generated values; not with an input.

  std::string input_path;   ///< Raw little-endian values instead of generated ones; may be empty.
  std::string output_path;  ///< Gets the last result if all went well; may be empty.
  std::string json_path;    ///< Gets the WorkerResult; may be empty.

  io::FaultRates faults;  ///< Of both directions.
  double straggle = 0;    ///< Probability of each delay point (Trio paper §6.1).
  Duration straggle_iteration = milliseconds(100);  ///< The typical iteration of that pattern.
};

}  // namespace tributary::cli
