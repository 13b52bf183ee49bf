// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a modelled PFE at one moment, as plain data: threads and the replies they wait for,
/// waiting packets, and the banks' queues.
///
/// Units:   Instants of virtual time.
/// Tests:   tests/engine/model/pfe_trace_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/model/dispatch.h"

namespace tributary::engine {

enum class ThreadState : uint8_t {
  kReady,      ///< A timer's thread waiting for a free PPE thread.
  kExecuting,  ///< Executing instructions, or about to end.
  kWaiting,    ///< Waiting for a reply.
  kHeld,       ///< Ended; its packet waits for earlier ones of its flow.
};
/// Returns "ready", "executing", …
[[nodiscard]] const char* to_string(ThreadState state);

struct ThreadView {
  uint32_t number = 0;       ///< The machine's name for it.
  PpeThread place;           ///< Where it runs or ran; for a train, the first place.
  uint32_t place_count = 0;  ///< 0: none yet.
  uint64_t packet = 0;       ///< 0: a timer's.
  ThreadState state = ThreadState::kExecuting;
  Instant started_at;          ///< When it started on its PPE.
  Instant since;               ///< Start of its wait; otherwise its own clock.
  std::string waits_for = {};  ///< Kind of the XTXN; empty if it does not wait.
  std::string target = {};     ///< The XTXN's target, in the program's words.
  uint64_t instructions = 0;   ///< So far.
};

struct WaitingView {
  uint64_t packet = 0;
  uint32_t size_bytes = 0;
  Instant arrived_at;
  bool in_ingress = false;  ///< Its head has not reached the dispatch module yet.
};

struct BankView {
  Duration backlog;  ///< Work queued or reserved.
  Duration busy;     ///< Work done or accepted since the start.
};

struct PfeView {
  Instant at;
  uint32_t thread_count = 0;         ///< Threads of the whole machine, in use or idle.
  std::vector<ThreadView> threads;   ///< Threads in use, by number.
  std::vector<WaitingView> waiting;  ///< In order of arrival.
  std::vector<BankView> banks;
};

}  // namespace tributary::engine
