// SPDX-License-Identifier: Apache-2.0
// Method: sizes around the head's end by hand, then refusals, then random packets with random
// holders against a map of their bytes.
#include "engine/model/packet_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

using Bytes = std::vector<std::byte>;

constexpr PacketBuffer::Config kSmall{.packet_count = 4, .packet_bytes_max = 1000};

Bytes random_bytes(Prng& prng, size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.any_u32());
  return bytes;
}

/// Reads the packet as a thread does: its head, then its tail in chunks of `chunk_bytes`.
Bytes read_in_chunks(const PacketBuffer& buffer, PacketHandle packet, uint32_t chunk_bytes) {
  const auto head = buffer.head(packet);
  Bytes bytes(head.begin(), head.end());
  std::array<std::byte, microcode::kTailChunkBytes> chunk;
  uint32_t offset_bytes = 0;
  while (true) {
    const uint32_t read_bytes =
        buffer.read_tail(packet, offset_bytes, std::span(chunk).first(chunk_bytes));
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + read_bytes);
    offset_bytes += read_bytes;
    if (read_bytes < chunk_bytes) return bytes;
  }
}

Bytes bytes_of(const PacketBuffer& buffer, PacketHandle packet) {
  const auto bytes = buffer.bytes(packet);
  return {bytes.begin(), bytes.end()};
}

// --- By hand -------------------------------------------------------------------------------------

TEST(PacketBuffer, HeadAndTailMakeThePacket) {
  Prng prng(1);
  PacketBuffer buffer(kSmall);
  for (const uint32_t size : {0U, 1U, 191U, 192U, 193U, 255U, 256U, 257U, 320U, 1000U}) {
    const Bytes packet = random_bytes(prng, size);
    const auto handle = buffer.store(packet);
    ASSERT_TRUE(handle.has_value());
    EXPECT_EQ(buffer.size(*handle), size);
    EXPECT_EQ(buffer.head(*handle).size(), std::min(size, kHeadBytes));
    EXPECT_EQ(read_in_chunks(buffer, *handle, 64), packet);
    EXPECT_EQ(read_in_chunks(buffer, *handle, 24), packet);
    EXPECT_EQ(bytes_of(buffer, *handle), packet);
    EXPECT_TRUE(buffer.release(*handle));
  }
}

TEST(PacketBuffer, TheHeadMayBeChangedUpToItsEnd) {
  PacketBuffer buffer({.packet_count = 1, .packet_bytes_max = 2 * kHeadBytes});
  const Bytes packet(kHeadBytes + 1, std::byte{1});
  const auto handle = buffer.store(packet);
  const Bytes two(2, std::byte{2});
  buffer.write_head(*handle, 0, two);
  buffer.write_head(*handle, kHeadBytes - 2, two);
  Bytes expected = packet;
  expected[0] = expected[1] = expected[kHeadBytes - 2] = expected[kHeadBytes - 1] = std::byte{2};
  const auto bytes = buffer.bytes(*handle);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), expected);
  EXPECT_DEATH(buffer.write_head(*handle, kHeadBytes - 1, two), "");
}

TEST(PacketBuffer, TheBeginningOfThePacketMoves) {
  PacketBuffer buffer({.packet_count = 1, .packet_bytes_max = 2 * kHeadBytes});
  Bytes expected(kHeadBytes + 5);
  for (uint32_t i = 0; i < expected.size(); i++) expected[i] = static_cast<std::byte>(i);
  const auto handle = buffer.store(expected);
  const auto is_as_expected = [&] {
    const auto bytes = buffer.bytes(*handle);
    return Bytes(bytes.begin(), bytes.end()) == expected && buffer.size(*handle) == expected.size();
  };
  std::array<std::byte, 64> tail;
  EXPECT_EQ(buffer.head_offset(*handle), kHeadroomBytes);

  buffer.pop_head(*handle, 10);
  expected.erase(expected.begin(), expected.begin() + 10);
  EXPECT_TRUE(is_as_expected());
  EXPECT_EQ(buffer.head(*handle).size(), kHeadBytes - 10);
  EXPECT_EQ(buffer.head_offset(*handle), kHeadroomBytes + 10);
  ASSERT_EQ(buffer.read_tail(*handle, 0, tail), 5U);
  EXPECT_EQ(tail[0], static_cast<std::byte>(kHeadBytes));

  const Bytes headers(kHeadroomBytes + 10, std::byte{9});
  buffer.push_head(*handle, headers);
  expected.insert(expected.begin(), headers.begin(), headers.end());
  EXPECT_TRUE(is_as_expected());
  EXPECT_EQ(buffer.head(*handle).size(), kHeadBytes + kHeadroomBytes);
  EXPECT_EQ(buffer.head_offset(*handle), 0U);
  EXPECT_EQ(buffer.read_tail(*handle, 0, tail), 5U);
  EXPECT_DEATH(buffer.push_head(*handle, Bytes(1)), "");
  EXPECT_DEATH(buffer.pop_head(*handle, kHeadBytes + kHeadroomBytes + 1), "");

  // The slot's next packet begins behind its room again.
  buffer.release(*handle);
  const auto next = buffer.store(Bytes(3));
  EXPECT_EQ(buffer.head_offset(*next), kHeadroomBytes);
}

