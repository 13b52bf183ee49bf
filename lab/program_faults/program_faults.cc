// SPDX-License-Identifier: Apache-2.0
#include "lab/program_faults/program_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/prng.h"
#include "io/memory_file.h"
#include "lab/program_faults/faulty_wire.h"
#include "lab/program_faults/judges.h"

namespace tributary::lab {
namespace {

constexpr uint32_t kPacketsMax = 2'000;
constexpr uint32_t kFlowsMax = 200;

/// The most of each rate, in the order of WireFault.
constexpr std::array<double, kWireFaultCount> kRateMax{0.3, 0.2, 0.3, 0.2, 0.2, 0.2, 0.2, 0.01};

/// Returns a number from 1 to `max`; each power of two is equally likely as its size.
uint32_t log_uniform(Prng& prng, uint32_t max) {
  const uint32_t bits = prng.below(static_cast<uint32_t>(std::bit_width(max)));
  return std::min(max, (1U << bits) + prng.below(1U << bits));
}

std::vector<WrittenKey> draw_settings(std::string_view program, Prng& prng) {
  const auto key = [](const char* name, uint64_t value) {
    return WrittenKey{.name = name, .text = fmt::format("{}", value), .where = ""};
  };
  if (program == "telemetry") {
    return {key("flows-max", log_uniform(prng, 2 * kFlowsMax)),
            key("inactive-timeout-ms", 1'000 + log_uniform(prng, 100'000)),
            key("active-timeout-ms", 1'000 + log_uniform(prng, 100'000)),
            key("timer-threads", log_uniform(prng, 20))};
  }
  if (program == "guard") {
    return {key("source-pps", log_uniform(prng, 100)), key("network-pps", log_uniform(prng, 200)),
            key("destination-pps", log_uniform(prng, 1'000)), key("suspects-max", 64),
            key("detect-ms", 1'000)};
  }
  return {};
}

Result<MachineRun> run_on(const programs::Program& program, const ProgramFaultPlan& plan,
                          const std::string& capture, bool on_model) {
  auto out = io::MemoryFile::create();
  auto records = io::MemoryFile::create();
  if (!out) return tl::unexpected(out.error());
  if (!records) return tl::unexpected(records.error());
  const auto settings = program.settings().read(plan.settings, "");
  if (!settings) return tl::unexpected(settings.error());
  programs::RunRequest request{.in = capture, .out = out->path()};
  if (program.has_flow_records) request.records = records->path();
  if (on_model) request.model = engine::Parameters();
  auto end = program.run(*settings, request);
  if (!end) return tl::unexpected(end.error());
  auto forwarded = out->read();
  if (!forwarded) return tl::unexpected(forwarded.error());
  auto written = records->read();
  if (!written) return tl::unexpected(written.error());
  return MachineRun{
      .end = *std::move(end), .forwarded = *std::move(forwarded), .records = *std::move(written)};
}

}  // namespace

const char* to_string(WireFault fault) {
  constexpr std::array<const char*, kWireFaultCount> kNames{
      "loss", "duplication", "reordering", "truncation",
      "cut",  "corruption",  "garbage",    "clock_step"};
  return kNames[static_cast<size_t>(fault)];
}

ProgramFaultPlan draw_program_plan(std::string_view program, uint64_t seed) {
  Prng prng(seed);
  ProgramFaultPlan plan;
  plan.seed = prng.any_u64();
  plan.traffic.seed = prng.any_u64();
  plan.traffic.packets = log_uniform(prng, kPacketsMax);
  plan.traffic.background.flows = log_uniform(prng, kFlowsMax);
  plan.traffic.background.rate = log_uniform(prng, 100'000);
  plan.traffic.background.churn = std::min<double>(
      log_uniform(prng, 1'000), traffic::kChurnPerPacketMax * plan.traffic.background.rate);
  plan.traffic.background.ipv6_percent = prng.below(101);
  if (prng.chance(0.3)) {
    plan.traffic.flood = traffic::FloodConfig();
    plan.traffic.flood->start = milliseconds(1 + prng.below(1'000));
    plan.traffic.flood->rate = log_uniform(prng, 100'000);
  }
  for (size_t i = 0; i < plan.rates.size(); i++) {
    if (prng.chance(0.5)) plan.rates[i] = kRateMax[i] * prng.unit();
  }
  plan.settings = draw_settings(program, prng);
  return plan;
}

Result<ProgramFaultResult> run_program_faults(const programs::Program& program,
                                              const ProgramFaultPlan& plan) {
  const auto traffic = faulty_traffic(plan);
  if (!traffic) return tl::unexpected(traffic.error());
  auto capture = io::MemoryFile::create();
  if (!capture) return tl::unexpected(capture.error());
  if (const auto written = write_capture(traffic->packets, capture->path()); !written) {
    return tl::unexpected(written.error());
  }
  const auto live = run_on(program, plan, capture->path(), /*on_model=*/false);
  if (!live) return tl::unexpected(live.error());
  const auto model = run_on(program, plan, capture->path(), /*on_model=*/true);
  if (!model) return tl::unexpected(model.error());
  ProgramFaultResult result{
      .packets = traffic->packets.size(), .faults = traffic->faults, .breaches = {}};
  for (const MachineRun* run : {&*live, &*model}) {
    judge_outcomes(*run, traffic->packets.size(), result.breaches);
    if (program.has_flow_records) judge_records(*run, traffic->packets, result.breaches);
    result.refused_packets += refused_packets(*run);
    for (const std::string* file : {&run->forwarded, &run->records}) {
      result.digest = Prng(result.digest ^ std::hash<std::string>()(*file)).any_u64();
    }
  }
  // A timer of the guard may come before a packet on one machine and after it on the other.
  if (program.name != "guard" && live->forwarded != model->forwarded) {
    result.breaches.emplace_back("the machines forward different bytes");
  }
  return result;
}

Result<ProgramCampaignReport> run_program_campaign(const programs::Program& program,
                                                   const ProgramCampaign& campaign) {
  std::mutex mutex;
  std::atomic<uint64_t> next{0};
  std::map<uint64_t, Error> errors;  ///< By seed.
  ProgramCampaignReport report;
  const auto add = [&](uint64_t seed, Result<ProgramFaultResult> result) {
    const std::lock_guard lock(mutex);
    if (!result) {
      errors.emplace(seed, result.error());
      next = campaign.seeds;
      return;
    }
    result->seed = seed;
    report.seeds++;
    report.packets += result->packets;
    report.refused_packets += result->refused_packets;
    report.digest ^= result->digest;
    for (size_t i = 0; i < report.faults.size(); i++) report.faults[i] += result->faults[i];
    if (!result->breaches.empty()) {
      report.failed_seeds++;
      report.failures.push_back(*std::move(result));
    }
    if (campaign.on_progress) campaign.on_progress(report.seeds);
  };
  const auto work = [&] {
    for (uint64_t i = next++; i < campaign.seeds; i = next++) {
      const uint64_t seed = campaign.first_seed + i;
      add(seed, run_program_faults(program, draw_program_plan(program.name, seed)));
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < campaign.threads; i++) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (!errors.empty()) return tl::unexpected(errors.begin()->second);
  std::sort(report.failures.begin(), report.failures.end(),
            [](const auto& a, const auto& b) { return a.seed < b.seed; });
  if (report.failures.size() > kProgramFailuresMax) report.failures.resize(kProgramFailuresMax);
  return report;
}

}  // namespace tributary::lab
