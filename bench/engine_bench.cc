// SPDX-License-Identifier: Apache-2.0
#include "bench/engine_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "bench/measure.h"
#include "bench/replay_engine.h"
#include "bench/replay_load.h"
#include "memory/lanes.h"
#include "wire/trio_ml.h"

namespace tributary::bench {
namespace {

/// Fills `sent` field by field, as the engine does. A TxPacket built elsewhere and copied would
/// wait for its narrow stores, about as long as all other work takes.
void refer(engine::TxPacket& sent, const std::byte* data, uint32_t size, const Endpoint& to) {
  sent.data = data;
  sent.size = size;
  sent.layer = engine::PacketLayer::kUdpPayload;
  sent.destination = to;
}

// --- The hand-written loop ---

/// A block of the loop, with only the fields that it needs.
struct LoopSlot {
  uint64_t seen = 0;
  uint32_t block_id = UINT32_MAX;
  uint16_t gen_id = 0;
};

class Loop {
 public:
  explicit Loop(const ReplayLoad& workload)
      : queue_(workload),
        sending_(size_t{engine::kBurstPackets} * workload.shape().sources),
        slots_(workload.shape().window),
        stride_((workload.packet_bytes() + 63) / 64 * 64),
        results_(size_t{workload.shape().window} * stride_),
        gradients_(workload.shape().gradients),
        all_((uint64_t{1} << workload.shape().sources) - 1) {
    for (uint32_t source = 0; source < workload.shape().sources; source++) {
      destinations_.push_back(Endpoint::ipv4(0x0a000001 + source, 4000));
    }
  }

  /// Aggregates every packet of a generation.
  /// @return the checksum over all results.
  uint64_t run(uint16_t gen_id) {
    queue_.rewind(gen_id);
    queue_.clear_checksum();
    while (!queue_.done()) {
      const uint32_t count = queue_.receive(burst_);
      for (uint32_t i = 0; i < count; i++) add(burst_[i]);
      queue_.transmit(std::span(sending_).first(sending_count_));
      sending_count_ = 0;
    }
    return queue_.checksum();
  }

 private:
  void add(const engine::Packet& packet) {
    using H = wire::TrioMlHeader;
    const std::byte* header = packet.data;
    const uint32_t block_id = H::BlockId::load(header);
    const auto gen_id = static_cast<uint16_t>(H::GenerationId::load(header));
    const uint64_t bit = uint64_t{1} << H::SourceId::load(header);
    const uint32_t index = block_id & (static_cast<uint32_t>(slots_.size()) - 1);
    LoopSlot& slot = slots_[index];
    std::byte* result = &results_[index * stride_];
    auto* sum = reinterpret_cast<int32_t*>(result + H::kBytes);
    if (slot.block_id != block_id || slot.gen_id != gen_id) {
      slot = {bit, block_id, gen_id};
      memory::store_be32(sum, header + H::kBytes, gradients_);
    } else if ((slot.seen & bit) == 0) {
      slot.seen |= bit;
      memory::add_be32(sum, header + H::kBytes, gradients_);
    }
    if (slot.seen != all_) return;
    memory::to_be32_in_place(sum, gradients_);
    std::memcpy(result, header, H::kBytes);
    for (const Endpoint& to : destinations_)
      refer(sending_[sending_count_++], result, packet.size, to);
  }

