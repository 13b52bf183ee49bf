// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small deterministic network in virtual time: workers' protocol machines and aggregators, the
/// very code that runs live, joined by links that lose, double, delay and reorder datagrams.
///
/// Model:   An event heap ordered by (time, priority, sequence); at one instant datagrams arrive
///          first, then nodes act, then the test's own actions. A link keeps its order unless a
///          datagram is held back on purpose. A corrupted datagram is lost, as the UDP checksum
///          would have it. Each node has a bounded receive buffer.
/// Units:   Virtual time since the network's making; rates are probabilities of each datagram.
/// Threads: One. Nothing sleeps and no clock is read.
/// Determinism: The same seed and calls give the same digest().
/// Errors:  What a test asks wrongly (unknown node, a job that is not allowed) stops it.
/// Tests:   tests/host/virtual_network_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "apps/trio_ml/app.h"
#include "base/prng.h"
#include "host/worker_protocol.h"

namespace tributary::testing {

/// What the links do to each datagram.
struct LinkFaults {
  double loss = 0;
  double corrupt = 0;  ///< Counted apart, lost all the same.
  double duplicate = 0;
  double reorder = 0;  ///< Held back by up to reorder_max, past later ones.
  Duration delay = microseconds(20);
  Duration jitter = microseconds(10);  ///< Added, uniformly from 0.
  Duration reorder_max = milliseconds(1);
};

struct NetCounters {
  uint64_t sent = 0;
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t corrupted = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t nobody = 0;  ///< No node has the destination, it has crashed, or its buffer is full.
};

/// One aggregator: Trio-ML on a live core over an in-memory port.
class VirtualAggregator;

class VirtualNet {
 public:
  using Receiver = std::function<void(std::span<const std::byte> payload, const Endpoint& from)>;

  explicit VirtualNet(uint64_t seed, const LinkFaults& faults = {});
  ~VirtualNet();
  VirtualNet(const VirtualNet&) = delete;
  VirtualNet& operator=(const VirtualNet&) = delete;

  // --- Nodes. Each returns its number, which counts from 0 for its kind. ------------------------

  uint32_t add_aggregator(const trio_ml::JobConfig& job, const Endpoint& at);
  /// A worker that begins to join now. Several may stand at one address one after another.
  uint32_t add_worker(const host::CommunicatorConfig& config, const Endpoint& at);
  /// Anything else with an address; `receiver` is called for each datagram.
  void add_receiver(const Endpoint& at, Receiver receiver);

  // --- What happens to them ----------------------------------------------------------------------

  void submit(uint32_t worker, host::Transfer& transfer);
  void leave(uint32_t worker);
  /// The worker's process stands still; datagrams wait in its receive buffer.
  void pause(uint32_t worker, Duration length);
  /// The worker's process is gone without a word.
  void crash(uint32_t worker);
  /// The aggregator's process is gone; what arrives is lost.
  void stop_aggregator(uint32_t aggregator);
  /// A new process with empty memory and other session numbers at the same address.
  void restart_aggregator(uint32_t aggregator);
  /// From now on the links do this.
  void set_faults(const LinkFaults& faults) { faults_ = faults; }
  /// A datagram from anybody; the links treat it as any other.
  void send(const Endpoint& from, const Endpoint& to, std::span<const std::byte> payload);
  /// Calls `action` at that time, after everything else of the same instant.
  void at(Instant time, std::function<void()> action);

  // --- Time --------------------------------------------------------------------------------------

  [[nodiscard]] Instant now() const { return now_; }
  /// Runs until `until` holds, looked at after each event, or virtual time has reached `limit`.
  /// @return whether it holds.
  bool run_until(Instant limit, const std::function<bool()>& until);
  void run_for(Duration length);

  // --- What one may look at ----------------------------------------------------------------------

  [[nodiscard]] const host::WorkerProtocol& worker(uint32_t index) const;
  [[nodiscard]] uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  /// The first job of an aggregator that runs.
  [[nodiscard]] trio_ml::Job& job(uint32_t aggregator);
  [[nodiscard]] uint64_t count(uint32_t aggregator, trio_ml::Outcome outcome) const;
  [[nodiscard]] const NetCounters& counters() const { return counters_; }
  /// Hash of every delivery so far: when, from where, to where, what.
  [[nodiscard]] uint64_t digest() const { return digest_; }
  /// An address for node `index` of some kind (`kind` below 256).
  [[nodiscard]] static Endpoint address(uint32_t kind, uint32_t index);

 private:
  struct Worker;
  struct ReceiverNode {
    Endpoint at;
    Receiver receive;
  };
  /// Order of events at one instant.
  enum class Priority : uint8_t { kDelivery, kNode, kAction };
  struct Event {
    Instant at;
    Priority priority;
    uint64_t sequence;
    std::function<void()> act;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const;
  };
  struct Link {
    Endpoint from;
    Endpoint to;
    Instant free_at;  ///< Nothing later may arrive earlier, unless reordered.
  };

  void push(Instant at, Priority priority, std::function<void()> act);
  void step();
  void deliver(const Endpoint& from, const Endpoint& to, const std::vector<std::byte>& payload);
  void put_on_link(const Endpoint& from, const Endpoint& to, const std::vector<std::byte>& payload);
  [[nodiscard]] Link& link(const Endpoint& from, const Endpoint& to);
  [[nodiscard]] bool offer_to_worker(const Endpoint& to, const std::vector<std::byte>& payload);
  void add_to_digest(const Endpoint& from, const Endpoint& to, std::span<const std::byte> payload);

  /// Each node has one wake-up ahead, its earliest; others are void when their time comes.
  void schedule_worker(uint32_t index, Instant at);
  void run_worker(uint32_t index);
  void schedule_aggregator(uint32_t index, Instant at);
  void run_aggregator(uint32_t index);

  LinkFaults faults_;
  Prng link_draws_;
  Prng seeds_;
  Instant now_;
  uint64_t sequence_ = 0;
  uint64_t digest_ = 0;
  NetCounters counters_;
  uint64_t acts_at_once_ = 0;  ///< Events since virtual time last moved.
  std::vector<Event> events_;  ///< A heap by Later.
  std::vector<Link> links_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<VirtualAggregator>> aggregators_;
  std::vector<ReceiverNode> receivers_;
};

}  // namespace tributary::testing
