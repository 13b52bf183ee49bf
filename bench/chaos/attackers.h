// SPDX-License-Identifier: Apache-2.0
/// @file
/// Strangers that send while the chaos runs: a forger and a flooder, each a thread with sockets of
/// its own.
///
/// Model:   The forger sends well-formed messages with random keys, cookies and seals: to the
///          server contributions, probes, leaves and joins, which it never completes; to the
///          workers results, welcomes, notices and resets. Where raw sockets are allowed, half
///          carry a member's or the server's address. The flooder sends random bytes, and messages
///          about random blocks, to the server.
/// Threads: Two of its own; the owner calls aim() at any time.
/// Errors:  A packet that the kernel refuses is not counted as sent.
/// Tests:   tests/bench/chaos/attackers_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "auth/mode.h"
#include "base/endpoint.h"
#include "base/prng.h"
#include "wire/trio_ml.h"

namespace tributary::chaos {

struct AttackConfig {
  Endpoint server;
  uint32_t workers = 0;
  auth::Mode auth = auth::Mode::kNone;  ///< The job's: forged messages have seals of this size.
  uint64_t seed = 0;
  uint32_t forged_per_s = 0;   ///< 0: no forger.
  uint32_t flooded_per_s = 0;  ///< 0: no flooder.
  std::string network;         ///< Network namespace to send from; empty: this process's.
};

/// Returns a random message of a stranger who knows everything but keys.
/// @param upward To the server; else to a worker.
[[nodiscard]] std::vector<std::byte> forged_message(Prng& prng, const AttackConfig& config,
                                                    bool upward);

class Attackers {
 public:
  explicit Attackers(const AttackConfig& config);
  ~Attackers();
  Attackers(const Attackers&) = delete;
  Attackers& operator=(const Attackers&) = delete;

  /// Names the workers' addresses. Until then the forger sends to the server only.
  void aim(std::vector<Endpoint> workers);
  [[nodiscard]] uint64_t forged() const { return forged_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t flooded() const { return flooded_.load(std::memory_order_relaxed); }

 private:
  void forge(const std::stop_token& stop);
  void flood(const std::stop_token& stop);
  [[nodiscard]] std::vector<Endpoint> workers() const;

  const AttackConfig config_;
  mutable std::mutex mutex_;
  std::vector<Endpoint> workers_;
  // Relaxed: figures for the report; no other data depends on them.
  std::atomic<uint64_t> forged_{0};
  std::atomic<uint64_t> flooded_{0};
  std::jthread forger_;
  std::jthread flooder_;
};

}  // namespace tributary::chaos
