// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/fault_world.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/switchml.h"
#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

/// Share of the packets that a slow cable delays. Assumed.
constexpr double kHeldBack = 0.3;
/// Maximum size of a random packet.
constexpr uint32_t kGarbageBytesMax = 200;

}  // namespace

// --- Faults ---

void FaultWorld::at(Instant time, std::function<void()> action) {
  actions_.push_back(std::move(action));
  core_.schedule(std::max(time, core_.now()), EventPriority::kControl, *this, actions_.size() - 1);
}

void FaultWorld::on_event(uint64_t argument) {
  const std::function<void()> action = std::move(actions_[argument]);
  action();
}

void FaultWorld::pause_aggregator(uint32_t index, Duration length) {
  if (servers_[index] != nullptr) servers_[index]->pause(length);
}

void FaultWorld::stop_aggregator(uint32_t index, bool refuses) {
  if (servers_[index] == nullptr) return;
  servers_[index]->stop();
  if (refuses) refusals_.begin(index);
}

void FaultWorld::start_aggregator(uint32_t index) {
  if (servers_[index] == nullptr || servers_[index]->runs()) return;
  refusals_.end(index);
  servers_[index]->start();
}

std::vector<const FaultWorld::Cable*> FaultWorld::cables_of(const Incident& where) const {
  std::vector<const Cable*> cables;
  if (where.aggregator && !plan_.sharded) {
    if (!plan_.is_root(where.target)) cables.push_back(&upward_[where.target]);
    return cables;
  }
  const auto add = [&](uint32_t job, uint32_t rank, std::optional<uint32_t> aggregator) {
    for (const Cable& cable : worker_cables_[job][rank]) {
      if (!aggregator || *aggregator == cable.wire->aggregator()) cables.push_back(&cable);
    }
  };
  if (!where.aggregator) {
    add(where.job, where.target, where.shard);
    return cables;
  }
  for (uint32_t job = 0; job < job_count(); job++) {
    for (uint32_t rank = 0; rank < world_of(job); rank++) add(job, rank, where.target);
  }
  return cables;
}

const FaultWorld::Cable& FaultWorld::cable_between(uint32_t job, uint32_t rank,
                                                   uint32_t aggregator) const {
  const std::vector<Cable>& cables = worker_cables_[job][rank];
  return plan_.sharded ? cables[aggregator] : cables.front();
}

void FaultWorld::set_cut(const Incident& where, bool cut) {
  for (const Cable* cable : cables_of(where)) {
    for (const net::LinkId link : {cable->outward, cable->outward + 1}) network_.set_cut(link, cut);
  }
}

void FaultWorld::set_delay(const Incident& where, Duration held_max) {
  net::LinkFaults faults = link_config().faults;
  if (held_max > Duration()) {
    faults.reorder = std::max(faults.reorder, kHeldBack);
    faults.reorder_max = std::max(faults.reorder_max, held_max);
  }
  for (const Cable* cable : cables_of(where)) {
    for (const net::LinkId link : {cable->outward, cable->outward + 1}) {
      network_.set_faults(link, faults);
    }
  }
}

/// Answers a packet to an aggregator that does not run: the refusal reaches the worker if its cable
/// loses neither.
void FaultWorld::refuse(uint32_t aggregator, const net::Packet& packet) {
  if (!refusals_.take(aggregator, packet.source, core_.now())) return;
  for (uint32_t job = 0; job < job_count(); job++) {
    for (uint32_t rank = 0; rank < world_of(job); rank++) {
      if (!packet.source.is_same_peer(worker_address(job, rank))) continue;
      at(core_.now() + plan_.propagation,
         [this, job, rank, aggregator] { worker(job, rank).refuse(address_of(aggregator)); });
    }
  }
}

