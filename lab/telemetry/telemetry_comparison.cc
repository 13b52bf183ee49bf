// SPDX-License-Identifier: Apache-2.0
#include "lab/telemetry/telemetry_comparison.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <ranges>

#include "lab/telemetry/precision_run.h"
#include "lab/telemetry/trio_run.h"

namespace tributary::lab {
namespace {

Result<uint64_t> parse_memory(const std::string& where, const std::string& text) {
  const auto refuse = [&] {
    return failure(fmt::format(
        "{}={} is not allowed; allowed: sizes from 1K to 512M with commas between, such as "
        "64K,1M",
        where, text));
  };
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value > kTelemetryMemoryMax) return refuse();
  const std::string_view unit(stop, end);
  if (unit == "K") {
    value <<= 10;
  } else if (unit == "M") {
    value <<= 20;
  } else if (!unit.empty()) {
    return refuse();
  }
  if (value < kTelemetryMemoryMin || value > kTelemetryMemoryMax) return refuse();
  return value;
}

Result<void> check_range(const char* name, double value, double min, double max) {
  if (std::isfinite(value) && value >= min && value <= max) return {};
  return failure(fmt::format("{}={} is out of range; allowed: {} to {}", name, value, min, max));
}

}  // namespace

Result<std::vector<uint64_t>> parse_memories(const std::string& where, const std::string& text) {
  std::vector<uint64_t> memories;
  for (const auto part : std::views::split(text, ',')) {
    const auto memory = parse_memory(where, std::string(part.begin(), part.end()));
    if (!memory) return tl::unexpected(memory.error());
    memories.push_back(*memory);
    if (memories.size() > kTelemetryMemoriesMax) {
      return failure(fmt::format("{} has more than {} sizes; allowed: 1 to {}", where,
                                 kTelemetryMemoriesMax, kTelemetryMemoriesMax));
    }
  }
  if (memories.empty()) return tl::unexpected(parse_memory(where, "").error());
  return memories;
}

Result<void> check(const TelemetryComparison& settings) {
  for (const auto& checked :
       {check_range("flows", settings.flows, 1, kTelemetryFlowsMax),
        check_range("packets", static_cast<double>(settings.packets), 1,
                    static_cast<double>(kTelemetryPacketsMax)),
        check_range("rate", settings.rate, 1, kTelemetryRateMax),
        check_range("top", settings.top, 1, kTelemetryTopMax),
        check_range("period-ms", in_seconds(settings.period) * 1e3, 1, kTelemetryPeriodMsMax)}) {
    if (!checked) return checked;
  }
  return traffic::check(trace_of(settings));
}

traffic::Config trace_of(const TelemetryComparison& settings) {
  traffic::Config config;
  config.seed = settings.seed;
  config.packets = settings.packets;
  config.background.flows = settings.flows;
  config.background.zipf = settings.zipf;
  config.background.rate = settings.rate;
  config.background.churn = settings.churn;
  config.background.ipv6_percent = 0;
  return config;
}

Result<TelemetryResult> run_telemetry(const TelemetryComparison& settings, uint32_t threads) {
  if (const auto checked = check(settings); !checked) return tl::unexpected(checked.error());
  const auto truth = FlowTruth::create(trace_of(settings), settings.top);
  if (!truth) return tl::unexpected(truth.error());

  using Cell = std::function<Result<TelemetryRow>()>;
  std::vector<Cell> cells;
  for (const uint64_t memory : settings.memories) {
    cells.emplace_back([&, memory] { return run_trio(settings, *truth, memory); });
    cells.emplace_back([&, memory] { return run_precision(settings, *truth, memory); });
  }
  std::vector<Result<TelemetryRow>> rows(cells.size());
  const int limit = threads == 0 ? tbb::task_arena::automatic : static_cast<int>(threads);
  // oneTBB starts no more threads than there are cores unless this limit is raised.
  std::optional<tbb::global_control> allowed;
  if (threads > 0) allowed.emplace(tbb::global_control::max_allowed_parallelism, size_t{threads});
  tbb::task_arena(limit).execute([&] {
    tbb::parallel_for(
        size_t{0}, cells.size(), [&](size_t i) { rows[i] = cells[i](); },
        tbb::simple_partitioner());
  });

  TelemetryResult result{.packets = truth->packets(),
                         .flows = truth->flow_count(),
                         .large_flows = truth->large().size(),
                         .threshold = truth->threshold(),
                         .rows = {}};
  for (const auto& row : rows) {
    if (!row) return tl::unexpected(row.error());
    result.rows.push_back(*row);
  }
  return result;
}

}  // namespace tributary::lab
