// SPDX-License-Identifier: Apache-2.0
// The lab's workers without an aggregator of their own: the ring all-reduce between two neighbours,
// and the worker of several parameter servers. Their peers send any packets at any times.
#include <array>

#include "lab/peers/ring_protocol.h"
#include "lab/peers/sharded_protocol.h"
#include "tests/fuzz/protocol_steps.h"
#include "tests/fuzz/worker_messages.h"

namespace tributary::fuzz {
namespace {

using lab::RingKind;
using lab::RingPacket;

constexpr uint32_t kNonce = 77;
constexpr uint32_t kWorld = 3;
constexpr uint32_t kWindow = 4;
constexpr uint32_t kGradients = 4;

const Endpoint kLeft = Endpoint::ipv4(0x0a000001, 12000);
const Endpoint kRight = Endpoint::ipv4(0x0a000002, 12000);

/// Makes a packet of the ring's left neighbour (data, probe) or right one (ack).
std::vector<std::byte> ring_packet(InputReader& in) {
  RingPacket packet;
  packet.kind = static_cast<RingKind>(1 + in.below(3));
  packet.rank = packet.kind == RingKind::kAck ? 2 : 0;
  const uint32_t lanes = 1 + in.below(kGradients);
  if (packet.kind != RingKind::kProbe) packet.position = in.take<uint8_t>();
  if (packet.kind == RingKind::kData) packet.lanes = static_cast<uint16_t>(lanes);
  packet.ack.below = packet.position;
  packet.ack.limit = packet.position + kWindow;
  packet.ack.words = in.below(2);
  packet.ack.beyond[0] = in.take<uint8_t>();
  std::vector<std::byte> bytes(lab::kRingAckBytesMax);
  bytes.resize(encode(packet, bytes));
  bytes.resize(bytes.size() + packet.lanes * 4U, std::byte{1});
  return bytes;
}

void run_ring(InputReader& in) {
  lab::RingProtocol protocol({.rank = 1,
                              .world = kWorld,
                              .gradients = kGradients,
                              .window = kWindow,
                              .deadline = seconds(1),
                              .left = kLeft,
                              .right = kRight},
                             Instant(seconds(10)));
  run_steps(in, protocol, {.addresses = {kLeft, kRight}, .packet = ring_packet},
            {.window = kWindow, .packet_bytes = lab::kRingAckBytesMax});
}

void run_sharded(InputReader& in) {
  lab::ShardedConfig config;
  config.communicator.rank = 1;
  config.communicator.world = kWorld;
  config.communicator.gradients = kGradients;
  config.communicator.window = 2 * kWindow;
  config.communicator.deadline = seconds(1);
  config.servers = {kLeft, kRight};
  lab::ShardedProtocol protocol(config, kNonce, Instant(seconds(10)));
  AggregatorMessages messages(config.communicator.job_id, kNonce, kWorld);
  run_steps(in, protocol,
            {.addresses = config.servers,
             .packet = [&](InputReader& from) { return messages.make(from); },
             .on_sent = [&](auto bytes) { messages.note_sent(bytes); }},
            {.window = 2 * kWindow,
             .packet_bytes = wire::kControlMessageBytes + kGradients * wire::kGradientBytes});
}

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  in.below(2) == 0 ? run_ring(in) : run_sharded(in);
}

std::vector<Bytes> seeds() {
  constexpr auto kSubmit = static_cast<uint32_t>(ProtocolStep::kSubmit);
  constexpr auto kPacket = static_cast<uint32_t>(ProtocolStep::kPacket);
  constexpr auto kWait = static_cast<uint32_t>(ProtocolStep::kWait);
  std::vector<Bytes> all;
  for (const uint32_t type : {0U, 1U}) {
    InputWriter ring;
    ring.put8({0, kSubmit, 40, type});
    for (uint32_t position = 0; position < 14; position++) {
      ring.put8({kPacket, 0, 0, 3, position, 0, 0, 0});      // Data from the left.
      ring.put8({kPacket, 1, 1, 3, position + 1, 0, 0, 0});  // An ack from the right.
    }
    ring.put8({kPacket, 0, 2, 0, 0, 0, 0});  // A probe.
    ring.put8({kWait}).put(uint16_t{20000});
    all.push_back(ring.bytes());

    InputWriter sharded;
    sharded.put8({1, kSubmit, 40, type});
    for (const uint32_t server : {0U, 1U}) {
      sharded.put8({kPacket, server});
      put_welcome(sharded);
    }
    for (uint32_t block = 0; block < 6; block++) {
      for (const uint32_t server : {0U, 1U}) {
        sharded.put8({kPacket, server});
        put_result(sharded, block);
      }
    }
    sharded.put8({kWait}).put(uint16_t{20000});
    all.push_back(sharded.bytes());
  }
  return all;
}

TRIB_FUZZ_TARGET(lab_peers);

}  // namespace
}  // namespace tributary::fuzz
