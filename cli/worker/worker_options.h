// SPDX-License-Identifier: Apache-2.0
/// @file
/// The options of `tributary worker`.
///
/// Errors:  add_worker_command() checks every field. Other callers must keep to the ranges named
///          here.
#pragma once

#include <cstdint>
#include <string>

#include "auth/mode.h"
#include "base/time.h"
#include "host/communicator.h"
#include "io/faults/impaired_port.h"
#include "wire/protocol.h"

namespace tributary::cli {

enum class ElementType : uint8_t { kInt32, kFloat32 };

using wire::Protocol;

/// Options for SwitchML only.
struct SwitchmlWorkerOptions {
  std::string control;  ///< Control point, HOST:PORT; empty if the server's sessions are
                        ///< configured.
  std::string local;    ///< Address to send from; empty: the one that routes to the server.
  /// Retransmit a packet after this long without a result. Source: the published client's setting.
  Duration resend_after = milliseconds(10);
};

/// The rank that alone gets an iteration's result (AllReduceOptions::owner).
enum class Owner : uint8_t {
  kAll,    ///< Every rank gets it.
  kRank,   ///< Always WorkerOptions::owner_rank.
  kTurns,  ///< The ranks in turn: `world` iterations are a reduce-scatter.
  kDrawn,  ///< Drawn from the seed: all ranks, or any rank.
};

struct WorkerOptions {
  Protocol protocol = Protocol::kTrioMl;
  /// HOST:PORT, resolved when the run starts. May be empty for SwitchML with `control`: the control
  /// point then gives the address.
  std::string server;
  std::string port;  ///< dpdk:…, or empty for a UDP socket.
  /// The run sets its server. For SwitchML, `gradients` is the number of elements in a packet and
  /// `window` the number of slots in the pool.
  host::CommunicatorConfig session;
  auth::Mode auth = auth::Mode::kNone;  ///< Trio-ML only.
  std::string secret_path;  ///< File with the job's secret; empty: see auth::find_secret().
  SwitchmlWorkerOptions switchml;
  host::AllReduceOptions reduction;  ///< Format and scale apply to float32.
  ElementType type = ElementType::kFloat32;
  Owner owner = Owner::kAll;
  uint32_t owner_rank = 0;
  uint64_t elements = 1'000'000;
  uint64_t iterations = 10;
  uint32_t inflight = 1;  ///< All-reduces in flight at once.
  /// Length of the urgent tensor behind each tensor, with the most urgent priority; 0: none.
  uint64_t urgent_elements = 0;
  uint64_t seed = 1;    ///< The same on all ranks, or their values do not match.
  bool verify = false;  ///< Check every result against generated values; not with an input.

  std::string input_path;   ///< Raw little-endian values to send instead; may be empty.
  std::string output_path;  ///< Receives the last result of a successful run; may be empty.
  std::string json_path;    ///< Receives the WorkerResult; may be empty.
  Duration report_every;    ///< Period of progress lines on standard output; 0: none.

  io::FaultRates faults;  ///< In both directions.
  double straggle = 0;    ///< Probability of a delay at each delay point (Trio paper §6.1).
  Duration straggle_iteration = milliseconds(100);  ///< Typical iteration of that pattern.
};

}  // namespace tributary::cli
