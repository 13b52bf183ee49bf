// SPDX-License-Identifier: Apache-2.0
// A packet of the lab's ring all-reduce, decoded and encoded: the encoding gives the same bytes.
#include <array>
#include <cstring>

#include "lab/peers/ring_wire.h"
#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

using lab::RingKind;
using lab::RingPacket;

void run(std::span<const uint8_t> input) {
  const auto payload = std::as_bytes(input);
  const auto size_bytes = static_cast<uint32_t>(payload.size());
  const auto packet = lab::decode_ring(payload, size_bytes);
  if (!packet) return;
  EXPECT_LE(packet->ack.words, lab::kAckWords);
  std::array<std::byte, lab::kRingAckBytesMax> out{};
  const uint32_t written = encode(*packet, out);
  ASSERT_LE(written, size_bytes);
  EXPECT_EQ(std::memcmp(out.data(), payload.data(), written), 0);
  EXPECT_TRUE(packet->kind == RingKind::kData || written == size_bytes);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const RingPacket& packet :
       {RingPacket{.kind = RingKind::kData, .rank = 1, .lanes = 2, .position = 7},
        RingPacket{.kind = RingKind::kAck, .ack = {.below = 7, .limit = 9, .words = 2}},
        RingPacket{.kind = RingKind::kProbe, .rank = 3}}) {
    std::vector<std::byte> bytes(lab::kRingAckBytesMax);
    bytes.resize(encode(packet, bytes));
    bytes.resize(bytes.size() + packet.lanes * 4U);
    all.push_back(input_of(bytes));
  }
  return all;
}

TRIB_FUZZ_TARGET(lab_ring_wire);

}  // namespace
}  // namespace tributary::fuzz
