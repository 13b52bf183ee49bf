// SPDX-License-Identifier: Apache-2.0
/// @file
/// One thread of a rank: drives channels, each with its protocol and its port.
///
/// Model:   A loop reads the clock once and gives each channel a round. A loop without packets
///          yields (host/yield_policy.h) or sleeps until a packet, a submission or the next
///          deadline of any channel. On slow links, a loop with packets may nap (nap_policy.h).
/// Threads: Any thread may call add(); one thread calls finish().
/// Errors:  None.
/// Memory:  A channel outlives its thread.
/// Tests:   tests/host/channel_thread_test.cc, tests/host/communicator_threads_test.cc
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/time.h"
#include "host/channel.h"
#include "host/yield_policy.h"
#include "io/wait_set.h"

namespace tributary::host {

class ChannelThread {
 public:
  ChannelThread() = default;
  /// Calls leave() of each channel, and finish().
  ~ChannelThread();
  ChannelThread(const ChannelThread&) = delete;
  ChannelThread& operator=(const ChannelThread&) = delete;

  /// Drives a channel until its protocol has ended. @pre finish() has not been called.
  /// @pre Each channel of the thread can_share_thread(), or there is only one.
  void add(Channel& channel);
  /// Waits until the protocols of all channels have ended, and ends the thread.
  void finish();

 private:
  struct Loop {
    Instant now;
    bool received = false;
    bool is_busy = false;  ///< Packets were received or sent.
    bool is_full = false;  ///< Packets may be left behind.
  };

  void run();
  bool take_added();
  Loop run_rounds();
  void drop_ended();
  void pause(const Loop& loop);
  [[nodiscard]] bool is_working() const;
  [[nodiscard]] Duration nap(Instant now) const;
  [[nodiscard]] Duration until_due(Instant now) const;
  void sleep(Duration at_most);
  void expect_packets();

  // The thread's own.
  std::vector<Channel*> running_;
  io::WaitSet waits_;
  Instant busy_at_;         ///< Time of the last packet, either way.
  bool waits_now_ = false;  ///< The thread has paused since the last packet.
  YieldPolicy yield_policy_;

  // Under the mutex.
  std::mutex mutex_;
  std::condition_variable changed_;  ///< A channel was added, or the thread should end.
  std::vector<Channel*> added_;      ///< Not yet taken.
  std::vector<Channel*> channels_;   ///< All of them.
  bool finishing_ = false;

  std::thread thread_;
};

}  // namespace tributary::host
