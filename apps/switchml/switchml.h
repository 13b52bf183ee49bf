// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's state on one core: sessions, their slots, who sends from where, and counters. The
/// packet program over it is in program.h.
///
/// Model:   A session is a group of workers that reduce tensors together. Packets bear no session
///          and no worker (byte 1 is a job's number that every client counts from 0), so the
///          sender's IP address says both, as in the published switch. An address belongs to one
///          session at a time; sessions share no slot, no counter and no memory.
/// Shapes:  sessions_max places, each with slots_max slots of two sets.
/// Threads: A Shard belongs to one core; sessions are begun and ended between its bursts.
/// Memory:  Taken by create(); nothing on the packet path, nothing when a session begins.
/// Errors:  One line that names the key and what is allowed. What packets cause is in counters().
/// Source:  SwitchML paper §4, Algorithm 3; published controller for what a session is told.
/// Tests:   tests/apps/switchml/
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/switchml/counters.h"
#include "apps/switchml/slots.h"
#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "memory/shared_memory.h"

namespace tributary::switchml {

/// Most sessions of a server. Assumed: as many as a rack's worth of small jobs.
inline constexpr uint32_t kSessionsLimit = 64;
/// Slots of each set, unless a session says otherwise. Source: published switch program.
inline constexpr uint32_t kSlotsDefault = 8'192;

struct ShardConfig {
  uint32_t sessions_max = 8;           ///< 1 to kSessionsLimit.
  uint32_t slots_max = kSlotsDefault;  ///< 1 to kSlotsLimit; of each session.
};

struct SessionConfig {
  uint32_t workers = 1;            ///< 1 to kWorkersMax.
  uint32_t elements = 64;          ///< Of every packet: 64 or 256.
  uint32_t slots = kSlotsDefault;  ///< Workers use slots 0 … slots-1; 1 to ShardConfig::slots_max.
  /// Nobody says when workers are started again: their UDP ports do (slots.h).
  bool watches_ports = false;
};

/// @return an Error for the first value that is not allowed.
[[nodiscard]] Result<void> check(const ShardConfig& config);
[[nodiscard]] Result<void> check(const SessionConfig& session, const ShardConfig& config);
/// Shared memory of one of `shard_count` shards.
[[nodiscard]] uint64_t memory_bytes(const ShardConfig& config, uint32_t shard_count);

/// UDP ports of one worker at the same time: one for each of its threads. Source: the published
/// client takes up to 16 consecutive ones.
inline constexpr uint32_t kPortsMax = 16;

/// The UDP ports that a worker was last heard from.
class WorkerPorts {
 public:
  /// @return whether this one is new.
  bool note(uint16_t port) {
    if (std::ranges::find(ports_, port) != ports_.end()) return false;
    ports_[next_++ % kPortsMax] = port;
    return true;
  }

 private:
  std::array<uint16_t, kPortsMax> ports_{};  ///< 0: none yet.
  uint32_t next_ = 0;
};

/// One session on one core.
class Session {
 public:
  explicit Session(const SlotPool& session_pool) : pool(session_pool) {}

  SlotPool pool;
  SessionConfig config;
  bool active = false;
  uint32_t epoch = 0;       ///< Of this place's sessions, this one's number; from 1.
  uint32_t registered = 0;  ///< Bit w: worker w's address is known.
  uint64_t packets = 0;     ///< Of its workers, refused ones included.
  uint64_t slots_completed = 0;
  /// When each worker's last packet came; the beginning of time for those that sent none.
  std::array<Instant, kWorkersMax> heard_at{};
  uint32_t generation = 0;  ///< SetOwner::generation.
  std::array<WorkerPorts, kWorkersMax> ports{};
  std::vector<Endpoint> destinations;  ///< Shape [config.workers]; ports are those of a use.

  [[nodiscard]] bool is_complete() const {
    return registered == UINT32_MAX >> (kWorkersMax - config.workers);
  }
};

/// Whose address it is.
struct Sender {
  std::array<uint8_t, 16> address{};
  Session* session = nullptr;
  uint32_t worker = 0;
};

class Shard {
 public:
  /// @param index This core's number, below shard_count (a power of two).
  static Result<std::unique_ptr<Shard>> create(const ShardConfig& config, uint32_t index,
                                               uint32_t shard_count, memory::SharedMemory& memory);

  // --- For whoever keeps sessions, between bursts ------------------------------------------------

  /// Begins a session anew in this place; what was there is forgotten.
  /// @pre check(session, config()) and place < config().sessions_max.
  void begin_session(uint32_t place, const SessionConfig& session);
  /// Says where a worker of the session sends from; its port is ignored. Refuses a rank that the
  /// session does not have and an address that belongs to another worker.
  Result<void> set_worker(uint32_t place, uint32_t worker, const Endpoint& address);
  void end_session(uint32_t place);

  [[nodiscard]] const Session& session(uint32_t place) const { return sessions_[place]; }
  [[nodiscard]] const ShardConfig& config() const { return config_; }
  [[nodiscard]] uint32_t index() const { return index_; }

  // --- For the program ---------------------------------------------------------------------------

  /// @return null for an address of no session.
  [[nodiscard]] const Sender* find(const Endpoint& source) const;
  /// The same for a packet from there, which is noted.
  [[nodiscard]] const Sender* hear(const Endpoint& source, Instant now) {
    const Sender* const sender = find(source);
    if (sender == nullptr) return nullptr;
    sender->session->packets++;
    Session& session = *sender->session;
    session.heard_at[sender->worker] = now;
    if (session.config.watches_ports && session.ports[sender->worker].note(source.port)) {
      session.generation++;
    }
    return sender;
  }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Called by the engine before a burst: what was sent before has left.
  void begin_burst() { burst_++; }
  [[nodiscard]] uint64_t burst() const { return burst_; }

 private:
  Shard(const ShardConfig& config, uint32_t index);
  [[nodiscard]] size_t first_place(const std::array<uint8_t, 16>& address) const;
  void add_sender(const Sender& sender);
  /// Drops the entries of one worker, or of all.
  void remove_senders(const Session& session, uint32_t worker_first, uint32_t worker_last);

  const ShardConfig config_;
  const uint32_t index_;
  std::vector<Session> sessions_;
  std::vector<Sender> senders_;  ///< Open addressing, at most half full.
  Counters counters_{};
  uint64_t burst_ = 1;
};

}  // namespace tributary::switchml
