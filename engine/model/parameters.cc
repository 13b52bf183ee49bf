// SPDX-License-Identifier: Apache-2.0
#include "engine/model/parameters.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <span>
#include <variant>

#include "engine/model/dispatch.h"

namespace tributary::engine {
namespace {

constexpr uint32_t kGenerations = 6;

/// Source: Trio paper §8 for first and last; between them 16 x 10^((g - 1) / 5), rounded.
constexpr std::array<uint32_t, kGenerations> kPpeCount{16, 25, 40, 64, 101, 160};
constexpr uint32_t kTestbedGeneration = 5;  // Trio paper §6.1.

/// Returns the engine count that gives each PPE as many engines as in the testbed, rounded.
constexpr uint32_t engines_of(uint32_t ppe_count) {
  const uint32_t testbed = kPpeCount[kTestbedGeneration - 1];
  return (ppe_count * memory::kRmwEngineCount + testbed / 2) / testbed;
}
static_assert(engines_of(kPpeCount[kTestbedGeneration - 1]) == memory::kRmwEngineCount);
static_assert(engines_of(kPpeCount[0]) == 2 && engines_of(kPpeCount[5]) == 19);

/// Ports of a PFE, Gbit/s. Source: Trio paper §2.1 for generations 1 and 6; Juniper TechPost
/// "MPC10E Deepdive" (2023) for 5. Assumed for 2 to 4: 40 x 12.5^((g - 1) / 4), rounded.
constexpr std::array<uint32_t, kGenerations> kPortGbitPerS{40, 75, 141, 266, 500, 1600};
/// Fabric of a PFE, Gbit/s. Source for generation 1: juniper.cluepon.net "Trio oversubscription",
/// 40 Gbit/s for each PFE in an MX480 with two boards. For 5: Juniper "SCBE3-MX Description", 1.5
/// Tbit/s for each slot with an MPC10E, which has three PFEs. Assumed for the others: as wide as
/// the ports.
constexpr std::array<uint32_t, kGenerations> kFabricGbitPerS = kPortGbitPerS;
static_assert(kFabricGbitPerS[0] == 40 && kFabricGbitPerS[4] == 1500 / 3);
/// Assumed: the headers are parsed as on arrival; one instruction rewrites the link header, one
/// counts the packet at its port.
constexpr uint32_t kEgressInstructions = Parameters().header_instructions + 2;

constexpr double kTicksPerNanosecond = static_cast<double>(nanoseconds(1).ticks());
/// One minute: more than any latency, and far from overflow.
constexpr double kLatencyNsMax = 60e9;

/// One number: its member, its limits, its unit and its source.
struct Row {
  const char* name;
  std::variant<uint32_t Parameters::*, uint64_t Parameters::*, Duration Parameters::*> member;
  double least;
  double most;
  const char* unit;
  const char* source;

