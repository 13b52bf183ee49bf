// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keeps a write to a closed pipe or socket from ending the process.
///
/// Threads: Changes the signal mask of the calling thread only.
/// Errors:  None; the write reports EPIPE.
/// Tests:   tests/base/result_file_test.cc
#pragma once

#include <csignal>
#include <ctime>

namespace tributary {

/// Keeps SIGPIPE from ending the process, and removes the one that a write raised.
class PipeSignalGuard {
 public:
  PipeSignalGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalGuard() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalGuard(const PipeSignalGuard&) = delete;
  PipeSignalGuard& operator=(const PipeSignalGuard&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace tributary