void FaultWorld::send_garbage(Prng& draws) {
  std::vector<std::byte> nonsense(draws.below(kGarbageBytesMax));
  for (std::byte& byte : nonsense) byte = static_cast<std::byte>(draws.below(256));
  const uint32_t job = draws.below(static_cast<uint32_t>(plan_.jobs.size()));
  // Half of them reach the parser of the extension.
  if (nonsense.size() > wire::TrioMlHeader::kBytes && draws.chance(0.5)) {
    nonsense[0] = static_cast<std::byte>(plan_.jobs[job].config.id);
    nonsense[5] = std::byte{2};
    nonsense[12] = static_cast<std::byte>(0x10 | draws.below(16));
  }
  const uint32_t rank = draws.below(plan_.jobs[job].world);
  const uint32_t leaf = plan_.sharded ? draws.below(aggregator_count()) : leaf_of_[job][rank];
  const bool inward = draws.chance(0.5);
  // A worker's socket accepts only the server's packets, so the sender forges that address.
  net::PacketRef packet =
      network_.packets().make(inward ? stranger_address() : aggregators_[leaf]->address(),
                              inward ? aggregators_[leaf]->address() : worker_address(job, rank),
                              static_cast<uint32_t>(nonsense.size()), nonsense);
  cable_between(job, rank, leaf)
      .wire->inject(inward ? FaultWire::kInnerPort : FaultWire::kOuterPort, std::move(packet));
}

void FaultWorld::clear_link_faults() {
  const auto clean = [this](const Cable& cable) {
    for (const net::LinkId link : {cable.outward, cable.outward + 1}) {
      network_.set_cut(link, false);
      network_.set_faults(link, {});
    }
  };
  for (uint32_t i = 0; i < upward_.size(); i++) {
    if (!plan_.is_root(i)) clean(upward_[i]);
  }
  for (const auto& of_job : worker_cables_) {
    for (const auto& cables : of_job) {
      for (const Cable& cable : cables) clean(cable);
    }
  }
  for (const Cable& cable : client_cables_) clean(cable);
  for (const auto& wire : wires_) {
    wire->set_scramble(0);
    wire->set_tamper(0);
  }
  for (uint32_t i = 0; i < aggregator_count(); i++) start_aggregator(i);
}

void FaultWorld::wake_aggregators() {
  std::array<std::byte, wire::TrioMlHeader::kBytes> bytes;
  for (uint32_t job = 0; job < plan_.jobs.size(); job++) {
    wire::TrioMlFields nothing;
    nothing.job_id = plan_.jobs[job].config.id;
    nothing.src_id = UINT8_MAX;
    wire::encode_header(nothing, bytes.data());
    for (const auto& wire : wires_) {
      // Every aggregator has at least one wire, so it receives the message at least once.
      const Endpoint to = aggregators_[wire->aggregator()]->address();
      wire->inject(FaultWire::kInnerPort,
                   network_.packets().make(stranger_address(), to, bytes.size(), bytes));
    }
  }
}

// --- Observations ---

trio_ml::Job* FaultWorld::job_at(uint32_t aggregator, uint32_t job) {
  const uint8_t id = plan_.jobs[job].config.id;
  if (modelled_[aggregator] != nullptr) return modelled_[aggregator]->shard().job(id);
  if (live_[aggregator] == nullptr) return nullptr;
  LiveNode& node = *live_[aggregator];
  return node.runs() ? node.shard().job(id) : nullptr;
}

uint32_t FaultWorld::job_index(const net::Packet& packet) const {
  for (uint32_t job = 0; job < plan_.jobs.size() && !packet.stored.empty(); job++) {
    if (packet.stored[0] == static_cast<std::byte>(plan_.jobs[job].config.id)) return job;
  }
  return UINT32_MAX;
}

void FaultWorld::begin_session() {
  overtaken_ = false;
  latest_packet_.clear();
  if (plan_.configured) return;
  if (live_switch_ != nullptr) live_switch_->begin_session();
  if (modelled_switch_ != nullptr) TRIB_ASSERT(modelled_switch_->begin_session().has_value());
  if (tofino_ != nullptr) TRIB_ASSERT(tofino_->load_program().has_value());
}

void FaultWorld::note_order(const net::Packet& packet) {
  const auto head = wire::decode_switchml_head(packet.stored);
  if (!head || packet.source == stranger_address()) return;
  uint32_t& latest = latest_packet_[{packet.source.address, packet.source.port, head->slot}];
  overtaken_ |= head->packet_id < latest;
  latest = std::max(latest, head->packet_id);
}

const switchml::Shard* FaultWorld::switchml_shard() const {
  if (modelled_switch_ != nullptr) return &modelled_switch_->shard();
  return live_switch_ == nullptr ? nullptr : live_switch_->shard();
}