TEST(PacketBuffer, TailReadsPastItsEndReturnNothing) {
  PacketBuffer buffer(kSmall);
  const auto packet = buffer.store(Bytes(200));  // 8 bytes of tail.
  ASSERT_TRUE(packet.has_value());
  std::array<std::byte, 64> chunk;
  EXPECT_EQ(buffer.read_tail(*packet, 0, chunk), 8U);
  EXPECT_EQ(buffer.read_tail(*packet, 5, chunk), 3U);
  EXPECT_EQ(buffer.read_tail(*packet, 8, chunk), 0U);
  EXPECT_EQ(buffer.read_tail(*packet, UINT32_MAX, chunk), 0U);
}

TEST(PacketBuffer, TheTailMayBeChanged) {
  PacketBuffer buffer(kSmall);
  const auto packet = buffer.store(Bytes(200));  // 8 bytes of tail.
  buffer.write_tail(*packet, 6, Bytes(2, std::byte{7}));
  buffer.write_tail(*packet, 0, Bytes(1, std::byte{5}));
  buffer.write_tail(*packet, 8, {});
  Bytes expected(200);
  expected[192] = std::byte{5};
  expected[198] = expected[199] = std::byte{7};
  const auto bytes = buffer.bytes(*packet);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), expected);
  EXPECT_DEATH(buffer.write_tail(*packet, 7, Bytes(2)), "");
}

TEST(PacketBuffer, PayloadIsFreedByItsLastHolder) {
  PacketBuffer buffer(kSmall);
  const Bytes payload(300, std::byte{7});
  const auto packet = buffer.store(payload);
  ASSERT_TRUE(packet.has_value());
  buffer.add_references(*packet, 2);  // Three destinations in total.
  EXPECT_EQ(buffer.references(*packet), 3U);
  EXPECT_FALSE(buffer.release(*packet));
  EXPECT_FALSE(buffer.release(*packet));
  EXPECT_EQ(bytes_of(buffer, *packet), payload);
  EXPECT_EQ(buffer.free_count(), 3U);
  EXPECT_TRUE(buffer.release(*packet));
  EXPECT_EQ(buffer.free_count(), 4U);
}

TEST(PacketBuffer, ResultIsWrittenInChunks) {
  Prng prng(2);
  PacketBuffer buffer(kSmall);
  const auto packet = buffer.begin();
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(buffer.size(*packet), 0U);
  Bytes expected;
  for (const size_t size : {size_t{12}, size_t{256}, size_t{256}, size_t{100}}) {
    const Bytes chunk = random_bytes(prng, size);
    EXPECT_TRUE(buffer.append(*packet, chunk));
    expected.insert(expected.end(), chunk.begin(), chunk.end());
  }
  EXPECT_EQ(bytes_of(buffer, *packet), expected);
  EXPECT_EQ(buffer.head(*packet).size(), kHeadBytes);  // "Just as incoming packets do" (§4).
}

// --- Refusals ------------------------------------------------------------------------------------

TEST(PacketBuffer, FullBufferRefusesAndCounts) {
  PacketBuffer buffer(kSmall);
  std::vector<PacketHandle> packets;
  for (uint32_t i = 0; i < kSmall.packet_count; i++) {
    packets.push_back(buffer.store(Bytes(10)).value_or(PacketHandle{}));
    EXPECT_TRUE(packets.back().is_set());
  }
  EXPECT_FALSE(buffer.store(Bytes(10)).has_value());
  EXPECT_FALSE(buffer.begin().has_value());
  EXPECT_EQ(buffer.counters().refused_full, 2U);
  EXPECT_EQ(buffer.counters().stored, 4U);
  EXPECT_EQ(buffer.counters().in_use_packets_max, 4U);
  buffer.release(packets[2]);
  EXPECT_TRUE(buffer.store(Bytes(10)).has_value());
}

