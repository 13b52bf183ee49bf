// SPDX-License-Identifier: Apache-2.0
// Method:  clients that speak to the server's socket and memory directly, and write what no honest
//          client writes: hand-made cases first, then random bytes anywhere in the memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>

#include "io/local/local_socket.h"
#include "io/local/server_lane.h"
#include "tests/io/local/local_bed.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

/// A client with the bare socket and memory.
class HostileClient {
 public:
  explicit HostileClient(const Endpoint& server) : control_(*unix_socket(SOCK_SEQPACKET)) {
    EXPECT_TRUE(connect_name(control_.get(), local_name(server)).has_value());
    const auto welcome = receive_welcome(control_.get(), memory_fd_);
    EXPECT_TRUE(welcome.has_value());
    memory_.emplace(*RingMemory::map(welcome->shape, memory_fd_.get()));
  }
  [[nodiscard]] ByteRing to_server(uint32_t core = 0) const {
    return memory_->ring(core, RingDirection::kToServer);
  }
  [[nodiscard]] ByteRing to_client(uint32_t core = 0) const {
    return memory_->ring(core, RingDirection::kToClient);
  }
  [[nodiscard]] int control() const { return control_.get(); }
  [[nodiscard]] int memory_fd() const { return memory_fd_.get(); }
  /// Returns true if the server has closed the connection.
  [[nodiscard]] bool is_closed() const {
    char byte = 0;
    return ::recv(control_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  FileDescriptor control_;
  FileDescriptor memory_fd_;
  std::optional<RingMemory> memory_;
};

/// Lets the core work until the client's connection has ended.
void await_end(const LocalBed& bed, const HostileClient& client) {
  std::array<engine::Packet, 8> burst;
  await([&] {
    bed.update();
    static_cast<void>(bed.server->lane(0).receive(burst));
    return client.is_closed();
  });
}

TEST(HostileClientTest, ForgedPositionEndsItsConnectionOnly) {
  const LocalBed bed;
  const HostileClient hostile(bed.address());
  const Client honest(bed.address());
  hostile.to_server().words->written.store(UINT64_MAX);
  await_end(bed, hostile);
  EXPECT_EQ(bed.server->stats().connections_broken, 1U);
  honest.send(bytes_of("hello"));
  EXPECT_EQ(copy(bed.receive()), bytes_of("hello"));
}

TEST(HostileClientTest, ForgedSizeEndsItsConnection) {
  const LocalBed bed;
  const HostileClient hostile(bed.address());
  const uint64_t size = uint64_t{kUdpPayloadBytesMax} + 1;
  std::memcpy(hostile.to_server().data.data(), &size, sizeof size);
  hostile.to_server().words->written.store(128);
  await_end(bed, hostile);
  EXPECT_EQ(bed.server->stats().connections_broken, 1U);
}

TEST(HostileClientTest, ForgedReadPositionEndsItsConnection) {
  const LocalBed bed({.ring_bytes = 1U << 18});
  const HostileClient hostile(bed.address());
  RingWriter writer(hostile.to_server());
  ASSERT_TRUE(writer.push(bytes_of("hello")));
  static_cast<void>(writer.publish());
  const Endpoint source = bed.receive().source;
  hostile.to_client().words->read.store(1U << 30);
  // The server looks at the position when the ring is full.
  for (uint32_t i = 0; i < 8; i++) bed.send(Bytes(65'000), source);
  await_end(bed, hostile);
  EXPECT_EQ(bed.server->stats().connections_broken, 1U);
}

TEST(HostileClientTest, AnyByteOnTheSocketEndsTheConnection) {
  const LocalBed bed;
  const HostileClient hostile(bed.address());
  ASSERT_EQ(::send(hostile.control(), "x", 1, 0), 1);
  await_end(bed, hostile);
  EXPECT_EQ(bed.server->stats().connections_broken, 1U);
}

TEST(HostileClientTest, ClientThatReadsNoWakeUpsBlocksNobody) {
  const LocalBed bed;
  const HostileClient hostile(bed.address());
  RingWriter writer(hostile.to_server());
  ASSERT_TRUE(writer.push(bytes_of("hello")));
  static_cast<void>(writer.publish());
  const Endpoint source = bed.receive().source;
  // It claims to sleep, always, and makes its socket blocking.
  ASSERT_EQ(::fcntl(hostile.control(), F_SETFL, 0), 0);
  for (uint32_t i = 0; i < 5000; i++) {
    hostile.to_client().words->reader_sleeps.store(1);
    bed.send(bytes_of("packet"), source);
  }
  EXPECT_EQ(bed.server->stats().connections, 1U);
}

TEST(HostileClientTest, MemoryCannotChangeItsSize) {
  const LocalBed bed;
  const HostileClient hostile(bed.address());
  EXPECT_NE(::ftruncate(hostile.memory_fd(), 0), 0);
  EXPECT_NE(::ftruncate(hostile.memory_fd(), 1 << 30), 0);
  EXPECT_NE(::fcntl(hostile.memory_fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  // A hole reads as zeros.
  ASSERT_EQ(
      ::fallocate(hostile.memory_fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20), 0);
  std::array<engine::Packet, 8> burst;
  bed.update();
  EXPECT_EQ(bed.server->lane(0).receive(burst), 0U);
}

TEST(HostileClientTest, RandomWritesNeverHarmTheServer) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  const LocalBed bed({.ring_bytes = 1U << 17});
  const Client honest(bed.address());
  honest.send(bytes_of("hello"));
  const Endpoint honest_source = bed.receive().source;
  std::array<engine::Packet, 8> burst;
  uint64_t packets = 0;
  for (uint32_t round = 0; round < 30; round++) {
    std::unique_ptr<HostileClient> hostile;
    await([&] {
      bed.update();
      hostile = std::make_unique<HostileClient>(bed.address());
      return true;
    });
    const ByteRing in = hostile->to_server();
    const ByteRing out = hostile->to_client();
    uint64_t position = 0;
    for (uint32_t step = 0; step < 200 && !hostile->is_closed(); step++) {
      // Sizes and positions that are often nearly right.
      const uint64_t size = prng.below(4) == 0 ? prng.any_u64() : prng.below(3000);
      std::memcpy(in.data.data() + prng.below(32) * 64, &size, sizeof size);
      position += uint64_t{prng.below(64)} * 64 + (prng.below(50) == 0 ? prng.any_u64() : 0);
      in.words->written.store(position);
      in.words->reader_sleeps.store(prng.below(2));
      out.words->read.store(prng.below(50) == 0 ? prng.any_u64() : position);
      out.words->reader_sleeps.store(prng.below(2));
      bed.update();
      const uint32_t count = bed.server->lane(0).receive(burst);
      for (uint32_t i = 0; i < count; i++) {
        ASSERT_LE(burst[i].size, kUdpPayloadBytesMax);
        bed.send(copy(burst[i]), burst[i].source);
      }
      packets += count;
    }
  }
  EXPECT_GT(packets, 0U);
  bed.send(bytes_of("still here"), honest_source);
  EXPECT_EQ(honest.receive(), bytes_of("still here"));
}

}  // namespace
}  // namespace tributary::io
