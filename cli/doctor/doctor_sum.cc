// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/doctor_sum.h"

#include <fmt/format.h>

#include <array>
#include <thread>
#include <vector>

#include "cli/plan/plan_machines.h"
#include "host/communicator.h"
#include "server/appliance.h"

namespace tributary::cli {
namespace {

constexpr uint32_t kWorkers = 2;
constexpr uint32_t kLoopback = 0x7f000001;
/// Tensors of 8 MB leave the caches, as a model's do.
constexpr size_t kElements = 2'000'000;
/// Together about a second. Assumed.
constexpr uint32_t kReductions = 16;
/// A first session touches the job's memory.
constexpr uint32_t kWarmUp = 2;
constexpr Duration kDeadline = seconds(20);

/// Runs all-reduces as one rank.
Result<void> run_rank(const Endpoint& server, uint32_t rank, uint32_t reductions) {
  host::CommunicatorConfig config;
  config.server = server;
  config.rank = rank;
  config.world = kWorkers;
  config.window = 0;
  config.local = host::LocalUse::kOff;
  config.deadline = kDeadline;
  const auto communicator = host::Communicator::join(config);
  if (!communicator) return tl::unexpected(communicator.error());
  std::vector<float> tensor(kElements);
  for (uint32_t i = 0; i < reductions; i++) {
    const host::Outcome outcome =
        (*communicator)->all_reduce(tensor, {.format = host::FloatFormat::kFixedScale});
    if (outcome.status != host::Status::kOk) return failure(outcome.text);
  }
  return {};
}

/// Runs one session of all ranks.
Result<void> run_session(const Endpoint& server, uint32_t reductions) {
  std::array<Result<void>, kWorkers> results;
  {
    std::vector<std::jthread> ranks;
    for (uint32_t rank = 0; rank < kWorkers; rank++) {
      ranks.emplace_back([&results, server, rank, reductions] {
        results[rank] = run_rank(server, rank, reductions);
      });
    }
  }
  for (const auto& result : results) {
    if (!result) return result;
  }
  return {};
}

}  // namespace

Result<double> measure_sum_gbit() {
  auto appliance = server::Appliance::start({.listen = Endpoint::ipv4(kLoopback, 0),
                                             .memory_mb = 256,
                                             .local = false,
                                             .jobs = {{.id = 1, .sources = kWorkers}}});
  if (!appliance) return tl::unexpected(appliance.error());
  const Endpoint server = (*appliance)->local();
  if (const auto warm = run_session(server, kWarmUp); !warm) return tl::unexpected(warm.error());
  const Duration before = (*appliance)->snapshot().cores.front().cpu;
  if (const auto ran = run_session(server, kReductions); !ran) return tl::unexpected(ran.error());
  const Duration used = (*appliance)->snapshot().cores.front().cpu - before;
  if (used <= Duration()) return failure("the system's clock of CPU time stands still");
  constexpr double kBytes = double{kElements} * sizeof(float) * kReductions * kWorkers;
  return kBytes / in_seconds(used) / kBytesPerGbit;
}

Finding describe_sum(const Result<double>& sum_gbit) {
  Finding finding{.what = "sums of one core", .found = "", .verdict = Verdict::kOk, .remedy = ""};
  if (!sum_gbit) {
    finding.found = "not measured: " + sum_gbit.error().text;
    finding.verdict = Verdict::kWrong;
    finding.remedy =
        "run an aggregator and two workers on loopback by hand; see docs/operations.md";
    return finding;
  }
  finding.found = fmt::format(
      "{0:.3g} Gbit/s of gradients over kernel UDP; for tributary plan: --sum-gbit {0:.3g}, or "
      "@GBIT/{0:.3g} after this machine's address",
      *sum_gbit);
  return finding;
}

}  // namespace tributary::cli
