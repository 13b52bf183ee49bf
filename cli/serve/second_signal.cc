// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/second_signal.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <utility>

#include "base/assert.h"
#include "base/signal_safe_text.h"
#include "cli/ending_signals.h"

namespace tributary::cli {
namespace {

/// A healthy core answers within this time. Two signals may come at once: of a terminal and of a
/// parent process.
constexpr uint32_t kPatienceMs = 500;
constexpr uint32_t kAskEveryMs = 20;

struct State {
  std::string before_core;  ///< Text of the line before the core's number.
  std::string after_core;
  SecondSignal::LateCore late_core;
};
State* state = nullptr;
std::atomic<bool> signal_has_come{false};

/// Uses functions that POSIX allows in a handler.
void take_signal(int) {
  if (!signal_has_come.exchange(true) || state == nullptr) return;
  std::optional<uint32_t> late;
  for (uint32_t waited_ms = 0; waited_ms < kPatienceMs; waited_ms += kAskEveryMs) {
    late = state->late_core();
    if (!late) return;
    const timespec pause{.tv_sec = 0, .tv_nsec = kAskEveryMs * 1'000'000L};
    nanosleep(&pause, nullptr);
  }
  write_error_text(state->before_core);
  write_error_number(*late);
  write_error_text(state->after_core);
  _exit(1);
}

}  // namespace

SecondSignal::SecondSignal(const std::string& title, const std::string& program,
                           LateCore late_core) {
  TRIB_ASSERT(state == nullptr);
  state = new State{
      title + ": ended by a second signal: core ",
      " does not return from program '" + program + "'; its last counters and records are lost\n",
      std::move(late_core)};
  struct sigaction action {};
  action.sa_handler = take_signal;
  action.sa_mask = ending_signals();
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

SecondSignal::~SecondSignal() {
  block();
  delete std::exchange(state, nullptr);
}

void SecondSignal::unblock() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void SecondSignal::block() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool SecondSignal::has_come() { return signal_has_come.load(); }
void SecondSignal::note() { signal_has_come.store(true); }

}  // namespace tributary::cli
