// SPDX-License-Identifier: Apache-2.0
#include "tests/host/net_scenario.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::testing {

using host::Status;
using host::WorkerProtocol;

namespace {

// Kinds of addresses.
constexpr uint32_t kRootKind = 0;
constexpr uint32_t kLeafKind = 1;
constexpr uint32_t kWorkerKind = 2;
constexpr uint32_t kStrangerKind = 3;

/// Beyond which a session without living members is certainly over: silence (3.5 s), then the
/// infrequent timer's next visit, at each level of a tree.
constexpr Duration kSessionOver = seconds(12);

}  // namespace

NetScenario::NetScenario(const ScenarioConfig& config)
    : config_(config),
      net_(config.seed, config.faults),
      draws_(config.seed ^ 0x5ce7a210),
      oracle_(config.seed, config.world, config.gradients, config.job.mitigation, config.work),
      ranks_(config.world) {
  if (config_.leaves.empty()) {
    build_flat();
  } else {
    build_tree();
  }
  schedule_pauses();
  if (config_.garbage) schedule_garbage();
}

void NetScenario::build_flat() {
  trio_ml::JobConfig job = config_.job;
  job.sources = config_.world;
  net_.add_aggregator(job, VirtualNet::address(kRootKind, 0));
  aggregator_count_ = 1;
  for (uint32_t rank = 0; rank < config_.world; rank++) {
    add_rank(rank, VirtualNet::address(kRootKind, 0), rank);
  }
}

void NetScenario::build_tree() {
  trio_ml::JobConfig root = config_.job;
  root.sources = static_cast<uint32_t>(config_.leaves.size());
  root.sources_are_aggregators = true;
  root.world = config_.world;
  net_.add_aggregator(root, VirtualNet::address(kRootKind, 0));
  uint32_t rank_base = 0;
  for (uint32_t leaf = 0; leaf < config_.leaves.size(); leaf++) {
    trio_ml::JobConfig job = config_.job;
    job.sources = config_.leaves[leaf];
    job.upstream = VirtualNet::address(kRootKind, 0);
    job.upstream_source = leaf;
    job.rank_base = rank_base;
    job.world = config_.world;
    const Endpoint at = VirtualNet::address(kLeafKind, leaf);
    net_.add_aggregator(job, at);
    for (uint32_t source = 0; source < job.sources; source++) {
      add_rank(rank_base + source, at, source);
    }
    rank_base += job.sources;
  }
  aggregator_count_ = static_cast<uint32_t>(config_.leaves.size()) + 1;
}

void NetScenario::add_rank(uint32_t rank, const Endpoint& server, uint32_t source) {
  host::CommunicatorConfig worker;
  worker.server = server;
  worker.job_id = config_.job.id;
  worker.rank = rank;
  worker.source = source;
  worker.world = config_.world;
  worker.gradients = config_.gradients;
  worker.window = config_.window;
  worker.deadline = config_.deadline;
  ranks_[rank].worker = net_.add_worker(worker, VirtualNet::address(kWorkerKind, rank));
}

