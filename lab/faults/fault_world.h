// SPDX-License-Identifier: Apache-2.0
/// @file
/// The world of one campaign run: aggregators, workers' hosts and cables as a plan says, and what
/// happens to them.
///
/// Model:   Every aggregator has a cable to each of its workers and lower aggregators, with a
///          FaultWire at its own end. Faults of links are on the outer part of the cable, so the
///          wire sees what an aggregator really gets and says.
/// Threads: One.
/// Errors:  A plan that cannot be built is a bug: plans are drawn, not written.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lab/backends/live_node.h"
#include "lab/backends/switchml_live_node.h"
#include "lab/backends/switchml_trio_node.h"
#include "lab/backends/tofino_node.h"
#include "lab/backends/trio_node.h"
#include "lab/cluster/worker_node.h"
#include "lab/faults/fault_plan.h"
#include "lab/faults/fault_wire.h"
#include "lab/faults/promptness.h"
#include "net/network.h"

namespace tributary::lab {

class FaultWorld final : public FaultWire::Watcher, private EventTarget {
 public:
  explicit FaultWorld(const FaultPlan& plan);
  ~FaultWorld();

  [[nodiscard]] EventCore& core() { return core_; }
  [[nodiscard]] const net::Network& network() const { return network_; }
  /// Packets that somebody holds.
  [[nodiscard]] uint64_t held_packets() { return network_.packets().held_count(); }
  [[nodiscard]] WorkerNode& worker(uint32_t job, uint32_t rank) { return *workers_[job][rank]; }
  /// The live core at an aggregator; null if it is a modelled PFE, or speaks SwitchML.
  [[nodiscard]] LiveNode* live(uint32_t index) { return live_[index]; }
  /// The server process that an aggregator is; null if it is a modelled machine.
  [[nodiscard]] LiveHost* server(uint32_t index) { return servers_[index]; }
  [[nodiscard]] uint32_t aggregator_count() const {
    return static_cast<uint32_t>(aggregators_.size());
  }
  /// The job at an aggregator; null if it has none of it or does not run.
  [[nodiscard]] trio_ml::Job* job_at(uint32_t aggregator, uint32_t job);
  /// The aggregator that a rank talks to.
  [[nodiscard]] uint32_t leaf_of(uint32_t job, uint32_t rank) const { return leaf_of_[job][rank]; }
  /// The aggregator that makes the job's results.
  [[nodiscard]] uint32_t root_of(uint32_t job) const;

  /// Calls `action` at that time, after everything else of the same instant.
  void at(Instant time, std::function<void()> action);

  /// SwitchML's control plane: forgets what the switch holds of a run of the job. Without one
  /// (FaultPlan::configured) nothing happens at the switch.
  void begin_session();
  /// Whether a packet has reached the switch after a later one of its worker for the same slot,
  /// since the session began. SwitchML's sets tell no more than two uses of a slot apart.
  [[nodiscard]] bool was_overtaken() const { return overtaken_; }
  /// Sets of slots in which a thread of apps/switchml is at work.
  [[nodiscard]] uint32_t slots_at_work() const;

  // --- What happens ---

  // Pauses, restarts and clocks are a server's; the plan has none of them for a modelled PFE.
  void pause_aggregator(uint32_t index, Duration length);
  void stop_aggregator(uint32_t index);
  /// Unless it runs.
  void start_aggregator(uint32_t index);
  /// The cable between a worker and its aggregator, or an aggregator and its upper one.
  void set_cut(bool aggregator, uint32_t job, uint32_t target, bool cut);
  /// Packets there are held back by up to `held_max`, most of them.
  void set_delay(bool aggregator, uint32_t job, uint32_t target, Duration held_max);
  void send_garbage(Prng& draws);
  /// From now on cables carry everything, in order, at once.
  void calm();

  /// A message to each aggregator without effect, from a stranger: cores look at their sessions.
  void knock();

  // --- What one may look at ---

