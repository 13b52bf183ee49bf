// SPDX-License-Identifier: Apache-2.0
#include "bench/parts_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "apps/filter/app.h"
#include "base/assert.h"
#include "base/prng.h"
#include "bench/frame_replay.h"
#include "bench/measure.h"
#include "bench/parts_rows.h"
#include "bench/replay_engine.h"
#include "bench/replay_load.h"
#include "host/formats/number_format.h"
#include "memory/lanes.h"
#include "wire/headers.h"

namespace tributary::bench {
namespace {

// --- Filter ---

/// Frames that the filter forwards.
constexpr uint32_t kFilterFrames = 1024;

void fill_ipv4(uint32_t, std::span<std::byte> frame) {
  using Ether = wire::EthernetHeader;
  using Ipv4 = wire::Ipv4Header;
  Ether::EtherType::store(frame.data(), wire::kEtherTypeIpv4);
  Ipv4::Version::store(frame.data() + Ether::kBytes, 4);
  Ipv4::HeaderWords::store(frame.data() + Ether::kBytes, 5);
}

PartsBenchRow filter_row(const PartsBenchConfig& config) {
  PartsBenchRow row{.part = "filter", .baseline = "receive and send", .unit = "Mpps"};
  auto memory = memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = 0});
  TRIB_ASSERT(memory.has_value());
  auto state = filter::FilterState::create(*memory);
  TRIB_ASSERT(state.has_value());
  FrameReplay queue(kFilterFrames, fill_ipv4), bare_queue(kFilterFrames, fill_ipv4);
  engine::LiveCore<filter::App> core(0, queue, filter::App(*state), {});
  const auto filtered = [&] {
    queue.rewind();
    while (!queue.done()) core.run_once(Instant(milliseconds(1)));
  };
  std::array<engine::Packet, engine::kBurstPackets> burst;
  std::array<engine::TxPacket, engine::kBurstPackets> sending;
  const auto bare = [&] {
    bare_queue.rewind();
    while (!bare_queue.done()) {
      const uint32_t count = bare_queue.receive(burst);
      for (uint32_t i = 0; i < count; i++) forward(burst[i], sending[i]);
      bare_queue.transmit(std::span(sending).first(count));
    }
  };
  const auto rate = [&](auto& once) {
    return millions_per_s(config.packets_each * 4, kFilterFrames, once);
  };
  measure_pairs(
      row, config.repetitions, [&] { return rate(filtered); }, [&] { return rate(bare); });
  row.is_correct = queue.sent() == bare_queue.sent();
  return row;
}

// --- Jobs ---

constexpr uint32_t kJobs = 10;
constexpr uint32_t kBlocksEach = 16;
constexpr uint32_t kSources = 4;

PartsBenchRow jobs_row(const PartsBenchConfig& config) {
  PartsBenchRow row{.part = "ten jobs", .baseline = "one job", .unit = "Mpps"};
  const ReplayLoad many({.gradients = kGradients,
                         .window = kBlocksEach,
                         .sources = kSources,
                         .jobs = kJobs,
                         .shuffled = true});
  // The same numbers of packets and blocks, so that both need the same amount of cache.
  const ReplayLoad one({.gradients = kGradients,
                        .window = 256,
                        .blocks = kJobs * kBlocksEach,
                        .sources = kSources,
                        .shuffled = true});
  ReplayEngine many_engine(many), one_engine(one);
  uint16_t many_gen_id = 0;
  uint16_t one_gen_id = 0;
  measure_pairs(
      row, config.repetitions,
      [&] { return aggregate(many_engine, many, config.packets_each, many_gen_id); },
      [&] { return aggregate(one_engine, one, config.packets_each, one_gen_id); });
  row.is_correct = many_engine.results() == uint64_t{many_gen_id} * kBlocksEach * kJobs &&
                   one_engine.results() == uint64_t{one_gen_id} * kBlocksEach * kJobs;
  return row;
}

// --- The worker's loops ---

/// Elements in a payload at an MTU of 1500, and as many packets as fit the second-level cache.
constexpr uint32_t kElements = 352;
constexpr uint32_t kPieces = 256;

