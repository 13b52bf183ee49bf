// SPDX-License-Identifier: Apache-2.0
#include "cli/worker/worker_interrupt.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <utility>

#include "cli/ending_signals.h"

namespace tributary::cli {
namespace {

/// Nanoseconds between two checks of the watcher whether to stop.
constexpr int64_t kLookNs = 50'000'000;

}  // namespace

WorkerInterrupt::WorkerInterrupt() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

WorkerInterrupt::~WorkerInterrupt() {
  watcher_.request_stop();
  watcher_.join();
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool WorkerInterrupt::requested() const {
  // Count a signal that is pending but not yet taken. When several workers are interrupted
  // together, this one may see that a peer left before its own watcher runs.
  sigset_t pending;
  sigpending(&pending);
  if (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1) return true;
  const std::lock_guard lock(mutex_);
  return requested_;
}

void WorkerInterrupt::set_reaction(std::function<void()> reaction) {
  const std::lock_guard lock(mutex_);
  reaction_ = std::move(reaction);
  if (requested_ && reaction_) reaction_();
}

void WorkerInterrupt::sleep_for(Duration duration) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(in_nanoseconds(duration)),
                    [this] { return requested_; });
}

void WorkerInterrupt::watch(const std::stop_token& stop) {
  const sigset_t set = ending_signals();
  const timespec look{.tv_sec = 0, .tv_nsec = kLookNs};
  while (!stop.stop_requested()) {
    if (sigtimedwait(&set, nullptr, &look) < 0) continue;
    // From here on a signal has its default effect, even if the reaction hangs.
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    const std::lock_guard lock(mutex_);
    requested_ = true;
    changed_.notify_all();
    if (reaction_) reaction_();
    return;
  }
}

}  // namespace tributary::cli
