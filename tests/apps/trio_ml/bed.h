// SPDX-License-Identifier: Apache-2.0
/// @file
/// A Trio-ML core on a bench: the live machine over an in-memory port in virtual time. A test sends
/// messages like a worker, runs the core at chosen times and examines its output.
///
/// Shapes:  One core, shard 0 of 1 by default; any number of jobs.
/// Threads: One.
/// Memory:  Allocates; for tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/trio_ml/app.h"
#include "engine/live/live_core.h"
#include "io/memory/in_memory_port.h"
#include "tests/apps/counts.h"

namespace tributary::trio_ml {

using Bytes = std::vector<std::byte>;
using Values = std::vector<int32_t>;
using apps::Counts;

/// Returns the address of worker `source`.
Endpoint worker(uint32_t source);
/// Returns an address of no worker.
Endpoint stranger();

/// Returns the bytes of a message with its gradients. The header gives grad_cnt.
Bytes encoded(const Message& message, const Values& gradients = {});
/// Returns a contribution with the paper's twelve-byte header.
Message plain(uint32_t source, uint32_t block_id, uint16_t gen_id, const Values& gradients);
Bytes plain_bytes(uint32_t source, uint32_t block_id, uint16_t gen_id, const Values& gradients);

/// A packet that the core has sent.
struct Reply {
  Message message;
  Values gradients;
  Bytes bytes;  ///< The UDP payload.
  Endpoint to;
};

struct BedConfig {
  std::vector<JobConfig> jobs;
  engine::PacketLayer layer = engine::PacketLayer::kUdpPayload;
  Endpoint local = Endpoint::ipv4(0x0a000064, wire::kTrioMlPort);
  uint64_t dram_bytes = uint64_t{256} << 20;
  uint32_t packets_max = 1024;
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
  Session* session = nullptr;  ///< Session shared with another bed's only job; null: its own.
};

class Bed {
 public:
  explicit Bed(const BedConfig& config);
  explicit Bed(const JobConfig& job, engine::PacketLayer layer = engine::PacketLayer::kUdpPayload)
      : Bed(BedConfig{.jobs = {job}, .layer = layer}) {}

  /// Puts a UDP payload into the core's queue.
  void inject(const Bytes& payload, const Endpoint& from);
  /// Puts bytes into the queue unchanged: a whole frame on a bed of frames.
  void inject_raw(const Bytes& bytes);
  /// Runs rounds of the core's loop at the present time until its queue is empty; at least one.
  void run();
  /// Calls inject() and run().
  void deliver(const Bytes& payload, const Endpoint& from);
  /// Delivers a plain contribution of worker `source`.
  void contribute(uint32_t source, uint32_t block_id, uint16_t gen_id, const Values& gradients) {
    deliver(plain_bytes(source, block_id, gen_id, gradients), worker(source));
  }

  /// Returns the packets sent since the last call.
  std::vector<Reply> take();
  /// Returns the result that `source` got since the last take(). Expects exactly one.
  Reply take_result(uint32_t source);

  void set_now(Instant now) { now_ = now; }
  void advance(Duration by) { now_ = now_ + by; }
  [[nodiscard]] Instant now() const { return now_; }
  /// Advances the time until the core would wake by itself, at most to `until`, and runs it.
  void step(Instant until);
  /// Advances the time to `until`, and runs the loop whenever the core would wake by itself.
  void run_until(Instant until);

  [[nodiscard]] Counts counts() const;
  [[nodiscard]] uint64_t counted(Outcome outcome) const {
    return shard_.counters()[static_cast<uint32_t>(outcome)].packets;
  }
  /// Returns the counts since `before`.
  [[nodiscard]] Counts counted_since(const Counts& before) const;

  [[nodiscard]] Job& job(uint8_t id = 1) { return *shard_.job(id); }
  [[nodiscard]] Shard& shard() { return shard_; }
  [[nodiscard]] memory::SharedMemory& memory() { return memory_; }
  [[nodiscard]] Session& session(uint8_t id = 1) { return job(id).session; }
  [[nodiscard]] io::InMemoryPort& port() { return port_; }
  [[nodiscard]] const Endpoint& local() const { return config_.local; }
  [[nodiscard]] engine::LiveCore<App>& core() { return core_; }

 private:
  const BedConfig config_;
  Instant now_;
  io::InMemoryPort port_;
  memory::SharedMemory memory_;
  std::vector<std::unique_ptr<Session>> sessions_;
  Shard shard_;
  engine::LiveCore<App> core_;
};

/// One worker process of a job with a session: its key, the session's, and its messages.
struct Member {
  uint32_t source = 0;
  uint64_t key = 0;
  uint64_t result_key = 0;
  uint8_t job_id = 1;

  [[nodiscard]] Message message(MessageType type, uint32_t block_id) const;
  /// Returns a contribution to block `block_id` of a tensor as long as its gradients.
  [[nodiscard]] Message contribution(uint32_t block_id, const Values& gradients) const;
  [[nodiscard]] Bytes contribution_bytes(uint32_t block_id, const Values& gradients) const {
    return encoded(contribution(block_id, gradients), gradients);
  }
};

/// Returns a worker's join.
Message join_message(uint32_t source, uint64_t nonce, uint32_t world, uint8_t job_id = 1);
/// Delivers a worker's join as often as a worker would: first without a cookie, then with it.
/// @return the replies to the join with the cookie.
std::vector<Reply> deliver_join(Bed& bed, Message join, const Endpoint& from);
/// Lets all workers of the job join; the nonce of source s is `nonce_base` + s.
std::vector<Member> join_all(Bed& bed, uint64_t nonce_base = 1000, uint8_t job_id = 1);

/// Expects that injecting `payload` counts `reason` once, with its size, and has no other effect:
/// no other counter, no packet, no block record, no buffer.
void expect_refused(Bed& bed, const Bytes& payload, const Endpoint& from, Outcome reason);
/// Expects that the one packet that `inject` injects counts `reason` once and has no other effect.
void expect_refused(Bed& bed, const std::function<void()>& inject, Outcome reason);

}  // namespace tributary::trio_ml
