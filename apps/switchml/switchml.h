// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's state on one core: sessions, their slots, the addresses of their workers, and
/// counters. The packet program that works on it is program.h.
///
/// Model:   A session is a group of workers that reduce tensors together. Packets name neither
///          session nor worker (byte 1 is a job number that every client counts from 0), so the
///          sender's IP address identifies both, as in the published switch. An address belongs to
///          one session at a time; sessions share no slot and no memory.
/// Threads: A Shard belongs to one core; sessions begin and end between its bursts.
/// Errors:  One line that names the key and the allowed values. Packets only change counters().
/// Source:  SwitchML paper §4, Algorithm 3; the published controller for a session's settings.
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

/// Limit on the sessions of a server. Assumed: the number of small jobs in a rack.
inline constexpr uint32_t kSessionsLimit = 64;
/// Slots of a session by default. Source: published switch program.
inline constexpr uint32_t kSlotsDefault = 8'192;

struct ShardConfig {
  uint32_t sessions_max = 8;           ///< 1 to kSessionsLimit.
  uint32_t slots_max = kSlotsDefault;  ///< For each session; 1 to kSlotsLimit.
};

struct SessionConfig {
  uint32_t workers = 1;            ///< 1 to kWorkersMax.
  uint32_t elements = 64;          ///< Elements of a packet: 64 or 256.
  uint32_t slots = kSlotsDefault;  ///< 1 to ShardConfig::slots_max.
  /// A worker's new UDP port shows that it has restarted (slots.h, admit()).
  bool watches_ports = false;
};

/// Checks a configuration. @return an Error for the first value that is not allowed.
[[nodiscard]] Result<void> check(const ShardConfig& config);
[[nodiscard]] Result<void> check(const SessionConfig& session, const ShardConfig& config);
/// Returns the bytes of shared memory of one of `shard_count` shards.
[[nodiscard]] uint64_t memory_bytes(const ShardConfig& config, uint32_t shard_count);

/// Limit on the UDP ports that one worker uses at a time, one for each of its threads. Source: the
/// published client uses up to 16 consecutive ports.
inline constexpr uint32_t kPortsMax = 16;

/// The UDP ports that a worker used most recently.
class WorkerPorts {
 public:
  /// Records a port. @return whether it is new.
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
  uint32_t epoch = 0;       ///< Counts the sessions of this place, from 1.
  uint32_t registered = 0;  ///< Bit w: worker w's address is known.
  uint64_t packets = 0;     ///< Packets of its workers, including refused ones.
  uint64_t slots_completed = 0;
  /// Time of each worker's last packet; Instant() before the first.
  std::array<Instant, kWorkersMax> last_heard_at{};
  uint32_t generation = 0;  ///< SetOwner::generation.
  std::array<WorkerPorts, kWorkersMax> ports{};
  std::vector<Endpoint> destinations;  ///< Shape [config.workers]; the ports change with each use.

  [[nodiscard]] bool is_complete() const {
    return registered == UINT32_MAX >> (kWorkersMax - config.workers);
  }
  /// Records the UDP port of an acceptable packet. A new port starts a generation if the session
  /// watches ports. A packet that fails a check must not get here, because a new generation drops
  /// incomplete sums.
  void note_port(uint32_t worker, uint16_t port) {
    if (config.watches_ports && ports[worker].note(port)) generation++;
  }
};

/// The session and the worker that an address belongs to.
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

  // --- For the owner of sessions, between bursts -------------------------------------------------

  /// Begins a session in this place and ends the previous one.
  /// @pre check(session, config()) and place < config().sessions_max.
  void begin_session(uint32_t place, const SessionConfig& session);
  /// Sets the address that a worker of the session sends from; its port is ignored.
  /// @return an Error for a rank that the session does not have, or an address that belongs to
  ///         another worker.
  Result<void> set_worker(uint32_t place, uint32_t worker, const Endpoint& address);
  void end_session(uint32_t place);

  [[nodiscard]] const Session& session(uint32_t place) const { return sessions_[place]; }
  [[nodiscard]] const ShardConfig& config() const { return config_; }
  [[nodiscard]] uint32_t index() const { return index_; }

  // --- For the program ---------------------------------------------------------------------------

  /// Returns the sender with this address; null if the address belongs to no session.
  [[nodiscard]] const Sender* find(const Endpoint& source) const;
  /// Returns the sender of a packet, and records the packet. Leaves the ports alone: the packet may
  /// be refused (Session::note_port()).
  [[nodiscard]] const Sender* hear(const Endpoint& source, Instant now) {
    const Sender* const sender = find(source);
    if (sender == nullptr) return nullptr;
    sender->session->packets++;
    sender->session->last_heard_at[sender->worker] = now;
    sender->session->destinations[sender->worker].via = source.via;
    return sender;
  }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Begins a burst. The engine calls it when all earlier packets have left.
  void begin_burst() { burst_++; }
  [[nodiscard]] uint64_t burst() const { return burst_; }

 private:
  Shard(const ShardConfig& config, uint32_t index);
  [[nodiscard]] size_t first_place(const std::array<uint8_t, 16>& address) const;
  void add_sender(const Sender& sender);
  /// Removes the addresses of workers worker_first to worker_last.
  void remove_senders(const Session& session, uint32_t worker_first, uint32_t worker_last);

  const ShardConfig config_;
  const uint32_t index_;
  std::vector<Session> sessions_;
  std::vector<Sender> senders_;  ///< Open addressing, at most half full.
  Counters counters_{};
  uint64_t burst_ = 1;
};

}  // namespace tributary::switchml
