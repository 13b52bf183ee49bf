// SPDX-License-Identifier: Apache-2.0
// Method:  the layout by hand, both sides over one mapping each, then refused shapes and memory.
#include "io/local/ring_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "io/udp/udp_port_config.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

constexpr RingMemoryShape kShape{.core_count = 2, .ring_bytes = 1U << 17, .packet_bytes_max = 4096};

std::string error_of(RingMemoryShape shape) {
  const auto good = shape.check();
  return good ? "good" : good.error().text;
}

TEST(RingMemoryTest, RingsFollowEachOther) {
  FileDescriptor fd;
  const auto memory = RingMemory::create(kShape, fd);
  ASSERT_TRUE(memory.has_value()) << memory.error().text;
  EXPECT_EQ(kShape.bytes(), 4U * (4096 + (1U << 17)));
  const ByteRing first = memory->ring(0, RingDirection::kToServer);
  const ByteRing last = memory->ring(1, RingDirection::kToClient);
  EXPECT_EQ(first.data.size(), 1U << 17);
  EXPECT_EQ(last.data.data() - first.data.data(), 3 * (4096 + (1 << 17)));
  EXPECT_EQ(last.packet_bytes_max, 4096U);
}

TEST(RingMemoryTest, BothSidesSeeTheSamePackets) {
  FileDescriptor fd;
  const auto server = RingMemory::create(kShape, fd);
  const auto client = RingMemory::map(kShape, fd.get());
  ASSERT_TRUE(client.has_value()) << client.error().text;
  RingWriter writer(client->ring(1, RingDirection::kToServer));
  RingReader reader(server->ring(1, RingDirection::kToServer));
  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(writer.push(sent));
  static_cast<void>(writer.publish());
  std::array<std::byte, 3> received{};
  EXPECT_EQ(reader.pop(received).size, 3U);
  EXPECT_EQ(received, sent);
}

TEST(RingMemoryTest, RefusesShapesOfStrangers) {
  EXPECT_EQ(error_of(kShape), "good");
  EXPECT_THAT(error_of({.core_count = 0, .ring_bytes = 1U << 17, .packet_bytes_max = 1}),
              HasSubstr("0 cores are not allowed"));
  EXPECT_THAT(error_of({.core_count = 3, .ring_bytes = 1U << 17, .packet_bytes_max = 1}),
              HasSubstr("3 cores are not allowed"));
  EXPECT_THAT(error_of({.core_count = 128, .ring_bytes = 1U << 17, .packet_bytes_max = 1}),
              HasSubstr("a power of two up to 64"));
  EXPECT_THAT(error_of({.core_count = 1, .ring_bytes = 100'000, .packet_bytes_max = 1}),
              HasSubstr("rings of 100000 bytes are not allowed"));
  EXPECT_THAT(error_of({.core_count = 1, .ring_bytes = 1U << 31, .packet_bytes_max = 1}),
              HasSubstr("a power of two from 65536 to 67108864"));
  EXPECT_THAT(error_of({.core_count = 1, .ring_bytes = 1U << 16, .packet_bytes_max = 32'768}),
              HasSubstr("allowed: 1 to 32760"));
  EXPECT_THAT(error_of({.core_count = 1, .ring_bytes = 1U << 20, .packet_bytes_max = 65'508}),
              HasSubstr("allowed: 1 to 65507"));
}

TEST(RingMemoryTest, RefusesMemoryThatCouldShrinkOrIsTooSmall) {
  const FileDescriptor open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), static_cast<off_t>(kShape.bytes())), 0);
  const auto unsealed = RingMemory::map(kShape, open.get());
  ASSERT_FALSE(unsealed.has_value());
  EXPECT_THAT(unsealed.error().text, HasSubstr("not sealed against shrinking"));
  FileDescriptor fd;
  const auto memory = RingMemory::create(kShape, fd);
  RingMemoryShape larger = kShape;
  larger.core_count = 4;
  const auto small = RingMemory::map(larger, fd.get());
  ASSERT_FALSE(small.has_value());
  EXPECT_THAT(small.error().text, HasSubstr("has 540672 bytes; expected are 1081344"));
  EXPECT_FALSE(RingMemory::map(kShape, /*fd=*/-1).has_value());
}

}  // namespace
}  // namespace tributary::io
