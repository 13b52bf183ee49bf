// SPDX-License-Identifier: Apache-2.0
/// @file
/// The world of one campaign run: aggregators, workers' hosts and cables as planned, and the
/// operations that inject faults into them.
///
/// Model:   Every aggregator has a cable to each of its workers and lower aggregators, with a
///          FaultWire at its own end. Link faults are in the outer part of the cable, so the wire
///          sees the aggregator's real input and output.
/// Threads: One.
/// Errors:  An invalid plan is a bug: plans are drawn, not written.
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
#include "lab/faults/loss_judge.h"
#include "lab/faults/owner_judge.h"
#include "lab/faults/promptness.h"
#include "lab/faults/refusals.h"
#include "lab/faults/sharded_rank.h"
#include "net/forwarder.h"
#include "net/network.h"

namespace tributary::lab {

class FaultWorld final : public FaultWire::Watcher, private EventTarget {
 public:
  explicit FaultWorld(const FaultPlan& plan);
  ~FaultWorld();

  [[nodiscard]] EventCore& core() { return core_; }
  [[nodiscard]] net::Network& network() { return network_; }
  /// Returns the number of packets in use.
  [[nodiscard]] uint64_t held_packets() { return network_.packets().held_count(); }
  [[nodiscard]] WorkerNode& worker(uint32_t job, uint32_t rank) { return *workers_[job][rank]; }
  /// Returns the live core of an aggregator; null for a modelled PFE or SwitchML.
  [[nodiscard]] LiveNode* live(uint32_t index) { return live_[index]; }
  /// Returns the server process of an aggregator; null for a modelled machine.
  [[nodiscard]] LiveHost* server(uint32_t index) { return servers_[index]; }
  [[nodiscard]] uint32_t aggregator_count() const {
    return static_cast<uint32_t>(aggregators_.size());
  }
  /// Returns the job at an aggregator; null if the aggregator does not run or does not have the
  /// job.
  [[nodiscard]] trio_ml::Job* job_at(uint32_t aggregator, uint32_t job);
  [[nodiscard]] uint32_t job_count() const { return static_cast<uint32_t>(plan_.jobs.size()); }
  /// Returns the ranks of a job.
  [[nodiscard]] uint32_t world_of(uint32_t job) const { return plan_.jobs[job].world; }
  /// Returns the process of a rank of a sharded job. @pre It runs.
  [[nodiscard]] const ShardedRank& sharded(uint32_t job, uint32_t rank) const {
    return *sharded_[job][rank].process;
  }
  /// Returns all aggregators of a sharded job.
  [[nodiscard]] std::vector<host::Aggregator> whole_list(uint32_t job) const;
  /// Sets the list with which the rank's next process joins.
  void set_list(uint32_t job, uint32_t rank, std::vector<host::Aggregator> list) {
    sharded_[job][rank].list = std::move(list);
  }
  /// Returns the aggregator of a rank; in a sharded job, the first one.
  [[nodiscard]] uint32_t leaf_of(uint32_t job, uint32_t rank) const { return leaf_of_[job][rank]; }
  /// Returns the aggregator that produces the job's results.
  [[nodiscard]] uint32_t root_of(uint32_t job) const;
  /// Returns a job's configuration at an aggregator that has it.
  [[nodiscard]] trio_ml::JobConfig job_config(uint32_t aggregator, uint32_t job) const;
  [[nodiscard]] std::vector<uint32_t> children_of(uint32_t aggregator) const;
  [[nodiscard]] const Endpoint& address_of(uint32_t aggregator) const {
    return aggregators_[aggregator]->address();
  }
  [[nodiscard]] static Endpoint worker_address(uint32_t job, uint32_t rank);

  // --- Other parties ---