/// A tensor and the lanes of its packets.
struct Pieces {
  Pieces() : tensor(kElements * kPieces), lanes(tensor.size() * sizeof(float)) {
    Prng prng(1);
    for (float& value : tensor) value = static_cast<float>(prng.any_i32()) * 0x1p-31F;
  }
  /// Returns GB/s of tensor bytes for `once(elements of a piece, its lanes)`.
  template <class F>
  double gigabytes_per_s(uint64_t wanted_pieces, F&& once) {
    const double pieces = millions_per_s(wanted_pieces, kPieces, [&] {
      for (uint32_t i = 0; i < kPieces; i++) {
        once(std::span(tensor).subspan(i * kElements, kElements), &lanes[i * kElements * 4]);
      }
    });
    return pieces * 1e-3 * kElements * sizeof(float);
  }
  std::vector<float> tensor;
  std::vector<std::byte> lanes;
};

constexpr float kScale = 0x1p20F;

PartsBenchRow pack_row(const PartsBenchConfig& config) {
  PartsBenchRow row{.part = "worker: pack", .baseline = "memcpy", .unit = "GB/s"};
  Pieces pieces;
  bool fits = true;
  const auto pack = [&](std::span<const float> from, std::byte* to) {
    fits &= host::pack_fixed(from, kScale, INT32_MAX, to) == host::Fit::kFits;
  };
  const auto copy = [](std::span<const float> from, std::byte* to) {
    std::memcpy(to, from.data(), from.size_bytes());
  };
  measure_pairs(
      row, config.repetitions, [&] { return pieces.gigabytes_per_s(config.packets_each, pack); },
      [&] { return pieces.gigabytes_per_s(config.packets_each, copy); });
  row.is_correct = fits;
  return row;
}

PartsBenchRow unpack_row(const PartsBenchConfig& config) {
  PartsBenchRow row{.part = "worker: unpack", .baseline = "memcpy", .unit = "GB/s"};
  Pieces pieces;
  Pieces copies;
  static_cast<void>(host::pack_fixed(pieces.tensor, kScale, INT32_MAX, pieces.lanes.data()));
  const std::vector<float> before = pieces.tensor;
  const auto unpack = [](std::span<float> to, const std::byte* from) {
    host::unpack_fixed(from, kScale, 1, to);
  };
  const auto copy = [](std::span<float> to, const std::byte* from) {
    std::memcpy(to.data(), from, to.size_bytes());
  };
  measure_pairs(
      row, config.repetitions, [&] { return pieces.gigabytes_per_s(config.packets_each, unpack); },
      [&] { return copies.gigabytes_per_s(config.packets_each, copy); });
  row.is_correct =
      std::equal(before.begin(), before.end(), pieces.tensor.begin(),
                 [](float a, float b) { return a - b < 1 / kScale && b - a < 1 / kScale; });
  return row;
}

}  // namespace

std::vector<PartsBenchRow> run_parts_bench(const PartsBenchConfig& config,
                                           void (*progress)(const std::string&)) {
  std::vector<PartsBenchRow> rows;
  for (PartsBenchRow (*part)(const PartsBenchConfig&) :
       {filter_row, jobs_row, cores_row, cores_vectors_row, cores_registers_row, pack_row,
        unpack_row}) {
    rows.push_back(part(config));
    progress(rows.back().part);
  }
  return rows;
}

std::string as_table(const std::vector<PartsBenchRow>& rows) {
  std::string table = fmt::format(
      "Parts of the live path, packets in memory ({}), CPU time\n"
      "{:<23} {:>10} {:>5}  {:<17} {:>10} {:>7} {:>15} {:>7}\n",
      memory::lanes_isa(), "part", "rate", "", "beside it", "rate", "ratio", "(min - max)",
      "result");
  for (const PartsBenchRow& row : rows) {
    table +=
        fmt::format("{:<23} {:>10.2f} {:>5}  {:<17} {:>10.2f} {:>7.2f} {:>7.2f} - {:>5.2f} {:>7}\n",
                    row.part, row.rate, row.unit, row.baseline, row.baseline_rate, row.ratio,
                    row.ratio_min, row.ratio_max, row.is_correct ? "right" : "WRONG");
  }
  return table;
}

nlohmann::json as_json(const std::vector<PartsBenchRow>& rows) {
  nlohmann::json json{
      {"bench", "parts"}, {"lanes_isa", memory::lanes_isa()}, {"rows", nlohmann::json::array()}};
  for (const PartsBenchRow& row : rows) {
    json["rows"].push_back({{"part", row.part},
                            {"baseline", row.baseline},
                            {"unit", row.unit},
                            {"rate", row.rate},
                            {"baseline_rate", row.baseline_rate},
                            {"ratio", row.ratio},
                            {"ratio_min", row.ratio_min},
                            {"ratio_max", row.ratio_max},
                            {"right", row.is_correct}});
  }
  return json;
}

}  // namespace tributary::bench
