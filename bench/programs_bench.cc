// SPDX-License-Identifier: Apache-2.0
#include "bench/programs_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "apps/filter/app.h"
#include "apps/guard/app.h"
#include "apps/telemetry/app.h"
#include "base/assert.h"
#include "base/prng.h"
#include "bench/frame_replay.h"
#include "bench/measure.h"
#include "engine/live/live_core.h"
#include "wire/headers.h"

namespace tributary::bench {
namespace {

using Ether = wire::EthernetHeader;
using Ipv4 = wire::Ipv4Header;
using Udp = wire::UdpHeader;

constexpr uint32_t kIpAt = Ether::kBytes;
constexpr uint32_t kUdpAt = kIpAt + Ipv4::kBytes;
constexpr uint32_t kIpBytes = FrameReplay::kFrameBytes - kIpAt;
/// Servers to which the flows go.
constexpr uint32_t kServers = 256;
/// Virtual time of a burst: 1.28 million packets a second, below all bandwidths of the guard.
constexpr Duration kBurstTime = microseconds(100);

/// Writes a UDP frame of a flow.
void fill_flow(uint32_t flow, std::span<std::byte> frame) {
  std::byte* const ip = frame.data() + kIpAt;
  std::byte* const udp = frame.data() + kUdpAt;
  Ether::EtherType::store(frame.data(), wire::kEtherTypeIpv4);
  Ipv4::Version::store(ip, 4);
  Ipv4::HeaderWords::store(ip, 5);
  Ipv4::TotalLength::store(ip, kIpBytes);
  Ipv4::TimeToLive::store(ip, 64);
  Ipv4::Protocol::store(ip, wire::kIpProtocolUdp);
  Ipv4::SourceAddress::store(ip, 0x0a000000 + flow);
  Ipv4::DestinationAddress::store(ip, 0xc6120000 + flow % kServers);
  Udp::SourcePort::store(udp, 1024 + flow % 50'000);
  Udp::DestinationPort::store(udp, 443);
  Udp::Length::store(udp, kIpBytes - Ipv4::kBytes);
}

/// Returns frames of all flows in turn.
FrameReplay frames_in_turn(uint32_t flows) {
  return {std::max(flows, uint32_t{65'536}),
          [flows](uint32_t i, std::span<std::byte> frame) { fill_flow(i % flows, frame); }};
}

/// Puts the frames of random flows in their place, each flow at least once. The order differs
/// from that of frames_in_turn(), so consecutive packets use records that are far apart.
void shuffle_flows(uint32_t flows, FrameReplay& frames) {
  Prng prng(1);
  std::vector<uint32_t> order(frames.frame_count());
  for (uint32_t i = 0; i < order.size(); i++) order[i] = i < flows ? i : prng.below(flows);
  for (uint32_t i = static_cast<uint32_t>(order.size()); i > 1; i--) {
    std::swap(order[i - 1], order[prng.below(i)]);
  }
  frames.fill([&order](uint32_t i, std::span<std::byte> frame) { fill_flow(order[i], frame); });
}

/// Runs a program over all frames, pass after pass.
template <class App>
class ProgramRunner {
 public:
  ProgramRunner(App app, uint32_t flows)
      : frames_(frames_in_turn(flows)), core_(0, frames_, std::move(app), {}) {}
  void pass() {
    frames_.rewind();
    for (; !frames_.done(); now_ = now_ + kBurstTime) core_.run_once(now_);
  }
  void shuffle(uint32_t flows) { shuffle_flows(flows, frames_); }
  [[nodiscard]] uint64_t sent() const { return frames_.sent(); }
  [[nodiscard]] uint64_t frame_count() const { return frames_.frame_count(); }

 private:
  FrameReplay frames_;
  engine::LiveCore<App> core_;
  Instant now_;
};

/// Calls `prefetch(packets)` for some packets of a burst, then `is_forwarded(packet, index, now)`
/// for each of them, pass after pass, and sends the frames for which it returns true.
template <class Prefetch, class F>
class LoopRunner {
 public:
  LoopRunner(Prefetch prefetch, F is_forwarded, uint32_t flows)
      : frames_(frames_in_turn(flows)),
        prefetch_(std::move(prefetch)),
        is_forwarded_(std::move(is_forwarded)) {}
  void pass() {
    frames_.rewind();
    for (; !frames_.done(); now_ = now_ + kBurstTime) {
      const uint32_t count = frames_.receive(burst_);
      uint32_t sending = 0;
      for (uint32_t begin = 0; begin < count; begin += apps::kNotesMax) {
        const uint32_t end = std::min(begin + apps::kNotesMax, count);
        prefetch_(std::span(burst_).subspan(begin, end - begin));
        for (uint32_t i = begin; i < end; i++) {
          if (is_forwarded_(burst_[i], i - begin, now_)) forward(burst_[i], sending_[sending++]);
        }
      }
      frames_.transmit(std::span(sending_).first(sending));
    }
  }
  void shuffle(uint32_t flows) { shuffle_flows(flows, frames_); }
  [[nodiscard]] uint64_t sent() const { return frames_.sent(); }

 private:
  FrameReplay frames_;
  Prefetch prefetch_;
  F is_forwarded_;
  std::array<engine::Packet, engine::kBurstPackets> burst_;
  std::array<engine::TxPacket, engine::kBurstPackets> sending_;
  Instant now_;
};

/// Measures program and loop in turn, after passes of each that make the records.
template <class Program, class Loop>
ProgramsBenchRow measure(std::string name, uint32_t flows, const ProgramsBenchConfig& config,
                         Program& program, Loop& loop) {
  ProgramsBenchRow row{.program = std::move(name), .flows = flows};
  const uint64_t passes = (config.packets_each + program.frame_count() - 1) / program.frame_count();
  const auto rate_of = [&](auto& runner) {
    const double begin_s = thread_cpu_s();
    for (uint64_t i = 0; i < passes; i++) runner.pass();
    const auto packets = static_cast<double>(passes * program.frame_count());
    return packets / (thread_cpu_s() - begin_s) * 1e-6;
  };
  const auto make_records = [&](auto& runner) {
    runner.pass();
    runner.shuffle(flows);
    runner.pass();
  };
  make_records(program);
  make_records(loop);
  std::vector<double> rates, loop_rates, ratios;
  for (uint32_t i = 0; i < config.repetitions; i++) {
    rates.push_back(rate_of(program));
    loop_rates.push_back(rate_of(loop));
    ratios.push_back(rates.back() / loop_rates.back());
  }
  row.mpps = median(rates);
  row.loop_mpps = median(loop_rates);
  row.ratio = median(ratios);
  row.ratio_min = *std::ranges::min_element(ratios);
  row.ratio_max = *std::ranges::max_element(ratios);
  row.is_correct = program.sent() == loop.sent();
  return row;
}

memory::SharedMemory make_memory() {
  auto memory = memory::SharedMemory::create({});
  TRIB_ASSERT(memory.has_value());
  return *std::move(memory);
}

// --- Filter ---

ProgramsBenchRow filter_row(uint32_t flows, const ProgramsBenchConfig& config) {
  memory::SharedMemory memory = make_memory();
  auto state = filter::FilterState::create(memory);
  TRIB_ASSERT(state.has_value());
  ProgramRunner program(filter::App(*state), flows);
  memory::PacketByteCounter dropped;
  const auto passes = [&dropped](const engine::Packet& packet, uint32_t, Instant) {
    const bool is_plain = packet.size >= kUdpAt &&
                          Ether::EtherType::load(packet.data) == wire::kEtherTypeIpv4 &&
                          packet.data[kIpAt] == std::byte{0x45};
    if (!is_plain) count_packet(dropped, packet.size);
    return is_plain;
  };
  LoopRunner loop([](std::span<const engine::Packet>) {}, passes, flows);
  ProgramsBenchRow row = measure("filter", flows, config, program, loop);
  row.is_correct = row.is_correct && dropped.packets == 0 &&
                   state->dropped(filter::Drop::kNonIp) == memory::PacketByteCounter();
  return row;
}

// --- Telemetry ---

/// The loop's record of a flow.
struct LoopFlow {
  memory::PacketByteCounter counted;
  Instant first_at;
  Instant last_at;
  uint64_t tcp_flags = 0;
};

apps::FlowKey key_of(const std::byte* frame) {
  apps::FlowKey key;
  const std::byte* const ip = frame + kIpAt;
  key.source[10] = key.source[11] = key.destination[10] = key.destination[11] = 0xff;
  std::memcpy(&key.source[12], ip + 12, 4);
  std::memcpy(&key.destination[12], ip + 16, 4);
  key.source_port = static_cast<uint16_t>(Udp::SourcePort::load(frame + kUdpAt));
  key.destination_port = static_cast<uint16_t>(Udp::DestinationPort::load(frame + kUdpAt));
  key.protocol = wire::kIpProtocolUdp;
  key.ip_version = 4;
  return key;
}

ProgramsBenchRow telemetry_row(uint32_t flows, const ProgramsBenchConfig& config) {
  memory::SharedMemory memory = make_memory();
  telemetry::TelemetryConfig settings;
  settings.flows_max = flows;
  settings.inactive_timeout = settings.active_timeout = telemetry::kTimeoutMax;
  settings.collector = Endpoint::ipv4(0x7f000001, wire::kIpfixPort);
  auto state = telemetry::TelemetryState::create(memory, settings, Instant());
  TRIB_ASSERT(state.has_value());
  ProgramRunner program(telemetry::App(**state), flows);

  memory::RecordStore<apps::FlowKey, LoopFlow, apps::FlowKeyHash> store(
      {.capacity = flows, .hash_seed = 0});
  memory::PacketByteCounter accounted;
  // As the program: read and prefetch some packets, then account them.
  std::array<apps::FlowKey, apps::kNotesMax> keys;
  std::array<uint64_t, apps::kNotesMax> hashes{};
  const auto prefetch = [&](std::span<const engine::Packet> packets) {
    for (uint32_t i = 0; i < packets.size(); i++) {
      if (packets[i].size < kUdpAt + Udp::kBytes) continue;
      keys[i] = key_of(packets[i].data);
      hashes[i] = store.hash_of(keys[i]);
      store.prefetch_index(hashes[i]);
    }
    for (uint32_t i = 0; i < packets.size(); i++) store.prefetch_record(hashes[i]);
  };
  const auto account = [&](const engine::Packet& packet, uint32_t i, Instant now) {
    if (packet.size < kUdpAt + Udp::kBytes) return true;
    const apps::FlowKey& key = keys[i];
    LoopFlow* flow = store.lookup(key, hashes[i]);
    if (flow == nullptr) {
      flow = store.create(key).record;
      if (flow == nullptr) return true;
      flow->first_at = now;
    }
    const uint64_t ip_bytes = Ipv4::TotalLength::load(packet.data + kIpAt);
    flow->last_at = now;
    count_packet(flow->counted, ip_bytes);
    count_packet(accounted, ip_bytes);
    return true;
  };
  LoopRunner loop(prefetch, account, flows);
  ProgramsBenchRow row = measure("telemetry", flows, config, program, loop);
  const auto kept = (*state)->counters()[static_cast<size_t>(telemetry::Outcome::kAccounted)];
  row.is_correct = row.is_correct && kept == accounted && store.size() == flows &&
                   (*state)->flow_count() == flows;
  return row;
}

// --- Guard ---

guard::PacketFacts facts_of(const std::byte* frame) {
  const apps::FlowKey key = key_of(frame);
  return {.source = key.source,
          .destination = key.destination,
          .source_port = key.source_port,
          .destination_port = key.destination_port,
          .kind = guard::PacketKind::kUdp};
}

ProgramsBenchRow guard_row(uint32_t flows, const ProgramsBenchConfig& config) {
  memory::SharedMemory memory = make_memory(), loop_memory = make_memory();
  auto state = guard::GuardState::create(memory, {}, Instant());
  auto loop_state = guard::GuardState::create(loop_memory, {}, Instant());
  TRIB_ASSERT(state.has_value() && loop_state.has_value());
  ProgramRunner program(guard::App(**state), flows);

  guard::GuardState& records = **loop_state;
  memory::PacketByteCounter forwarded;
  std::array<guard::GuardNote, apps::kNotesMax> notes;
  const auto prefetch = [&](std::span<const engine::Packet> packets) {
    for (uint32_t i = 0; i < packets.size(); i++) {
      if (packets[i].size < kUdpAt + Udp::kBytes) continue;
      notes[i].facts = facts_of(packets[i].data);
      records.prefetch_index(notes[i]);
    }
    for (uint32_t i = 0; i < packets.size(); i++) records.prefetch_record(notes[i]);
  };
  const auto judge = [&](const engine::Packet& packet, uint32_t i, Instant now) {
    if (packet.size < kUdpAt + Udp::kBytes) return false;
    const guard::PacketFacts& facts = notes[i].facts;
    const auto place = notes[i].place;
    const bool known = guard::KnownSources::look(place);
    const auto verdict = records.meter(facts, guard::standing_of(place, known), now);
    if (verdict.treatment != guard::Treatment::kPass) return false;
    if (verdict.learning == guard::Learning::kSettle) guard::KnownSources::mark_settled(place);
    if (verdict.learning == guard::Learning::kNominate) {
      guard::KnownSources::nominate(place, records.config().settle_time, now);
    }
    count_packet(forwarded, packet.size);
    return true;
  };
  LoopRunner loop(prefetch, judge, flows);
  ProgramsBenchRow row = measure("guard", flows, config, program, loop);
  const auto passed = (*state)->counters()[static_cast<size_t>(guard::Outcome::kForwarded)];
  row.is_correct = row.is_correct && passed == forwarded;
  return row;
}

}  // namespace

std::vector<ProgramsBenchRow> run_programs_bench(const ProgramsBenchConfig& config,
                                                 void (*progress)(const std::string&)) {
  std::vector<ProgramsBenchRow> rows;
  for (const uint32_t flows : config.flows) {
    for (const auto& [name, row] :
         {std::pair{"filter", &filter_row}, std::pair{"telemetry", &telemetry_row},
          std::pair{"guard", &guard_row}}) {
      progress(fmt::format("{}, {} flows", name, flows));
      rows.push_back(row(flows, config));
    }
  }
  return rows;
}

std::string as_table(const std::vector<ProgramsBenchRow>& rows) {
  std::string text = fmt::format("{:<12} {:>9} {:>8} {:>10} {:>7} {:>15}\n", "program", "flows",
                                 "Mpps", "loop Mpps", "ratio", "range");
  for (const ProgramsBenchRow& row : rows) {
    text += fmt::format("{:<12} {:>9} {:>8.2f} {:>10.2f} {:>7.3f} {:>7.3f}–{:.3f}{}\n", row.program,
                        row.flows, row.mpps, row.loop_mpps, row.ratio, row.ratio_min, row.ratio_max,
                        row.is_correct ? "" : "  WRONG");
  }
  return text;
}

nlohmann::json as_json(const std::vector<ProgramsBenchRow>& rows) {
  nlohmann::json json = {{"rows", nlohmann::json::array()}};
  for (const ProgramsBenchRow& row : rows) {
    json["rows"].push_back({{"program", row.program},
                            {"flows", row.flows},
                            {"mpps", row.mpps},
                            {"loop_mpps", row.loop_mpps},
                            {"ratio", row.ratio},
                            {"ratio_min", row.ratio_min},
                            {"ratio_max", row.ratio_max},
                            {"is_correct", row.is_correct}});
  }
  return json;
}

}  // namespace tributary::bench