  ReplayQueue queue_;
  std::array<engine::Packet, engine::kBurstPackets> burst_;
  std::vector<engine::TxPacket> sending_;  ///< Shape [burst * sources]: holds a burst's results.
  size_t sending_count_ = 0;
  std::vector<Endpoint> destinations_;
  std::vector<LoopSlot> slots_;
  const size_t stride_;
  std::vector<std::byte> results_;
  const uint32_t gradients_;
  const uint64_t all_;
};

// --- Measuring ---

struct Measured {
  double seconds = 0;
  uint64_t checksum = 0;
};

/// Runs `generation` repeatedly, each time with a new generation number, until the work is done.
template <class F>
Measured measure(const ReplayLoad& workload, uint16_t& gen_id, uint64_t gradients_wanted,
                 F&& generation) {
  const uint64_t gradients_once = uint64_t{workload.shape().gradients} * workload.packets().size();
  Measured measured;
  const double begin_s = thread_cpu_s();
  for (uint64_t done = 0; done < gradients_wanted; done += gradients_once) {
    measured.checksum += generation(++gen_id);
  }
  measured.seconds = thread_cpu_s() - begin_s;
  return measured;
}

/// Measures the port alone: receives a burst and transmits as many results as the engine would.
uint64_t run_io_alone(ReplayQueue& queue, const ReplayLoad& workload, uint16_t gen_id) {
  std::array<engine::Packet, engine::kBurstPackets> burst;
  std::array<engine::TxPacket, engine::kBurstPackets> results;
  queue.rewind(gen_id);
  while (!queue.done()) {
    const uint32_t count = queue.receive(burst);
    for (uint32_t i = 0; i < count; i++)
      refer(results[i], burst[i].data, burst[i].size, burst[i].source);
    queue.transmit(
        std::span(results).first(count / workload.shape().sources * workload.shape().sources));
  }
  return queue.checksum();
}

EngineBenchRow run_row(const EngineBenchConfig& config, uint32_t gradients, uint32_t window) {
  const ReplayLoad workload =
      ReplayLoad({.gradients = gradients, .window = window, .sources = config.sources});
  Loop loop(workload);
  ReplayEngine engine(workload);
  ReplayQueue io_queue(workload);
  // Each continues from its own last generation, as sources do.
  uint16_t loop_gen_id = 0;
  uint16_t engine_gen_id = 0;
  const auto run_loop = [&](uint16_t gen_id) { return loop.run(gen_id); };
  const auto run_engine = [&](uint16_t gen_id) { return engine.run(gen_id); };
  // Warm-up: both touch every page; the engine caches the results of one generation.
  measure(workload, loop_gen_id, 1, run_loop);
  measure(workload, engine_gen_id, 3 * uint64_t{gradients} * workload.packets().size(), run_engine);

  EngineBenchRow row{.gradients = gradients, .window = window, .results_agree = true};
  std::vector<double> loop_s, engine_s, io_s, ratios;
  for (uint32_t i = 0; i < config.repetitions; i++) {
    const Measured by_loop = measure(workload, loop_gen_id, config.gradients_each, run_loop);
    const Measured by_engine = measure(workload, engine_gen_id, config.gradients_each, run_engine);
    const Measured by_io =
        measure(workload, loop_gen_id, config.gradients_each / 4,
                [&](uint16_t gen_id) { return run_io_alone(io_queue, workload, gen_id); });
    row.results_agree &= by_loop.checksum == by_engine.checksum;
    loop_s.push_back(by_loop.seconds);
    engine_s.push_back(by_engine.seconds);
    io_s.push_back(by_io.seconds);
    ratios.push_back(by_loop.seconds / by_engine.seconds);
  }
  const uint64_t once = workload.packets().size();
  const uint64_t gradients_once = gradients * once;
  const auto packets = [&](uint64_t wanted) {
    return static_cast<double>((wanted + gradients_once - 1) / gradients_once * once) * 1e-6;
  };
  row.loop_mpps = packets(config.gradients_each) / median(loop_s);
  row.engine_mpps = packets(config.gradients_each) / median(engine_s);
  row.io_mpps = packets(config.gradients_each / 4) / median(io_s);
  row.ratio = median(ratios);
  row.ratio_min = *std::min_element(ratios.begin(), ratios.end());
  row.ratio_max = *std::max_element(ratios.begin(), ratios.end());
  return row;
}

}  // namespace

std::vector<EngineBenchRow> run_engine_bench(const EngineBenchConfig& config,
                                             void (*progress)(const std::string&)) {
  std::vector<EngineBenchRow> rows;
  for (const uint32_t gradients : config.gradients) {
    for (const uint32_t window : config.windows) {
      progress(fmt::format("{} gradients, window {}", gradients, window));
      rows.push_back(run_row(config, gradients, window));
    }
  }
  return rows;
}

std::string as_table(const std::vector<EngineBenchRow>& rows) {
  std::string table = fmt::format(
      "One core, packets in memory ({}), engine against a hand-written loop\n"
      "{:>9} {:>7} {:>12} {:>11} {:>10} {:>7} {:>15} {:>8}\n",
      memory::lanes_isa(), "gradients", "window", "engine Mpps", "loop Mpps", "port Mpps", "ratio",
      "(min - max)", "results");
  for (const EngineBenchRow& row : rows) {
    table += fmt::format(
        "{:>9} {:>7} {:>12.2f} {:>11.2f} {:>10.1f} {:>7.2f} {:>7.2f} - {:>5.2f} {:>8}\n",
        row.gradients, row.window, row.engine_mpps, row.loop_mpps, row.io_mpps, row.ratio,
        row.ratio_min, row.ratio_max, row.results_agree ? "agree" : "DIFFER");
  }
  return table;
}

nlohmann::json as_json(const std::vector<EngineBenchRow>& rows) {
  nlohmann::json json{
      {"bench", "engine"}, {"lanes_isa", memory::lanes_isa()}, {"rows", nlohmann::json::array()}};
  for (const EngineBenchRow& row : rows) {
    json["rows"].push_back({{"gradients", row.gradients},
                            {"window", row.window},
                            {"engine_mpps", row.engine_mpps},
                            {"loop_mpps", row.loop_mpps},
                            {"io_mpps", row.io_mpps},
                            {"ratio", row.ratio},
                            {"ratio_min", row.ratio_min},
                            {"ratio_max", row.ratio_max},
                            {"results_agree", row.results_agree}});
  }
  return json;
}

}  // namespace tributary::bench
