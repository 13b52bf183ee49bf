// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/switchml/bed.h"

#include <utility>

#include "base/assert.h"

namespace tributary::switchml {
namespace {

const Endpoint kLocal = Endpoint::ipv4(0x0a0000fe, wire::kSwitchmlPort);

memory::SharedMemory made_memory() {
  auto memory = memory::SharedMemory::create(
      {.sram_size_bytes = 4096, .dram_size_bytes = uint64_t{64} << 20});
  TRIB_ASSERT(memory.has_value());
  return *std::move(memory);
}

std::unique_ptr<Shard> made_shard(const BedConfig& config, memory::SharedMemory& memory) {
  auto shard = Shard::create(config.shard, config.shard_index, config.shard_count, memory);
  TRIB_ASSERT(shard.has_value());
  return *std::move(shard);
}

}  // namespace

Endpoint worker(uint32_t rank, uint32_t session, uint16_t thread) {
  return Endpoint::ipv4(0x0a000100 + 0x100 * session + rank, static_cast<uint16_t>(4000 + thread));
}

Endpoint stranger() { return Endpoint::ipv4(0x0a00ff01, 4000); }

Packet packet(uint32_t slot, bool set, uint32_t packet_id, int32_t value, uint32_t elements) {
  Packet packet{.packet_id = packet_id, .set = set, .slot = static_cast<uint16_t>(slot)};
  packet.elements.assign(elements, value);
  return packet;
}

Bed::Bed(const BedConfig& config)
    : config_(config),
      port_({.layer = config.layer,
             .local = kLocal,
             .payload_bytes_max = 2048,
             .rx_packets_max = config.packets_max,
             .tx_packets_max = config.packets_max}),
      memory_(made_memory()),
      shard_(made_shard(config, memory_)),
      core_(config.shard_index, port_.queue(0), App(*shard_), {}),
      now_(Instant(seconds(10))) {
  for (uint32_t place = 0; place < config.sessions.size(); place++) {
    shard_->begin_session(place, config.sessions[place]);
    for (uint32_t rank = 0; rank < config.sessions[place].workers; rank++) {
      const auto set = shard_->set_worker(place, rank, worker(rank, place));
      TRIB_ASSERT(set.has_value());
    }
  }
}

void Bed::inject(const Bytes& payload, const Endpoint& from) {
  const bool taken = port_.inject_payload(0, payload, from);
  TRIB_ASSERT(taken);
}

void Bed::inject_raw(const Bytes& bytes) {
  const bool taken = port_.inject(0, bytes, Endpoint{});
  TRIB_ASSERT(taken);
}

void Bed::run() {
  do {
    static_cast<void>(core_.run_once(now_));
  } while (port_.waiting_count(0) > 0);
}

std::vector<Reply> Bed::exchange(const Bytes& payload, const Endpoint& from) {
  inject(payload, from);
  run();
  return take();
}

std::vector<Reply> Bed::take() {
  std::vector<Reply> replies;
  for (const io::SentPacket& sent : port_.take_sent(0)) {
    const bool frame = config_.layer == engine::PacketLayer::kFrame;
    Reply reply;
    reply.to = sent.destination;
    reply.bytes.assign(sent.bytes.begin() + (frame ? io::kUdpFrameHeaderBytesIpv4 : 0),
                       sent.bytes.end());
    const auto parsed = wire::parse_switchml(reply.bytes);
    EXPECT_TRUE(parsed.has_value());
    if (parsed) reply.packet = *parsed;
    replies.push_back(std::move(reply));
  }
  return replies;
}

Counts Bed::counts() const { return apps::counts_of<Outcome>(shard_->counters()); }

Counts Bed::new_counts() {
  const Counts before = std::exchange(counts_before_, counts());
  return apps::counted_between(before, counts_before_);
}

}  // namespace tributary::switchml
