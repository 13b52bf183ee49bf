// SPDX-License-Identifier: Apache-2.0
/// @file
/// The inside of a modelled PFE at one moment, as plain data: threads and what they wait for, the
/// packets before them, the banks' queues.
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
  kReady,      ///< A timer's thread that waits for a free one.
  kExecuting,  ///< Instructions, or about to end.
  kWaiting,    ///< For a reply.
  kHeld,       ///< Ended; its packet waits for earlier ones of its flow.
};
/// "ready", "executing", …
[[nodiscard]] const char* to_string(ThreadState state);

struct ThreadView {
  uint32_t number = 0;       ///< The machine's name for it.
  PpeThread place;           ///< Where it runs, or ran; of a train, the first of its places.
  uint32_t place_count = 0;  ///< 0: none yet.
  uint64_t packet = 0;       ///< 0: a timer's.
  ThreadState state = ThreadState::kExecuting;
  Instant started_at;          ///< On its PPE.
  Instant since;               ///< It waits; else its own clock.
  std::string waits_for = {};  ///< The XTXN's kind; empty if it does not wait.
  std::string target = {};     ///< And at what, in the program's words.
  uint64_t instructions = 0;   ///< So far.
};

struct WaitingView {
  uint64_t packet = 0;
  uint32_t size_bytes = 0;
  Instant arrived_at;
  bool in_ingress = false;  ///< Its head has not reached the dispatch module yet.
};

struct BankView {
  Duration backlog;  ///< Work that it has before it.
  Duration busy;     ///< Work that it has done or taken on since the start.
};

struct PfeView {
  Instant at;
  uint32_t thread_count = 0;         ///< That the machine has.
  std::vector<ThreadView> threads;   ///< Those in use, by number.
  std::vector<WaitingView> waiting;  ///< In order of arrival.
  std::vector<BankView> banks;
};

}  // namespace tributary::engine
