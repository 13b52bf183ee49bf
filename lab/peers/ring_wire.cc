// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/ring_wire.h"

#include "base/assert.h"
#include "base/byte_order.h"

namespace tributary::lab {
namespace {

constexpr uint32_t kLaneBytes = 4;

}  // namespace

uint32_t encode(const RingPacket& packet, std::span<std::byte> out) {
  TRIB_ASSERT(out.size() >= kRingAckBytesMax && packet.ack.words <= kAckWords);
  std::byte* bytes = out.data();
  bytes[0] = static_cast<std::byte>(packet.kind);
  bytes[1] = static_cast<std::byte>(packet.rank);
  if (packet.kind != RingKind::kAck) {
    store_be(bytes + 2, packet.lanes);
    store_be(bytes + 4, packet.position);
    return kRingHeadBytes;
  }
  store_be(bytes + 2, static_cast<uint16_t>(packet.ack.words));
  store_be(bytes + 4, packet.ack.below);
  store_be(bytes + 12, packet.ack.limit);
  for (uint32_t i = 0; i < packet.ack.words; i++) {
    store_be(bytes + 20 + i * sizeof(uint64_t), packet.ack.beyond[i]);
  }
  return kRingHeadBytes + 8 + packet.ack.words * 8;
}

std::optional<RingPacket> decode_ring(std::span<const std::byte> stored, uint32_t size_bytes) {
  if (stored.size() < kRingHeadBytes || stored.size() > size_bytes) return std::nullopt;
  const std::byte* bytes = stored.data();
  RingPacket packet;
  packet.kind = static_cast<RingKind>(bytes[0]);
  packet.rank = static_cast<uint8_t>(bytes[1]);
  const auto count = load_be<uint16_t>(bytes + 2);
  const auto position = load_be<uint64_t>(bytes + 4);
  switch (packet.kind) {
    case RingKind::kData:
      packet.lanes = count;
      packet.position = position;
      if (count == 0 || size_bytes != kRingHeadBytes + count * kLaneBytes) return std::nullopt;
      return packet;
    case RingKind::kAck:
      if (count > kAckWords || size_bytes != kRingHeadBytes + 8 + count * 8 ||
          stored.size() != size_bytes) {
        return std::nullopt;
      }
      packet.ack.words = count;
      packet.ack.below = position;
      packet.ack.limit = load_be<uint64_t>(bytes + 12);
      for (uint32_t i = 0; i < count; i++) {
        packet.ack.beyond[i] = load_be<uint64_t>(bytes + 20 + i * sizeof(uint64_t));
      }
      return packet;
    case RingKind::kProbe:
      if (count != 0 || position != 0 || size_bytes != kRingHeadBytes) return std::nullopt;
      return packet;
  }
  return std::nullopt;
}

}  // namespace tributary::lab