TEST(PacketBuffer, OversizedPacketIsRefusedAndCounted) {
  PacketBuffer buffer(kSmall);
  EXPECT_FALSE(buffer.store(Bytes(1001)).has_value());
  EXPECT_EQ(buffer.counters().refused_too_long, 1U);
  const auto packet = buffer.begin();
  ASSERT_TRUE(packet.has_value());
  for (int i = 0; i < 3; i++) EXPECT_TRUE(buffer.append(*packet, Bytes(256)));
  EXPECT_FALSE(buffer.append(*packet, Bytes(256)));  // 1024 > 1000: nothing is written.
  EXPECT_EQ(buffer.size(*packet), 768U);
  EXPECT_TRUE(buffer.append(*packet, Bytes(232)));
  EXPECT_EQ(buffer.counters().refused_too_long, 2U);
}

TEST(PacketBufferDeathTest, RejectsWrongUse) {
  PacketBuffer buffer(kSmall);
  const auto packet = buffer.store(Bytes(300));
  ASSERT_TRUE(packet.has_value());
  std::array<std::byte, 65> too_long;
  EXPECT_DEATH(buffer.read_tail(*packet, 0, too_long), "kTailChunkBytes");
  EXPECT_DEATH((void)buffer.append(*packet, Bytes(257)), "kResultChunkBytes");
  buffer.add_references(*packet, 1);
  EXPECT_DEATH((void)buffer.append(*packet, Bytes(1)), "references");
  buffer.release(*packet);
  buffer.release(*packet);
  EXPECT_DEATH((void)buffer.bytes(*packet), "use == packet.use");  // The packet is freed, …
  const auto next = buffer.store(Bytes(5));
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->slot, packet->slot);  // … and its handle stays stale when the slot is reused.
  EXPECT_DEATH((void)buffer.size(*packet), "use == packet.use");
  EXPECT_DEATH((void)buffer.size(PacketHandle{}), "slots_.size");
}

// --- Random walk ---------------------------------------------------------------------------------

TEST(PacketBuffer, RandomUseMatchesModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr uint32_t kPackets = 16;
  PacketBuffer buffer({.packet_count = kPackets, .packet_bytes_max = 700});
  struct Held {
    PacketHandle handle;
    Bytes bytes;
    uint32_t references;
  };
  std::vector<Held> model;
  for (uint32_t step = 0; step < 30'000; step++) {
    const uint32_t action = prng.below(model.empty() ? 2 : 6);
    if (action < 2) {
      const Bytes bytes = random_bytes(prng, action == 0 ? prng.below(750) : 0);
      const auto handle = action == 0 ? buffer.store(bytes) : buffer.begin();
      ASSERT_EQ(handle.has_value(), model.size() < kPackets && bytes.size() <= 700) << step;
      if (handle) model.push_back({*handle, bytes, 1});
      continue;
    }
    const uint32_t pick = prng.below(static_cast<uint32_t>(model.size()));
    Held& held = model[pick];
    if (action == 2 && held.references == 1) {
      const Bytes chunk = random_bytes(prng, prng.below(257));
      const bool fits = held.bytes.size() + chunk.size() <= 700;
      ASSERT_EQ(buffer.append(held.handle, chunk), fits) << step;
      if (fits) held.bytes.insert(held.bytes.end(), chunk.begin(), chunk.end());
    } else if (action == 3) {
      const uint32_t more = prng.below(3);
      buffer.add_references(held.handle, more);
      held.references += more;
    } else {
      ASSERT_EQ(read_in_chunks(buffer, held.handle, 1 + prng.below(64)), held.bytes) << step;
      ASSERT_EQ(buffer.release(held.handle), --held.references == 0) << step;
      if (held.references == 0) model.erase(model.begin() + pick);
    }
    ASSERT_EQ(buffer.free_count(), kPackets - model.size()) << step;
  }
  for (const Held& held : model) EXPECT_EQ(bytes_of(buffer, held.handle), held.bytes);
}

}  // namespace
}  // namespace tributary::engine
