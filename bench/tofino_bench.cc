// SPDX-License-Identifier: Apache-2.0
#include "bench/tofino_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/byte_order.h"
#include "bench/measure.h"
#include "tofino/pipeline/udp_frame.h"
#include "tofino/switchml/control.h"
#include "wire/switchml.h"

namespace tributary::bench {
namespace {

using tofino::FrameAddress;
using tofino::PacketView;

constexpr uint32_t kWorkers = 8;
constexpr uint32_t kSlots = 128;
constexpr uint32_t kFrames = 2 * kSlots * kWorkers;
/// Time between two packets of a worker: 1100 bytes on the wire at 100 Gbit/s.
constexpr Duration kGap = nanoseconds(88);
/// Longer than any packet takes through the chip.
constexpr Duration kDrain = milliseconds(1);
constexpr uint32_t kHeaderBytes = tofino::kUdpFrameHeaderBytes + wire::SwitchmlHeader::kBytes;

constexpr FrameAddress kSwitch{0x0200'0000'0001, 0x0a00'00fe, wire::kSwitchmlPort};
FrameAddress address_of(uint32_t worker) {
  return {0x0200'0000'0100ULL + worker, 0x0a00'0100 + worker, 4000};
}
constexpr uint32_t port_of(uint32_t worker) { return worker * tofino::kPortStride; }

/// Adds up the ports, sizes, first values and last values of the packets sent.
class Totals final : public tofino::SwitchSink {
 public:
  void send(Instant /*at*/, uint32_t port, PacketView packet) override {
    sum += port + packet.size_bytes;
    if (packet.stored.size() < packet.size_bytes || packet.size_bytes < kHeaderBytes + 4) return;
    sum += load_be<uint32_t>(packet.stored.data() + kHeaderBytes);
    sum += load_be<uint32_t>(packet.stored.data() + packet.size_bytes - 4);
  }
  uint64_t sum = 0;
};

/// All packets of a round, in sending order.
struct Traffic {
  explicit Traffic(const TofinoBenchLoad& load) {
    wire::SwitchmlMessage message;
    for (uint32_t i = 0; i < kFrames; i++) {
      message.slot = static_cast<uint16_t>(i / kWorkers % kSlots);
      message.set = i / kWorkers >= kSlots;
      message.elements.assign(load.elements, static_cast<int32_t>(3 + i));
      frames.push_back(
          tofino::udp_frame(address_of(i % kWorkers), kSwitch, wire::switchml_payload(message)));
      size_bytes = static_cast<uint32_t>(frames.back().size());
      if (load.elided) {
        frames.back().resize(kHeaderBytes);
        frames.back().shrink_to_fit();
      }
    }
  }
  [[nodiscard]] PacketView packet(uint64_t i) const { return {frames[i % kFrames], size_bytes}; }
  std::vector<std::vector<std::byte>> frames;
  uint32_t size_bytes = 0;  ///< Size of a packet with its values.
};

struct Measured {
  double seconds = 0;
  uint64_t checksum = 0;
  uint64_t passes = 0;
};

Measured run_model(const TofinoBenchLoad& load, const Traffic& traffic, uint64_t packets) {
  Totals totals;
  auto device = tofino::SwitchmlSwitch::make(
      {.elements = load.elements}, totals,
      load.elided ? tofino::Payload::kElided : tofino::Payload::kCarried);
  TRIB_ASSERT(device.has_value());
  tofino::SwitchmlSession session{.workers = {}, .pool_slots = kSlots};
  for (uint32_t i = 0; i < kWorkers; i++) {
    session.workers.push_back({port_of(i), address_of(i).mac, address_of(i).ip});
  }
  TRIB_ASSERT(device->set_session(session).has_value());
  tofino::Switch& chip = device->device();
  Instant now;
  const double begin = thread_cpu_s();
  for (uint64_t i = 0; i < packets; i++) {
    if (i % kWorkers == 0) now = now + kGap;
    chip.arrive(now, port_of(i % kWorkers), traffic.packet(i));
  }
  chip.run_until(now + kDrain);
  return {thread_cpu_s() - begin, totals.sum, chip.counters().passes};
}

/// SwitchML's Algorithm 3 for a CPU.
class PlainSwitch {
 public:
  PlainSwitch(const TofinoBenchLoad& load, tofino::SwitchSink& sink)
      : values_(load.elided ? 0 : load.elements),
        pool_(size_t{2} * kSlots * values_),
        sink_(sink),
        result_(kHeaderBytes + size_t{4} * values_) {}

  void arrive(Instant at, PacketView packet) {
    const std::byte* header = packet.stored.data() + tofino::kUdpFrameHeaderBytes;
    const uint32_t set = wire::SwitchmlHeader::Set::load(header);
    const uint32_t slot = wire::SwitchmlHeader::Slot::load(header);
    const uint32_t worker = load_be<uint32_t>(packet.stored.data() + kIpFromByte) & 0xff;
    const uint32_t index = set * kSlots + slot;
    const uint32_t bit = 1U << worker;
    const bool is_first = seen_[index] == 0;
    const bool is_new = (seen_[index] & bit) == 0;
    seen_[index] |= bit;
    seen_[(1 - set) * kSlots + slot] &= ~bit;
    if (is_new) {
      add(pool_.data() + size_t{index} * values_, packet.stored.data() + kHeaderBytes, is_first);
      count_[index] = (count_[index] + 1) % kWorkers;
    }
    if (count_[index] != 0) return;
    for (uint32_t to = 0; to < kWorkers; to++) {
      if (is_new || to == worker) answer(at, to, index, packet);
    }
  }

 private:
  /// Offset of the source address of a frame's IPv4 header.
  static constexpr uint32_t kIpFromByte = 26;

  void add(uint32_t* sums, const std::byte* values, bool is_first) const {
    for (uint32_t i = 0; i < values_; i++) {
      const uint32_t value = load_be<uint32_t>(values + 4 * size_t{i});
      sums[i] = is_first ? value : sums[i] + value;
    }
  }
  void answer(Instant at, uint32_t worker, uint32_t index, PacketView packet) {
    std::memcpy(result_.data(), packet.stored.data(), kHeaderBytes);
    const FrameAddress to = address_of(worker);
    store_be(result_.data(), static_cast<uint32_t>(to.mac >> 16));
    store_be(result_.data() + 4, static_cast<uint16_t>(to.mac));
    store_be(result_.data() + kIpFromByte, kSwitch.ip);
    store_be(result_.data() + kIpFromByte + 4, to.ip);
    const uint32_t* sums = pool_.data() + size_t{index} * values_;
    for (uint32_t i = 0; i < values_; i++) {
      store_be(result_.data() + kHeaderBytes + 4 * size_t{i}, sums[i]);
    }
    sink_.send(at, port_of(worker), {result_, packet.size_bytes});
  }

  const uint32_t values_;
  std::vector<uint32_t> seen_ = std::vector<uint32_t>(2 * kSlots);
  std::vector<uint32_t> count_ = std::vector<uint32_t>(2 * kSlots);
  std::vector<uint32_t> pool_;  ///< Shape [sets][slots][values].
  tofino::SwitchSink& sink_;
  std::vector<std::byte> result_;
};

Measured run_loop(const TofinoBenchLoad& load, const Traffic& traffic, uint64_t packets) {
  Totals totals;
  PlainSwitch plain(load, totals);
  const double begin = thread_cpu_s();
  for (uint64_t i = 0; i < packets; i++) plain.arrive(Instant{}, traffic.packet(i));
  return {thread_cpu_s() - begin, totals.sum, packets};
}

TofinoBenchRow measure(const TofinoBenchLoad& load, const TofinoBenchConfig& config) {
  const Traffic traffic(load);
  // A round uses each set once, so an incomplete round would leave slots half full.
  const uint64_t packets = (config.packets_each + kFrames - 1) / kFrames * kFrames;
  TofinoBenchRow row{
      .elements = load.elements, .elided = load.elided, .packets = packets, .results_agree = true};
  std::vector<double> model_ns;
  std::vector<double> loop_ns;
  std::vector<double> ratios;
  for (uint32_t i = 0; i < config.repetitions; i++) {
    const Measured model = run_model(load, traffic, packets);
    const Measured loop = run_loop(load, traffic, packets);
    model_ns.push_back(model.seconds * 1e9 / static_cast<double>(packets));
    loop_ns.push_back(loop.seconds * 1e9 / static_cast<double>(packets));
    ratios.push_back(loop_ns.back() / model_ns.back());
    row.passes_per_packet = static_cast<double>(model.passes) / static_cast<double>(packets);
    row.checksum = model.checksum;
    row.results_agree &= model.checksum == loop.checksum;
  }
  row.ns_per_packet = median(model_ns);
  row.packets_per_s = 1e9 / row.ns_per_packet;
  row.ns_per_packet_min = *std::min_element(model_ns.begin(), model_ns.end());
  row.ns_per_packet_max = *std::max_element(model_ns.begin(), model_ns.end());
  row.loop_ns_per_packet = median(loop_ns);
  row.ratio = median(ratios);
  return row;
}

const char* values_of(const TofinoBenchRow& row) { return row.elided ? "elided" : "carried"; }

}  // namespace

std::vector<TofinoBenchRow> run_tofino_bench(const TofinoBenchConfig& config,
                                             void (*progress)(const std::string&)) {
  std::vector<TofinoBenchRow> rows;
  for (const TofinoBenchLoad& load : config.loads) {
    progress(
        fmt::format("{} elements, values {}", load.elements, load.elided ? "elided" : "carried"));
    rows.push_back(measure(load, config));
  }
  return rows;
}

std::string as_table(const std::vector<TofinoBenchRow>& rows) {
  std::string table = fmt::format(
      "One core, SwitchML on the pipeline model, CPU time; against a plain loop of the same sums\n"
      "{:>8} {:>8} {:>8} {:>12} {:>10} {:>17} {:>8} {:>11} {:>8}\n",
      "elements", "values", "passes", "M packets/s", "ns/packet", "(min - max)", "loop ns",
      "loop/model", "results");
  for (const TofinoBenchRow& row : rows) {
    table += fmt::format(
        "{:>8} {:>8} {:>8.2f} {:>12.3f} {:>10.1f} {:>7.1f} - {:>7.1f} {:>8.1f} {:>11.3f} {:>8}\n",
        row.elements, values_of(row), row.passes_per_packet, row.packets_per_s / 1e6,
        row.ns_per_packet, row.ns_per_packet_min, row.ns_per_packet_max, row.loop_ns_per_packet,
        row.ratio, row.results_agree ? "agree" : "DIFFER");
  }
  return table;
}

nlohmann::json as_json(const std::vector<TofinoBenchRow>& rows) {
  nlohmann::json json{{"bench", "tofino"}, {"rows", nlohmann::json::array()}};
  for (const TofinoBenchRow& row : rows) {
    json["rows"].push_back({{"elements", row.elements},
                            {"values", values_of(row)},
                            {"packets", row.packets},
                            {"passes_per_packet", row.passes_per_packet},
                            {"packets_per_s", row.packets_per_s},
                            {"ns_per_packet", row.ns_per_packet},
                            {"ns_per_packet_min", row.ns_per_packet_min},
                            {"ns_per_packet_max", row.ns_per_packet_max},
                            {"loop_ns_per_packet", row.loop_ns_per_packet},
                            {"loop_over_model", row.ratio},
                            {"checksum", fmt::format("{:016x}", row.checksum)},
                            {"results_agree", row.results_agree}});
  }
  return json;
}

}  // namespace tributary::bench
