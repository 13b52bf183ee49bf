// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/soak.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>

#include "bench/measure.h"
#include "bench/race/client/lap_tensor.h"
#include "bench/soak/server_watch.h"
#include "bench/soak/worker_group.h"

namespace tributary::soak {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kJobsMax = 64;
constexpr uint64_t kBytesMax = 100'000'000;
constexpr uint32_t kPhaseMsMin = 100;
/// kPollMs: period at which a phase checks for its end. kSettleWithin: longest time for the server
/// to read its sockets and to notice that all workers have left.
constexpr int kPollMs = 20;
constexpr std::chrono::seconds kSettleWithin{10};

/// Least room in the socket for a packet of 352 gradients; packets of a train share the kernel's
/// headers.
constexpr uint32_t kPacketBytesInSocket = 1500;
constexpr uint32_t kOverload = 2;
constexpr uint64_t kReductionsASession = 20;

/// Returns each worker's packets in flight, so that all together need kOverload times the socket.
uint32_t overload_window(const SoakConfig& config) {
  const uint32_t all = kOverload * kServerSocketBytes / kPacketBytesInSocket;
  return std::bit_ceil(std::max(1U, all / (kOverload * config.jobs * config.workers)));
}

class Soak {
 public:
  Soak(const SoakConfig& config, const bench::LongRunHooks& hooks, ServerWatch& server)
      : config_(config), hooks_(hooks), server_(server) {}
  Result<SoakResult> run();

 private:
  /// @return the phase's GB/s.
  double run_phase(bool overload);
  /// Runs one short polite session of each job, one after the other. They replace sessions left
  /// over from the previous phase, so every cycle ends in the same state.
  void run_quietly();
  /// Waits until the server has read its sockets, then observes it.
  Result<ServerState> settled();
  Result<void> run_cycle();

  const SoakConfig& config_;
  const bench::LongRunHooks& hooks_;
  ServerWatch& server_;
  Account account_;
  SoakResult result_;
};

double Soak::run_phase(bool overload) {
  std::vector<std::unique_ptr<WorkerGroup>> groups;
  const uint32_t jobs = overload ? kOverload * config_.jobs : config_.jobs;
  for (uint32_t job = 1; job <= jobs; job++) {
    GroupConfig group{.server = server_.address(),
                      .job = static_cast<uint8_t>(job),
                      .workers = config_.workers,
                      .bytes = config_.bytes,
                      .trains = config_.trains};
    if (overload) group.window = overload_window(config_);
    if (overload && job % 2 == 0) {
      group.reductions_a_session = kReductionsASession;
      group.rude = true;
    }
    groups.push_back(std::make_unique<WorkerGroup>(group, account_));
  }
  const auto begin = Clock::now();
  const uint64_t bytes_before = account_.reduced_bytes.load();
  const auto end = begin + std::chrono::milliseconds(config_.phase_ms);
  while (Clock::now() < end && !hooks_.interrupted()) poll(nullptr, 0, kPollMs);
  const double bytes = static_cast<double>(account_.reduced_bytes.load() - bytes_before);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (auto& group : groups) group->stop();
  groups.clear();
  return bytes / seconds * 1e-9;
}

void Soak::run_quietly() {
  for (uint32_t job = 1; job <= kOverload * config_.jobs; job++) {
    WorkerGroup group({.server = server_.address(),
                       .job = static_cast<uint8_t>(job),
                       .workers = config_.workers,
                       .bytes = config_.bytes,
                       .sessions = 1,
                       .reductions_a_session = 2,
                       .trains = config_.trains},
                      account_);
    group.wait();
  }
}

Result<ServerState> Soak::settled() {
  const auto deadline = Clock::now() + kSettleWithin;
  auto before = server_.look();
  while (before) {
    poll(nullptr, 0, kPollMs);
    auto state = server_.look();
    const bool still = state && state->rx_packets == before->rx_packets &&
                       state->socket_drops == before->socket_drops;
    if (!state || still || Clock::now() > deadline) return state;
    before = std::move(state);
  }
  return before;
}

Result<void> Soak::run_cycle() {
  Cycle cycle;
  cycle.capacity_gb_per_s = run_phase(false);
  if (hooks_.interrupted()) return {};
  cycle.overload_gb_per_s = run_phase(true);
  run_quietly();
  const auto state = settled();
  if (!state) return tl::unexpected(state.error());
  cycle.resident_bytes = state->resident_bytes;
  cycle.buffers_free = state->buffers_free;
  cycle.blocks_open = state->blocks_open;
  result_.packets_taken = state->rx_packets;
  result_.drops = state->socket_drops;
  result_.packets_sent = account_.packets_sent.load();
  result_.cycles.push_back(cycle);
  return {};
}

Result<SoakResult> Soak::run() {
  const auto begin = Clock::now();
  const auto elapsed = [begin] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  while ((result_.cycles.size() < 2 || elapsed() < config_.seconds) && !hooks_.interrupted()) {
    if (auto ran = run_cycle(); !ran) return tl::unexpected(ran.error());
    if (result_.cycles.empty()) break;
    const Cycle& last = result_.cycles.back();
    hooks_.progress(fmt::format(
        "{:.0f} of {} s: {:.2f} GB/s at capacity, {:.2f} overloaded; {:.1f} MB resident, {} "
        "drops, {} wrong",
        elapsed(), config_.seconds, last.capacity_gb_per_s, last.overload_gb_per_s,
        static_cast<double>(last.resident_bytes) * 1e-6, result_.drops, account_.wrong.load()));
  }
  result_.seconds = elapsed();
  result_.interrupted = hooks_.interrupted();
  result_.trains = config_.trains;
  result_.reductions = account_.reductions.load();
  result_.wrong = account_.wrong.load();
  result_.sessions = account_.sessions.load();
  result_.broken = account_.broken.load();
  result_.failed = account_.failed.load();
  result_.first_failure = account_.first_failure();
  result_.retransmitted = account_.retransmitted.load();
  return std::move(result_);
}

}  // namespace

Result<void> check(const SoakConfig& config) {
  if (config.jobs < 1 || config.jobs > kJobsMax) {
    return failure(
        fmt::format("--jobs {} is not allowed; allowed: 1 to {}", config.jobs, kJobsMax));
  }
  if (config.workers < 2 || config.workers > race::kWorkersMax) {
    return failure(fmt::format("--workers {} is not allowed; allowed: 2 to {}", config.workers,
                               race::kWorkersMax));
  }
  if (config.bytes == 0 || config.bytes % 4 != 0 || config.bytes > kBytesMax) {
    return failure(fmt::format("--bytes {} is not allowed; allowed: multiples of 4 up to {}",
                               config.bytes, kBytesMax));
  }
  if (config.phase_ms < kPhaseMsMin) {
    return failure(fmt::format("--phase-ms {} is not allowed; allowed: {} and more",
                               config.phase_ms, kPhaseMsMin));
  }
  return {};
}

Result<SoakResult> run_soak(const SoakConfig& config, const bench::LongRunHooks& hooks) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  const bench::ScratchFolder scratch;
  if (scratch.path().empty()) return failure("cannot make a temporary folder; set TMPDIR");
  ServerPlan plan{.program = config.tributary, .jobs = {}, .scratch = scratch.path(), .where = {}};
  for (uint32_t id = 1; id <= kOverload * config.jobs; id++) {
    plan.jobs.push_back(fmt::format("id={},sources={}", id, config.workers));
  }
  auto server = ServerWatch::start(plan);
  if (!server) return tl::unexpected(server.error());
  return Soak(config, hooks, *server).run();
}

}  // namespace tributary::soak
