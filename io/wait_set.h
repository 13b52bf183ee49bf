// SPDX-License-Identifier: Apache-2.0
/// @file
/// Waits for several queues at once, in one system call.
///
/// Threads: Owned by the thread of its queues.
/// Errors:  None. A failed poll() ends the wait, and no queue is ready.
/// Memory:  Grows to the largest set, then stays.
/// Tests:   tests/io/wait_set_test.cc
#pragma once

#include <poll.h>

#include <vector>

#include "base/time.h"
#include "engine/port.h"

namespace tributary::io {

class WaitSet {
 public:
  void clear() { members_.clear(); }
  /// Adds a queue. wait() sets `ready` if a packet may have arrived there or wake() was called, and
  /// never clears it. Both must outlive the next wait().
  void add(engine::WaitSource& source, bool& ready) { members_.push_back({&source, &ready}); }

  /// Blocks until a queue is ready or `at_most` has passed.
  void wait(Duration at_most);

 private:
  struct Member {
    engine::WaitSource* source;
    bool* ready;
    size_t polled_end = 0;  ///< One past the last of its descriptors.
  };
  [[nodiscard]] size_t begin();

  std::vector<Member> members_;
  std::vector<pollfd> polled_;
};

/// A wait for one queue: the implementation of its wait().
class SingleWait {
 public:
  /// @param source The queue that owns this.
  explicit SingleWait(engine::WaitSource& source) { set_.add(source, ready_); }
  SingleWait(const SingleWait&) = delete;
  SingleWait& operator=(const SingleWait&) = delete;
  void wait(Duration at_most) { set_.wait(at_most); }

 private:
  bool ready_ = false;
  WaitSet set_;
};

}  // namespace tributary::io