  /// Connects a node's port to an aggregator by a cable without faults.
  /// @param addresses The aggregator sends datagrams for these addresses there.
  void connect_stranger(net::NodeId node, uint32_t port, uint32_t aggregator,
                        std::span<const Endpoint> addresses);
  /// Connects a client's port 0 to an aggregator by a cable with the plan's faults.
  void connect_client(net::NodeId node, uint32_t aggregator, const Endpoint& address);
  /// Calls `seen` with every tampered datagram.
  void watch_tampered(std::function<void(const net::PacketRef&)> seen) {
    on_tampered_ = std::move(seen);
  }

  /// Calls `action` at `time`, after all other events of the same instant.
  void at(Instant time, std::function<void()> action);

  /// Clears the switch of the job's previous run, as SwitchML's control plane does. Without a
  /// control plane (FaultPlan::configured) it leaves the switch unchanged.
  void begin_session();
  /// Returns whether, in this session, a packet reached the switch after a later one of its worker
  /// for the same slot. SwitchML's sets distinguish only two uses of a slot.
  [[nodiscard]] bool was_overtaken() const { return overtaken_; }
  /// Returns the number of slot sets in which a thread of apps/switchml works.
  [[nodiscard]] uint32_t slots_at_work() const;

  // --- Faults ---

  // Pauses, restarts and clock steps apply to servers; plans never apply them to a modelled PFE.
  void pause_aggregator(uint32_t index, Duration length);
  /// @param refuses Its machine runs on, and refuses packets to its port until it starts.
  void stop_aggregator(uint32_t index, bool refuses);
  /// Starts the aggregator unless it runs.
  void start_aggregator(uint32_t index);
  /// Cuts or repairs the cables at which an incident is aimed.
  void set_cut(const Incident& where, bool cut);
  /// Delays most packets of these cables by up to `held_max`.
  void set_delay(const Incident& where, Duration held_max);
  void send_garbage(Prng& draws);
  /// Removes all link faults.
  void clear_link_faults();

  /// Sends each aggregator a message without effect from a stranger, so that cores check their
  /// sessions.
  void wake_aggregators();

  // --- Observations ---

  /// Returns one line for each timeout that came too early or too late.
  [[nodiscard]] std::vector<std::string> promptness_verdicts() const;
  /// Returns one line for each contribution that its block lacks only because of lost packets.
  [[nodiscard]] const std::vector<std::string>& loss_verdicts() const {
    return loss_judge_.verdicts();
  }
  [[nodiscard]] const OwnerJudge& owner_judge() const { return owner_judge_; }
  /// Returns the number of link faults so far, by kind.
  [[nodiscard]] std::array<uint64_t, kFaultKindCount> link_faults() const;

 private:
  /// A cable, seen from the aggregator with the wire.
  struct Cable {
    net::LinkId outward;  ///< From the wire to the other end; the reverse direction is the next id.
    FaultWire* wire;
    uint32_t upper_port;  ///< The cable's port at the aggregator with the wire.
  };

  /// The address of a host outside every job.
  [[nodiscard]] static Endpoint stranger_address();
  void build_aggregator(uint32_t index);
  void build_switch();
  /// The shard of apps/switchml; null at a Tofino, and while no process runs.
  [[nodiscard]] const switchml::Shard* switchml_shard() const;
  void note_order(const net::Packet& packet);
  /// Returns the form of scrambling for a cable to the node with an address.
  [[nodiscard]] FaultWire::Scramble scramble_for(const Endpoint& lower) const;
  void build_cable(uint32_t upper, net::NodeId lower, uint32_t lower_port, const Endpoint& address,
                   Cable& cable);
  void build_job(uint32_t job);
  void route_group(uint32_t job);
  void assign_ranks(uint32_t job);
  [[nodiscard]] std::vector<trio_ml::JobConfig> jobs_of(uint32_t aggregator) const;
  /// Returns the number of levels below an aggregator.
  [[nodiscard]] uint32_t height_of(uint32_t aggregator) const;
  [[nodiscard]] net::LinkConfig link_config() const;
  /// Returns the cables at which an incident is aimed: of a rank, above an aggregator of a tree, or
  /// all of an aggregator of sharded jobs.
  [[nodiscard]] std::vector<const Cable*> cables_of(const Incident& where) const;
  /// Returns the cable between a rank and its aggregator, or one of them.
  [[nodiscard]] const Cable& cable_between(uint32_t job, uint32_t rank, uint32_t aggregator) const;
  host::ProtocolFactory sharded_process(const host::CommunicatorConfig& config, uint32_t job);
  void connect_shards(uint32_t job, uint32_t rank);
  void refuse(uint32_t aggregator, const net::Packet& packet);
  [[nodiscard]] uint32_t job_index(const net::Packet& packet) const;