  /// What aggregators did too early or too late.
  [[nodiscard]] std::vector<std::string> promptness_verdicts() const;
  /// Faults of links so far, by kind.
  [[nodiscard]] std::array<uint64_t, kFaultKindCount> link_faults() const;

 private:
  /// A cable, seen from the aggregator that has the wire.
  struct Cable {
    net::LinkId outward;  ///< From the wire to the other end; the other direction is one more.
    FaultWire* wire;
  };

  [[nodiscard]] static Endpoint worker_address(uint32_t job, uint32_t rank);
  /// Of somebody who has no part in any job.
  [[nodiscard]] static Endpoint stranger_address();
  void build_aggregator(uint32_t index);
  void build_switch();
  /// Of apps/switchml; null at a Tofino, and while no process runs.
  [[nodiscard]] const switchml::Shard* switchml_shard() const;
  void note_order(const net::Packet& packet);
  void build_cable(uint32_t upper, net::NodeId lower, uint32_t lower_port, const Endpoint& address,
                   Cable& cable);
  void build_job(uint32_t job);
  void assign_ranks(uint32_t job);
  [[nodiscard]] std::vector<trio_ml::JobConfig> jobs_of(uint32_t aggregator) const;
  [[nodiscard]] trio_ml::JobConfig job_config(uint32_t aggregator, uint32_t job) const;
  [[nodiscard]] std::vector<uint32_t> children_of(uint32_t aggregator) const;
  /// Levels below an aggregator.
  [[nodiscard]] uint32_t height_of(uint32_t aggregator) const;
  [[nodiscard]] net::LinkConfig link_config() const;
  [[nodiscard]] Cable& cable_to(bool aggregator, uint32_t job, uint32_t target);
  [[nodiscard]] bool is_cabled(bool aggregator, uint32_t target) const {
    return !aggregator || target != 0;
  }
  [[nodiscard]] uint32_t job_index(const net::Packet& packet) const;

  void on_event(uint64_t argument) override;
  void on_arrival(uint32_t aggregator, const net::Packet& packet) override;
  void on_departure(uint32_t aggregator, const net::Packet& packet) override;

  const FaultPlan& plan_;
  EventCore core_;
  net::Network network_;
  Prng seeds_;
  std::vector<std::unique_ptr<AggregatorNode>> aggregators_;
  std::vector<LiveNode*> live_;  ///< Of each aggregator one of these two; the other is null.
  std::vector<TrioNode*> modelled_;
  std::vector<LiveHost*> servers_;  ///< Of each aggregator; null for a modelled machine.
  // SwitchML: one of these three; the others are null.
  SwitchmlLiveNode* live_switch_ = nullptr;
  SwitchmlTrioNode* modelled_switch_ = nullptr;
  TofinoNode* tofino_ = nullptr;
  using WorkerSlot = std::tuple<std::array<uint8_t, 16>, uint16_t, uint16_t>;  ///< Address, port.
  /// The latest packet id that has reached the switch in this session.
  std::map<WorkerSlot, uint32_t> latest_packet_;
  bool overtaken_ = false;
  std::vector<uint32_t> ports_used_;  ///< Of each aggregator.
  std::vector<std::unique_ptr<FaultWire>> wires_;
  std::vector<Cable> upward_;                     ///< From each aggregator; [0] is not used.
  std::vector<std::vector<uint32_t>> leaf_of_;    ///< Shape [jobs][world].
  std::vector<std::vector<uint32_t>> source_of_;  ///< Likewise: src_id at the leaf.
  std::vector<std::vector<std::unique_ptr<WorkerNode>>> workers_;
  std::vector<std::vector<Cable>> worker_cables_;
  /// Shape [aggregators][jobs]; null where the promise is not that simple.
  std::vector<std::vector<std::unique_ptr<PromptnessJudge>>> judges_;
  std::vector<std::function<void()>> actions_;  ///< By the event's argument.
};

}  // namespace tributary::lab
