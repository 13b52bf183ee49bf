// SPDX-License-Identifier: Apache-2.0
/// @file
/// The workers of one job of the soak: threads that join, reduce, leave and rejoin until stopped.
///
/// Model:   Rank 0 chooses the last all-reduce of a session early enough for the others to learn
///          it. So all ranks end a polite session after the same one. In a rude session rank 0
///          leaves in the middle of an all-reduce, and the others must detect that. Between
///          sessions the ranks meet and agree whether to start another.
/// Threads: One per worker, and the communicator's. Any thread may read the counters.
/// Errors:  Counts failures and keeps the first one's text.
/// Memory:  One tensor per worker.
/// Tests:   tests/bench/soak/soak_test.cc
#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/endpoint.h"
#include "host/communicator.h"

namespace tributary::soak {

struct GroupConfig {
  Endpoint server;
  uint8_t job = 1;
  uint32_t workers = 4;
  uint64_t bytes = 1'000'000;         ///< Of each tensor; a multiple of 4.
  uint32_t window = 0;                ///< A worker's packets in flight; 0: the library's choice.
  uint64_t sessions = 0;              ///< Sessions to run; 0: until stopped.
  uint64_t reductions_a_session = 0;  ///< 0: one session until the stop.
  bool rude = false;                  ///< Abort every second session in the middle.
  bool trains = true;                 ///< As in SoakConfig.
};

/// Totals of all groups. Many threads add to them, relaxed: the sums are read after the threads
/// have been joined, or for a rate that need not be exact.
struct Account {
  std::atomic<uint64_t> reduced_bytes{0};  ///< Tensor bytes of successful all-reduces.
  std::atomic<uint64_t> reductions{0};
  std::atomic<uint64_t> wrong{0};     ///< Elements.
  std::atomic<uint64_t> sessions{0};  ///< Joins that succeeded.
  std::atomic<uint64_t> broken{0};    ///< All-reduces that ended because a peer left.
  std::atomic<uint64_t> failed{0};    ///< All other failures.
  std::atomic<uint64_t> packets_sent{0};
  std::atomic<uint64_t> retransmitted{0};

  void fail(const std::string& text);
  [[nodiscard]] std::string first_failure() const;

 private:
  mutable std::mutex mutex_;
  std::string first_failure_;
};

class WorkerGroup {
 public:
  /// Starts the threads. `account` must outlive the group.
  WorkerGroup(const GroupConfig& config, Account& account);
  /// Calls stop() and waits.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  /// Ends sessions after one or two more all-reduces and starts no others. Relaxed: the flag may be
  /// seen a little later.
  void stop() { stop_.store(true, std::memory_order_relaxed); }
  /// Blocks until all threads have ended.
  void wait() { threads_.clear(); }

 private:
  void work(uint32_t rank);
  void run_session(uint32_t rank, std::vector<float>& tensor);
  /// @return false if the session is over for this rank.
  bool reduce(host::Communicator& communicator, uint32_t rank, uint64_t number,
              std::vector<float>& tensor);
  void prepare_next_session() noexcept;

  const GroupConfig config_;
  Account& account_;
  std::atomic<bool> stop_{false};
  // Written by the barrier's completion step, while all threads wait in it.
  bool again_ = true;
  uint64_t session_ = 0;
  std::atomic<uint64_t> end_{0};  ///< The session has only all-reduces with smaller numbers.
  std::barrier<std::function<void()>> meeting_;
  std::vector<std::jthread> threads_;  ///< Last member, so that the threads end first.
};

}  // namespace tributary::soak