void NetScenario::schedule_pauses() {
  for (uint32_t i = 0; i < config_.pauses; i++) {
    const uint32_t rank = draws_.below(config_.world);
    const Duration begin = microseconds(draws_.below(300'000));
    const Duration length = Duration::from_ticks(
        static_cast<int64_t>(draws_.unit() * static_cast<double>(config_.pause_max.ticks())));
    net_.at(net_.now() + begin, [this, rank, length] { net_.pause(ranks_[rank].worker, length); });
  }
}

void NetScenario::schedule_garbage() {
  net_.at(net_.now() + microseconds(draws_.below(2000)), [this] {
    std::vector<std::byte> nonsense(draws_.below(200));
    for (std::byte& byte : nonsense) byte = static_cast<std::byte>(draws_.below(256));
    // Half of it gets as far as the extension.
    if (nonsense.size() > 12 && draws_.chance(0.5)) {
      nonsense[0] = static_cast<std::byte>(config_.job.id);
      nonsense[5] = std::byte{2};
      nonsense[12] = static_cast<std::byte>(0x10 | draws_.below(16));
    }
    const Endpoint stranger = VirtualNet::address(kStrangerKind, 0);
    const bool to_aggregator = draws_.chance(0.5);
    net_.send(stranger,
              to_aggregator ? VirtualNet::address(kRootKind, 0)
                            : VirtualNet::address(kWorkerKind, draws_.below(config_.world)),
              nonsense);
    if (!over_) schedule_garbage();
  });
}

void NetScenario::run(Duration limit) {
  const bool ended = net_.run_until(net_.now() + limit, [this] { return advance(); });
  over_ = true;
  if (!ended) faults_.push_back(fmt::format("not over after {:.1f} s", in_seconds(limit)));
  const bool all_ok = ended_with(Status::kOk) == config_.world;
  if (!ended || !all_ok) return;
  // Long enough that whatever was sent has arrived, and buffers have cooled.
  net_.run_for(seconds(2));
  for (uint32_t i = 0; i < aggregator_count_; i++) check_buffers(i, /*kept_results=*/true);
}

bool NetScenario::advance() {
  bool over = true;
  for (uint32_t rank = 0; rank < config_.world; rank++) {
    Rank& state = ranks_[rank];
    for (auto& running : state.running) {
      if (running->transfer.done && !running->noted) note(rank, *running);
    }
    std::erase_if(state.running, [](const auto& running) { return running->noted; });
    if (net_.worker(state.worker).phase() == WorkerProtocol::Phase::kEnded) continue;
    over &= state.finished == oracle_.work().size();
    const bool more = state.submitted < oracle_.work().size() &&
                      state.running.size() < config_.in_flight && !state.computing;
    if (!more) continue;
    state.computing = true;
    const Duration compute = Duration::from_ticks(
        static_cast<int64_t>(draws_.unit() * static_cast<double>(config_.compute_max.ticks())));
    net_.at(net_.now() + compute, [this, rank] { submit_next(rank); });
  }
  return over;
}

void NetScenario::submit_next(uint32_t rank) {
  Rank& state = ranks_[rank];
  state.computing = false;
  auto running = std::make_unique<Running>();
  running->collective = state.submitted++;
  running->tensor = oracle_.input(running->collective, rank);
  running->transfer.integers = running->tensor.integers;
  running->transfer.floats = running->tensor.floats;
  running->transfer.op = oracle_.work()[running->collective].op;
  running->transfer.format = oracle_.work()[running->collective].format;
  running->transfer.scale = ReduceOracle::kScale;
  net_.submit(state.worker, running->transfer);
  state.running.push_back(std::move(running));
}

void NetScenario::note(uint32_t rank, Running& running) {
  running.noted = true;
  ranks_[rank].finished++;
  const host::Outcome& outcome = running.transfer.outcome;
  degraded_blocks_ += outcome.degraded.size();
  if (outcome.status == Status::kOk) {
    const std::string wrong = oracle_.check(running.collective, rank, running.tensor, outcome);
    if (!wrong.empty()) {
      faults_.push_back(fmt::format("rank {}, collective {}: {}", rank, running.collective, wrong));
    }
  } else if (outcome.text.empty()) {
    faults_.push_back(fmt::format("rank {}: {} without a text", rank, to_string(outcome.status)));
  }
}

uint32_t NetScenario::ended_with(Status status) const {
  return static_cast<uint32_t>(std::count_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return net_.worker(rank.worker).status() == status;
  }));
}

void NetScenario::check_buffers(uint32_t aggregator, bool kept_results) {
  trio_ml::Job& job = net_.job(aggregator);
  if (job.record.block_curr_cnt != 0) {
    faults_.push_back(fmt::format("aggregator {} has {} blocks in progress at the end", aggregator,
                                  job.record.block_curr_cnt));
  }
  uint64_t kept = 0;
  if (kept_results) {
    uint64_t positions = 0;
    for (const Rank& rank : ranks_) {
      positions = std::max(positions, net_.worker(rank.worker).counters().blocks);
    }
    for (uint32_t block_id = 0; block_id < positions; block_id++) {
      const auto found = job.window.find({.gen_id = 0, .block_id = block_id, .extended = true});
      kept += found.kind == trio_ml::Found::Kind::kResult ? 1 : 0;
    }
  }
  const uint64_t buffers = trio_ml::buffer_count(job.config, 1);
  if (job.window.buffers_free() + kept != buffers) {
    faults_.push_back(fmt::format("aggregator {}: {} buffers free and {} kept, of {}", aggregator,
                                  job.window.buffers_free(), kept, buffers));
  }
}

void NetScenario::finish() {
  for (const Rank& rank : ranks_) net_.leave(rank.worker);
  net_.run_for(kSessionOver);
  // A message that has no other effect: each shard looks at what became of its session.
  net_.set_faults({});
  microcode::TrioMlFields nothing;
  nothing.job_id = config_.job.id;
  nothing.src_id = UINT8_MAX;
  std::vector<std::byte> bytes(microcode::TrioMlHeader::kBytes);
  microcode::encode_header(nothing, bytes.data());
  for (uint32_t i = 0; i < aggregator_count_; i++) {
    const Endpoint to =
        i == 0 ? VirtualNet::address(kRootKind, 0) : VirtualNet::address(kLeafKind, i - 1);
    net_.send(VirtualNet::address(kStrangerKind, 0), to, bytes);
  }
  net_.run_for(milliseconds(10));
  for (uint32_t i = 0; i < aggregator_count_; i++) {
    if (net_.job(i).session.number() != 0) {
      faults_.push_back(fmt::format("aggregator {} still has a session", i));
    }
    check_buffers(i, /*kept_results=*/false);
  }
}

}  // namespace tributary::testing
