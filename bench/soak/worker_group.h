// SPDX-License-Identifier: Apache-2.0
/// @file
/// The workers of one job of the soak: threads that join, reduce, leave and come back until they
/// are told to stop.
///
/// Model:   Rank 0 decides with which all-reduce a session ends, early enough for the others to
///          know, so that a polite session ends for all after the same one. In a rude session rank
///          0 goes in the middle of an all-reduce and the others have to notice. Between sessions
///          the ranks meet and agree whether there is another one.
/// Threads: One for each worker, and the communicator's; the counters may be read by any thread.
/// Errors:  What went wrong is counted, and the first one's text kept.
/// Memory:  One tensor a worker.
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
  uint64_t bytes = 1'000'000;  ///< Of a tensor; a multiple of 4.
  uint32_t window = 0;         ///< Packets a worker may have in flight; 0: the library's choice.
  uint64_t sessions = 0;       ///< Then it stops by itself; 0: never.
  uint64_t reductions_a_session = 0;  ///< 0: one session until the stop.
  bool rude = false;                  ///< Every second session ends in the middle.
  bool trains = true;                 ///< As in SoakConfig.
};

/// What all groups together have done. Written by many threads, each with relaxed additions: the
/// sums are read after the threads have been joined, or for a rate that need not be exact.
struct Account {
  std::atomic<uint64_t> reduced_bytes{0};  ///< Tensor bytes of all-reduces that ended well.
  std::atomic<uint64_t> reductions{0};
  std::atomic<uint64_t> wrong{0};     ///< Elements.
  std::atomic<uint64_t> sessions{0};  ///< Joins that succeeded.
  std::atomic<uint64_t> broken{0};    ///< All-reduces that ended because a peer had gone.
  std::atomic<uint64_t> failed{0};    ///< Anything else that went wrong.
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
  /// stop()s and waits.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  /// Sessions end after one or two more all-reduces, and no other begins.
  void stop() { stop_.store(true, std::memory_order_relaxed); }  // Seen soon is enough.
  /// Blocks until all threads have ended.
  void wait() { threads_.clear(); }

 private:
  void work(uint32_t rank);
  void run_session(uint32_t rank, std::vector<float>& tensor);
  /// @return false when the session is over for this rank.
  bool reduce(host::Communicator& communicator, uint32_t rank, uint64_t number,
              std::vector<float>& tensor);
  void prepare_next_session() noexcept;

  const GroupConfig config_;
  Account& account_;
  std::atomic<bool> stop_{false};
  // Written by the barrier's completion, while every thread waits in it.
  bool again_ = true;
  uint64_t session_ = 0;
  std::atomic<uint64_t> end_{0};  ///< No all-reduce with this number or more in this session.
  std::barrier<std::function<void()>> meeting_;
  std::vector<std::jthread> threads_;  ///< Last, so that they end first.
};

}  // namespace tributary::soak