  /// Returns the packets that a cable has lost, both ways.
  [[nodiscard]] uint64_t lost_by(const Cable& cable) const;
  void judge_losses(uint32_t aggregator, uint32_t job, const net::Packet& packet);
  void judge_owner(uint32_t aggregator, uint32_t job, const net::Packet& packet);
  /// Returns the address to which an aggregator sends a rank's messages.
  [[nodiscard]] Endpoint next_to(uint32_t aggregator, uint32_t job, uint32_t rank) const;

  void on_event(uint64_t argument) override;
  void on_arrival(uint32_t aggregator, const net::Packet& packet) override;
  void on_departure(uint32_t aggregator, const net::Packet& packet) override;
  void on_tampered(const net::PacketRef& packet) override {
    if (on_tampered_) on_tampered_(packet);
  }

  const FaultPlan& plan_;
  EventCore core_;
  net::Network network_;
  Prng seeds_;
  std::vector<std::unique_ptr<AggregatorNode>> aggregators_;
  std::vector<LiveNode*> live_;  ///< Per aggregator; live_ or modelled_ is null.
  std::vector<TrioNode*> modelled_;
  std::vector<LiveHost*> servers_;  ///< Per aggregator; null for a modelled machine.
  // SwitchML: one of these three is set.
  SwitchmlLiveNode* live_switch_ = nullptr;
  SwitchmlTrioNode* modelled_switch_ = nullptr;
  TofinoNode* tofino_ = nullptr;
  using WorkerSlot =
      std::tuple<std::array<uint8_t, 16>, uint16_t, uint16_t>;  ///< Address, port, slot.
  /// The latest packet id at the switch in this session.
  std::map<WorkerSlot, uint32_t> latest_packet_;
  bool overtaken_ = false;
  std::vector<uint32_t> ports_used_;  ///< Per aggregator.
  std::vector<std::unique_ptr<FaultWire>> wires_;
  std::vector<Cable> upward_;                   ///< Upward cable of each aggregator; [0] is unused.
  std::vector<std::vector<uint32_t>> leaf_of_;  ///< Shape [jobs][world].
  std::vector<std::vector<uint32_t>> source_of_;  ///< Shape [jobs][world]: src_id at the leaf.
  std::vector<std::vector<std::unique_ptr<WorkerNode>>> workers_;
  /// Shape [jobs][world][aggregators of the rank]: one, or all of a sharded plan.
  std::vector<std::vector<std::vector<Cable>>> worker_cables_;
  /// A rank of a sharded job.
  struct Sharded {
    std::vector<host::Aggregator> list;         ///< Aggregators of the next process.
    ShardedRank* process = nullptr;             ///< The last one; the WorkerNode owns it.
    std::unique_ptr<net::Forwarder> forwarder;  ///< From its host's port to its cables.
  };
  std::vector<std::vector<Sharded>> sharded_;  ///< Shape [jobs][world], in sharded plans.
  Refusals refusals_;
  std::vector<Cable> client_cables_;
  std::function<void(const net::PacketRef&)> on_tampered_;
  /// Shape [aggregators][jobs]; null if the simple form of the promise does not apply.
  std::vector<std::vector<std::unique_ptr<PromptnessJudge>>> judges_;
  LossJudge loss_judge_;
  OwnerJudge owner_judge_;
  std::vector<std::function<void()>> actions_;  ///< Indexed by the event's argument.
};

}  // namespace tributary::lab
