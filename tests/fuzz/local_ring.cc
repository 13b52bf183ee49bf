// SPDX-License-Identifier: Apache-2.0
// A server's core and a local client that writes anything to the shared memory: positions, sizes,
// sleep words. Packets are bounded, and a later write does not change them; a ring with impossible
// values ends the client's connection, and nothing else does.
#include <array>
#include <cstring>

#include "io/local/server_lane.h"
#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

constexpr io::RingMemoryShape kShape{
    .core_count = 1, .ring_bytes = 1U << 16, .packet_bytes_max = 2000};
constexpr uint32_t kStepsMax = 512;

enum Step : uint8_t { kSize, kWritten, kRead, kSleeps, kReceive, kSend, kSleep, kSteps };

/// A connection whose client is the input. Its descriptors are closed, so wake-ups go nowhere.
struct Bed {
  Bed() {
    FileDescriptor fd;
    auto memory = io::RingMemory::create(kShape, fd);
    EXPECT_TRUE(memory.has_value());
    in = memory->ring(0, io::RingDirection::kToServer);
    out = memory->ring(0, io::RingDirection::kToClient);
    table.places[0].emplace(io::LocalConnection{
        .client = io::client_address(1, 0), .control = {}, .memory = *std::move(memory)});
    table.active = 1;
    table.version = 1;
    lane.update();
  }
  using FileDescriptor = io::FileDescriptor;

  void receive() {
    const uint32_t count = lane.receive(burst);
    for (uint32_t i = 0; i < count; i++) {
      EXPECT_LE(burst[i].size, kShape.packet_bytes_max);
      EXPECT_EQ(burst[i].source, io::client_address(1, 0));
    }
    if (count == 0) return;
    const std::vector<std::byte> before(burst[0].bytes().begin(), burst[0].bytes().end());
    std::memset(in.data.data(), 0xff, in.data.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), burst[0].bytes().begin()));
  }

  io::ConnectionTable table;
  io::ServerLane lane{table, 0, -1, -1};
  io::ByteRing in;
  io::ByteRing out;
  std::array<engine::Packet, 16> burst{};
};

void run(std::span<const uint8_t> input) {
  InputReader reader(input);
  Bed bed;
  const std::array<std::byte, 2000> payload{};
  for (uint32_t step = 0; step < kStepsMax && !reader.at_end(); step++) {
    switch (reader.below(kSteps)) {
      case kSize: {
        const uint32_t offset = reader.take<uint16_t>() / 64 * 64;
        const auto size = reader.take<uint64_t>();
        std::memcpy(bed.in.data.data() + offset, &size, sizeof size);
        break;
      }
      case kWritten:
        bed.in.words->written = reader.take<uint64_t>();
        break;
      case kRead:
        bed.out.words->read = reader.take<uint64_t>();
        break;
      case kSleeps:
        bed.out.words->reader_sleeps = reader.take<uint32_t>();
        break;
      case kReceive:
        bed.receive();
        break;
      case kSend:
        bed.lane.transmit({.data = payload.data(),
                           .size = reader.take<uint16_t>() % 2001U,
                           .destination = io::client_address(1, 0)});
        bed.lane.flush();
        break;
      default:
        if (bed.lane.prepare_sleep()) bed.lane.end_sleep();
    }
  }
  // Whatever happened, the lane goes on, and only this client can be broken.
  bed.receive();
  EXPECT_EQ(bed.table.broken & ~uint64_t{1}, 0U);
}

std::vector<Bytes> seeds() {
  InputWriter packets;  // Two packets, answers to them, and a sleep.
  packets.put8({kSize}).put(uint16_t{0}).put(uint64_t{100});
  packets.put8({kSize}).put(uint16_t{128}).put(uint64_t{2000});
  packets.put8({kWritten}).put(uint64_t{128 + 2048}).put8({kReceive});
  packets.put8({kSleeps}).put(uint32_t{1});
  packets.put8({kSend}).put(uint16_t{100}).put8({kSend}).put(uint16_t{2000});
  packets.put8({kRead}).put(uint64_t{128}).put8({kSleep});
  InputWriter wrong;  // A size that is too large, and a position ahead of the server.
  wrong.put8({kSize}).put(uint16_t{0}).put(uint64_t{2001});
  wrong.put8({kWritten}).put(uint64_t{2048}).put8({kReceive});
  wrong.put8({kRead}).put(uint64_t{1} << 40);
  for (uint32_t i = 0; i < 40; i++) wrong.put8({kSend}).put(uint16_t{2000});
  return {packets.bytes(), wrong.bytes()};
}

TRIB_FUZZ_TARGET(local_ring);

}  // namespace
}  // namespace tributary::fuzz