  [[nodiscard]] bool is_time() const {
    return std::holds_alternative<Duration Parameters::*>(member);
  }
  [[nodiscard]] double get(const Parameters& parameters) const {
    return std::visit(
        [&](auto pointer) {
          if constexpr (std::is_same_v<decltype(pointer), Duration Parameters::*>) {
            return static_cast<double>((parameters.*pointer).ticks()) / kTicksPerNanosecond;
          } else {
            return static_cast<double>(parameters.*pointer);
          }
        },
        member);
  }
  void set(Parameters& parameters, double value) const {
    std::visit(
        [&](auto pointer) {
          if constexpr (std::is_same_v<decltype(pointer), Duration Parameters::*>) {
            parameters.*pointer =
                Duration::from_ticks(static_cast<int64_t>(value * kTicksPerNanosecond));
          } else {
            using Value = std::remove_reference_t<decltype(parameters.*pointer)>;
            parameters.*pointer = static_cast<Value>(value);
          }
        },
        member);
  }
  /// Returns an Error if the value is out of range, or a fraction where only whole numbers fit.
  [[nodiscard]] Result<void> check(double value) const {
    // Negated, so that NaN is refused too.
    if (!(value >= least && value <= most)) {
      return failure(fmt::format("{}={} is not allowed; allowed: {} to {} {}", name, value, least,
                                 most, unit));
    }
    if (!is_time() && static_cast<double>(static_cast<uint64_t>(value)) != value) {
      return failure(fmt::format("{}={} is not allowed; allowed: whole numbers", name, value));
    }
    return {};
  }
};

using P = Parameters;
constexpr double kThreadsMax = AvailabilityDispatch::kThreadsEachMax;
constexpr double kBytesMax = 1 << 20;
constexpr double kGbitPerSMax = 1e6;

const std::array<Row, 28> kRows{{
    {"generation", &P::generation, 1, kGenerations, "", "Trio paper §6.1: the testbed's is 5"},
    {"clock_period_ns", &P::clock_period, 0.01, 1e6, "ns", "Trio paper §6.3: 1 GHz"},
    {"ppe_count", &P::ppe_count, 1, 4096, "", "Trio paper §8: 16 to 160; between: assumed"},
    {"threads_each", &P::threads_each, 1, kThreadsMax, "", "assumed; \"tens\", Trio paper §2.1"},
    {"instruction_cycles", &P::instruction_cycles, 1, 10'000, "cycles", "assumed: threads_each"},
    {"header_instructions", &P::header_instructions, 0, 1000, "", "apps/arrival.h"},
    {"header_bytes", &P::header_bytes, 0, 128, "B", "IEEE 802.3, RFC 791, RFC 768"},
    {"instructions_per_gradient", &P::instructions_per_gradient, 0, 100, "",
     "assumed, for 1.2 in all (Trio paper §6.3)"},
    {"instructions_per_chunk", &P::instructions_per_chunk, 0, 1000, "",
     "assumed, for 1.2 in all (Trio paper §6.3)"},
    {"instructions_per_result_chunk", &P::instructions_per_result_chunk, 0, 1000, "", "assumed"},
    {"instructions_per_narrow_lane", &P::instructions_per_narrow_lane, 0, 100, "", "assumed"},
    {"rmw_engine_count", &P::rmw_engine_count, 1, 4096, "", "Trio paper §6.3: 12; others assumed"},
    {"sram_latency_ns", &P::sram_latency, 0, kLatencyNsMax, "ns", "Trio paper §2.3"},
    {"dram_latency_ns", &P::dram_latency, 0, kLatencyNsMax, "ns", "Trio paper §2.3: 300 to 400"},
    {"dram_cache_latency_ns", &P::dram_cache_latency, 0, kLatencyNsMax, "ns",
     "Trio paper §2.3: similar to SRAM"},
    {"dram_cache_bytes", &P::dram_cache_bytes, 64, 4294967296.0, "B", "Trio paper §2.3: 8-24 MB"},
    {"crossbar_latency_ns", &P::crossbar_latency, 0, kLatencyNsMax, "ns",
     "assumed: half of sram_latency"},
    {"bank_queue_requests", &P::bank_queue_requests, 1, 1e6, "", "assumed"},
    {"hash_latency_ns", &P::hash_latency, 0, kLatencyNsMax, "ns", "assumed: as sram_latency"},
    {"ref_flag_bytes", &P::ref_flag_bytes, 1, 64, "B", "assumed: one smallest request"},
    {"ingress_latency_ns", &P::ingress_latency, 0, kLatencyNsMax, "ns",
     "calibrated: Trio paper Figure 15, 64 gradients"},
    {"tail_read_latency_ns", &P::tail_read_latency, 0, kLatencyNsMax, "ns",
     "calibrated: Trio paper Figure 15, 1024 gradients"},
    {"packet_buffer_packets", &P::packet_buffer_packets, 1, 1 << 24, "",
     "Juniper: 100 ms of four ports, in packets of 1024 gradients"},
    {"packet_bytes_max", &P::packet_bytes_max, kHeadBytes, kBytesMax, "B", "assumed"},
    {"port_gbit_per_s", &P::port_gbit_per_s, 0, kGbitPerSMax, "Gbit/s",
     "Trio paper §2.1: 40 to 1600; 0: links model them"},
    {"fabric_gbit_per_s", &P::fabric_gbit_per_s, 0, kGbitPerSMax, "Gbit/s",
     "Juniper SCBE3-MX: 500 in generation 5; 0: not modelled"},
    {"egress_instructions", &P::egress_instructions, 0, 1000, "", "assumed; 0: not modelled"},
    {"reorder_queues", &P::reorder_queues, 1, 1 << 24, "", "assumed"},
}};

}  // namespace

Result<Parameters> preset(uint32_t generation) {
  if (generation < 1 || generation > kGenerations) {
    return failure(
        fmt::format("generation={} is not allowed; allowed: 1 to {}", generation, kGenerations));
  }
  Parameters parameters;
  parameters.generation = generation;
  parameters.ppe_count = kPpeCount[generation - 1];
  parameters.rmw_engine_count = engines_of(parameters.ppe_count);
  return parameters;
}

Parameters with_egress(Parameters parameters) {
  parameters.port_gbit_per_s = kPortGbitPerS[parameters.generation - 1];
  parameters.fabric_gbit_per_s = kFabricGbitPerS[parameters.generation - 1];
  parameters.egress_instructions = kEgressInstructions;
  return parameters;
}

Result<void> check(const Parameters& parameters) {
  for (const Row& row : kRows) {
    if (const auto checked = row.check(row.get(parameters)); !checked) return checked;
  }
  if (!std::has_single_bit(parameters.dram_cache_bytes)) {
    return failure(fmt::format("dram_cache_bytes={} is not allowed; allowed: powers of two",
                               parameters.dram_cache_bytes));
  }
  const Duration least =
      std::min({parameters.sram_latency, parameters.dram_latency, parameters.dram_cache_latency});
  if (parameters.crossbar_latency > least) {
    return failure(fmt::format(
        "crossbar_latency_ns={} is not allowed; allowed: at most the shortest memory latency, {}",
        in_nanoseconds(parameters.crossbar_latency), in_nanoseconds(least)));
  }
  return {};
}

std::vector<ParameterRow> parameter_rows(const Parameters& parameters) {
  std::vector<ParameterRow> rows;
  for (const Row& row : kRows) {
    rows.push_back({row.name, row.get(parameters), row.unit, row.source});
  }
  return rows;
}

Result<void> set_parameter(Parameters& parameters, std::string_view name, double value) {
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    if (const auto checked = row.check(value); !checked) return checked;
    row.set(parameters, value);
    return {};
  }
  std::string known;
  for (const Row& row : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return failure(
      fmt::format("{} is not a parameter of the modelled machine; known are {}", name, known));
}

}  // namespace tributary::engine
