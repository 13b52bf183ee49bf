// SPDX-License-Identifier: Apache-2.0
// Method:  hand-worked positions first, then a hostile other side, then a random walk against a
//          deque in one thread, and a stream between two threads.
#include "io/local/byte_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::io {
namespace {

using Bytes = std::vector<std::byte>;
using Status = RingReader::Status;

constexpr uint32_t kPacketBytesMax = 200;

/// A ring of 512 bytes in this process, with both ends.
struct Bed {
  RingWords words;
  alignas(64) std::array<std::byte, 512> data{};
  ByteRing ring{.words = &words, .data = data, .packet_bytes_max = kPacketBytesMax};
  RingWriter writer{ring};
  RingReader reader{ring};

  /// Writes what only a hostile writer writes: its position.
  void claim_written(uint64_t position) { words.written.store(position); }
  /// Writes a record's size at an offset of the ring.
  void forge_size(uint32_t offset, uint64_t size) {
    std::memcpy(data.data() + offset, &size, sizeof size);
  }
};

Bytes packet_of(uint32_t size, uint8_t first) {
  Bytes bytes(size);
  for (uint32_t i = 0; i < size; i++) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

/// Pops a packet; fails the test if there is none.
Bytes pop(RingReader& reader) {
  Bytes out(kPacketBytesMax);
  const RingReader::Popped popped = reader.pop(out);
  EXPECT_EQ(popped.status, Status::kPacket);
  out.resize(popped.size);
  return out;
}

Status status_of(RingReader& reader) {
  Bytes out(kPacketBytesMax);
  return reader.pop(out).status;
}

TEST(ByteRingTest, PacketsArriveInOrderAfterPublish) {
  Bed bed;
  EXPECT_EQ(status_of(bed.reader), Status::kEmpty);
  ASSERT_TRUE(bed.writer.push(packet_of(3, 10)));
  ASSERT_TRUE(bed.writer.push(packet_of(0, 0)));
  EXPECT_EQ(status_of(bed.reader), Status::kEmpty);
  EXPECT_FALSE(bed.writer.publish());  // Nobody sleeps.
  EXPECT_EQ(pop(bed.reader), packet_of(3, 10));
  EXPECT_EQ(pop(bed.reader), Bytes());
  EXPECT_EQ(status_of(bed.reader), Status::kEmpty);
}

TEST(ByteRingTest, FullUntilTheReaderReleases) {
  Bed bed;
  // Records of 8 + 120 = 128 bytes: four fill the ring.
  for (uint8_t i = 0; i < 4; i++) ASSERT_TRUE(bed.writer.push(packet_of(120, i)));
  EXPECT_FALSE(bed.writer.push(packet_of(1, 9)));
  static_cast<void>(bed.writer.publish());
  EXPECT_EQ(pop(bed.reader), packet_of(120, 0));
  EXPECT_FALSE(bed.writer.push(packet_of(1, 9)));  // Popped, but not released.
  bed.reader.release();
  EXPECT_TRUE(bed.writer.push(packet_of(1, 9)));
  EXPECT_FALSE(bed.writer.push(packet_of(120, 9)));  // 64 bytes are left.
}

TEST(ByteRingTest, PacketsWrapAtTheEnd) {
  Bed bed;
  // Records of 192 bytes begin at 0, 192, 384, 576 = 64 + 512: the third wraps at 512.
  for (uint8_t i = 0; i < 20; i++) {
    ASSERT_TRUE(bed.writer.push(packet_of(180, i)));
    static_cast<void>(bed.writer.publish());
    ASSERT_EQ(pop(bed.reader), packet_of(180, i));
    bed.reader.release();
  }
  EXPECT_FALSE(bed.reader.broken());
}

TEST(ByteRingTest, PacketWithoutRoomStays) {
  Bed bed;
  ASSERT_TRUE(bed.writer.push(packet_of(100, 1)));
  static_cast<void>(bed.writer.publish());
  Bytes small(99);
  EXPECT_EQ(bed.reader.pop(small).status, Status::kNoRoom);
  EXPECT_EQ(pop(bed.reader), packet_of(100, 1));
}

TEST(ByteRingTest, RefusesLargePackets) {
  Bed bed;
  EXPECT_TRUE(bed.writer.push(packet_of(kPacketBytesMax, 1)));
  EXPECT_FALSE(bed.writer.push(packet_of(kPacketBytesMax + 1, 1)));
}

TEST(ByteRingTest, WakesASleepingReaderOnce) {
  Bed bed;
  ASSERT_TRUE(bed.reader.prepare_sleep());
  ASSERT_TRUE(bed.writer.push(packet_of(1, 1)));
  EXPECT_TRUE(bed.writer.publish());
  EXPECT_FALSE(bed.writer.publish());
  EXPECT_FALSE(bed.reader.prepare_sleep());  // A packet is there.
  EXPECT_EQ(pop(bed.reader), packet_of(1, 1));
  ASSERT_TRUE(bed.reader.prepare_sleep());
  bed.reader.end_sleep();
  EXPECT_FALSE(bed.writer.publish());
}

// --- A hostile other side ---

TEST(ByteRingTest, HostileWriterPositionsBreakTheRing) {
  // Beyond the ring, not at a unit, and behind the reader.
  for (const uint64_t position : {uint64_t{576}, uint64_t{32}, UINT64_MAX, uint64_t{1} << 63}) {
    Bed bed;
    bed.claim_written(position);
    EXPECT_EQ(status_of(bed.reader), Status::kBroken) << position;
    EXPECT_TRUE(bed.reader.broken());
    bed.claim_written(0);
    EXPECT_EQ(status_of(bed.reader), Status::kBroken) << "a broken ring stays broken";
  }
  Bed bed;
  ASSERT_TRUE(bed.writer.push(packet_of(120, 1)));
  static_cast<void>(bed.writer.publish());
  static_cast<void>(pop(bed.reader));
  bed.claim_written(64);  // The reader is at 128.
  EXPECT_EQ(status_of(bed.reader), Status::kBroken);
}

TEST(ByteRingTest, HostileSizesBreakTheRing) {
  // Larger than a packet may be, larger than the bytes written, and beyond 32 bits.
  for (const uint64_t size :
       {uint64_t{kPacketBytesMax + 1}, uint64_t{57}, uint64_t{1} << 32, UINT64_MAX}) {
    Bed bed;
    bed.forge_size(0, size);
    bed.claim_written(64);
    EXPECT_EQ(status_of(bed.reader), Status::kBroken) << size;
  }
  Bed bed;  // The largest size that fits is a packet.
  bed.forge_size(0, 56);
  bed.claim_written(64);
  EXPECT_EQ(pop(bed.reader).size(), 56U);
}

TEST(ByteRingTest, WriterMayNotOverwriteWhatIsNotReleased) {
  Bed bed;
  ASSERT_TRUE(bed.writer.push(packet_of(120, 1)));
  static_cast<void>(bed.writer.publish());
  static_cast<void>(pop(bed.reader));
  bed.claim_written(128 + 512);  // A whole ring more, but 128 bytes are not released.
  EXPECT_EQ(status_of(bed.reader), Status::kBroken);
}

TEST(ByteRingTest, HostileReaderPositionsBreakTheRing) {
  // Ahead of the writer, behind 0, and not at a unit.
  for (const uint64_t position : {uint64_t{576}, UINT64_MAX - 63, uint64_t{100}}) {
    Bed bed;
    for (uint8_t i = 0; i < 4; i++) ASSERT_TRUE(bed.writer.push(packet_of(120, i)));
    bed.words.read.store(position);
    EXPECT_FALSE(bed.writer.push(packet_of(1, 1))) << position;
    EXPECT_TRUE(bed.writer.broken()) << position;
  }
}

// --- Random walks ---

TEST(ByteRingTest, WalksLikeADeque) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  Bed bed;
  std::deque<Bytes> model;
  uint64_t space = 0;       // Bytes of records not released.
  uint64_t unreleased = 0;  // Of these, popped.
  size_t published = 0;     // Packets of the model that the reader may see.
  for (uint32_t step = 0; step < 20'000; step++) {
    switch (prng.below(4)) {
      case 0: {
        const auto size = static_cast<uint32_t>(prng.below(kPacketBytesMax + 1));
        const Bytes packet = packet_of(size, static_cast<uint8_t>(step));
        const bool fits = space + record_bytes(size) <= bed.data.size();
        ASSERT_EQ(bed.writer.push(packet), fits) << step;
        if (!fits) break;
        model.push_back(packet);
        space += record_bytes(size);
        break;
      }
      case 1:
        ASSERT_FALSE(bed.writer.publish());
        published = model.size();
        break;
      case 2:
        if (published == 0) {
          ASSERT_EQ(status_of(bed.reader), Status::kEmpty) << step;
          break;
        }
        ASSERT_EQ(pop(bed.reader), model.front()) << step;
        unreleased += record_bytes(static_cast<uint32_t>(model.front().size()));
        model.pop_front();
        published--;
        break;
      default:
        bed.reader.release();
        space -= std::exchange(unreleased, 0);
    }
  }
}

TEST(ByteRingTest, StreamsBetweenTwoThreads) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  constexpr uint32_t kPackets = 20'000;
  Bed bed;
  std::atomic<bool> given_up{false};
  // Both threads draw the same sizes.
  std::thread writer([&] {
    testing::Prng prng(seed);
    for (uint32_t i = 0; i < kPackets; i++) {
      const Bytes packet = packet_of(static_cast<uint32_t>(prng.below(kPacketBytesMax + 1)),
                                     static_cast<uint8_t>(i));
      while (!bed.writer.push(packet) && !given_up.load()) std::this_thread::yield();
      static_cast<void>(bed.writer.publish());
    }
  });
  testing::Prng prng(seed);
  Bytes out(kPacketBytesMax);
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < kPackets; i++) {
    const Bytes expected =
        packet_of(static_cast<uint32_t>(prng.below(kPacketBytesMax + 1)), static_cast<uint8_t>(i));
    RingReader::Popped popped = bed.reader.pop(out);
    while (popped.status == Status::kEmpty) {
      std::this_thread::yield();
      popped = bed.reader.pop(out);
    }
    if (popped.status != Status::kPacket) {
      given_up.store(true);
      break;
    }
    bed.reader.release();
    wrong += Bytes(out.begin(), out.begin() + popped.size) != expected;
  }
  EXPECT_FALSE(bed.reader.broken());
  writer.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace tributary::io