uint32_t FaultWorld::slots_at_work() const {
  const switchml::Shard* shard = switchml_shard();
  if (shard == nullptr) return 0;
  const switchml::Session& session = shard->session(0);
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < session.config.slots; slot++) {
    for (const uint32_t set : {0U, 1U}) {
      count += is_at_work(session.pool.record(slot, set)) ? 1 : 0;
    }
  }
  return count;
}

void FaultWorld::on_arrival(uint32_t aggregator, const net::Packet& packet) {
  if (plan_.protocol == wire::Protocol::kSwitchml) return note_order(packet);
  if (plan_.sharded) refuse(aggregator, packet);
  const uint32_t job = job_index(packet);
  if (job == UINT32_MAX || judges_[aggregator][job] == nullptr) return;
  judges_[aggregator][job]->on_arrival(job_at(aggregator, job), packet.stored, core_.now());
}

void FaultWorld::on_departure(uint32_t aggregator, const net::Packet& packet) {
  if (plan_.protocol == wire::Protocol::kSwitchml) return;
  const uint32_t job = job_index(packet);
  if (job != UINT32_MAX) judge_owner(aggregator, job, packet);
  if (job == UINT32_MAX || judges_[aggregator][job] == nullptr) return;
  judges_[aggregator][job]->on_departure(job_at(aggregator, job), packet.stored, core_.now());
  judge_losses(aggregator, job, packet);
}

uint64_t FaultWorld::lost_by(const Cable& cable) const {
  uint64_t lost = 0;
  for (const net::LinkId link : {cable.outward, cable.outward + 1}) {
    const net::LinkCounters counters = network_.counters(link);
    lost += counters.lost + counters.corrupted;
  }
  return lost;
}

void FaultWorld::judge_losses(uint32_t aggregator, uint32_t job, const net::Packet& packet) {
  const trio_ml::Job* at = job_at(aggregator, job);
  if (at == nullptr || !LossJudge::judges(plan_)) return;
  const auto lost_of = [&](uint32_t rank) { return lost_by(cable_between(job, rank, aggregator)); };
  loss_judge_.on_departure(*at, packet.stored, lost_of, core_.now());
}

void FaultWorld::judge_owner(uint32_t aggregator, uint32_t job, const net::Packet& packet) {
  const trio_ml::Job* at = job_at(aggregator, job);
  if (at == nullptr || !OwnerJudge::judges(plan_)) return;
  owner_judge_.on_departure(*at, packet,
                            [&](uint32_t rank) { return next_to(aggregator, job, rank); });
}

Endpoint FaultWorld::next_to(uint32_t aggregator, uint32_t job, uint32_t rank) const {
  if (rank >= plan_.jobs[job].world) return {};
  uint32_t below = leaf_of_[job][rank];
  if (plan_.sharded || below == aggregator) return worker_address(job, rank);
  while (plan_.parent[below] != aggregator && !plan_.is_root(below)) below = plan_.parent[below];
  return plan_.parent[below] == aggregator ? address_of(below) : Endpoint();
}

std::vector<std::string> FaultWorld::promptness_verdicts() const {
  std::vector<std::string> all;
  for (const auto& of_aggregator : judges_) {
    for (const auto& judge : of_aggregator) {
      if (judge == nullptr) continue;
      all.insert(all.end(), judge->verdicts().begin(), judge->verdicts().end());
    }
  }
  return all;
}

std::array<uint64_t, kFaultKindCount> FaultWorld::link_faults() const {
  std::array<uint64_t, kFaultKindCount> counts{};
  const auto at = [&counts](FaultKind kind) -> uint64_t& {
    return counts[static_cast<uint32_t>(kind)];
  };
  for (net::LinkId link = 0; link < network_.link_count(); link++) {
    const net::LinkCounters counters = network_.counters(link);
    at(FaultKind::kLoss) += counters.lost;
    at(FaultKind::kCorruption) += counters.corrupted;
    at(FaultKind::kDuplication) += counters.duplicated;
    at(FaultKind::kReordering) += counters.reordered;
  }
  for (const auto& wire : wires_) {
    at(FaultKind::kScrambling) += wire->scrambled_count();
    at(FaultKind::kTamperer) += wire->tampered_count();
  }
  return counts;
}

}  // namespace tributary::lab
