// SPDX-License-Identifier: Apache-2.0
// Method:  clients that speak to the server's socket and memory directly, and break the
//          rules of the rings: hand-made cases first, then random bytes anywhere in the memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>

#include "io/local/background_close.h"
#include "io/local/local_socket.h"
#include "io/local/server_lane.h"
#include "tests/io/local/local_bed.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

/// A client with the bare socket and memory.
class HostileClient {
 public:
  explicit HostileClient(const Endpoint& server) : control_(*unix_socket()) {
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

LocalWelcome welcome_of(const Endpoint& server) {
  const auto control = unix_socket();
  EXPECT_TRUE(connect_name(control->get(), local_name(server)).has_value());
  FileDescriptor memory_fd;
  return *receive_welcome(control->get(), memory_fd);
}

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

/// Sends a packet to the server's core. @return the address by which the server knows the client.
Endpoint say_hello(const LocalBed& bed, const HostileClient& client) {
  RingWriter writer(client.to_server());
  EXPECT_TRUE(writer.push(bytes_of("hello")));
  static_cast<void>(writer.publish());
  return bed.receive().source;
}

TEST(HostileClientTest, ForgedReadPositionEndsItsConnection) {
  const LocalBed bed({.ring_bytes = 1U << 18});
  const HostileClient hostile(bed.address());
  const Endpoint source = say_hello(bed, hostile);
  hostile.to_client().words->read.store(1U << 30);
  // The server looks at the position when the ring is full.
  for (uint32_t i = 0; i < 8; i++) bed.send(Bytes(65'000), source);
  await_end(bed, hostile);
  EXPECT_EQ(bed.server->stats().connections_broken, 1U);
}

TEST(HostileClientTest, NothingCanBeSentOnTheSocket) {
  const LocalBed bed;
  const HostileClient hostile(bed.address());
  EXPECT_EQ(::send(hostile.control(), "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(bed.server->stats().connections, 1U);
}

/// A TCP connection whose last close blocks for an hour, until this object is gone.
class Lingerer {
 public:
  Lingerer() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), any, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), any, &size), 0);
    sender_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(sender_.get(), any, size), 0);
    reader_ = FileDescriptor(::accept(listener_.get(), nullptr, nullptr));
    const std::vector<char> bytes(1U << 16);
    while (::send(sender_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    const linger an_hour{.l_onoff = 1, .l_linger = 3600};
    EXPECT_EQ(::setsockopt(sender_.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour), 0);
  }

  ~Lingerer() {
    reader_ = {};
    if (closer_.joinable()) closer_.join();
  }
  Lingerer(const Lingerer&) = delete;
  Lingerer& operator=(const Lingerer&) = delete;

  /// Connects to the server and sends the connection's only descriptor before the server has
  /// accepted, which may need several attempts.
  void send_to(const LocalBed& bed) {
    await([&] {
      bed.update();  // Frees the places of failed attempts.
      const auto control = unix_socket();
      if (!connect_name(control->get(), local_name(bed.address()))) return false;
      char byte = 0;
      iovec vector{&byte, 1};
      alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> note{};
      msghdr header{};
      header.msg_iov = &vector;
      header.msg_iovlen = 1;
      header.msg_control = note.data();
      header.msg_controllen = note.size();
      cmsghdr* const rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = sender_.get();
      std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
      return ::sendmsg(control->get(), &header, MSG_NOSIGNAL) == 1;
    });
    // The server may have closed its copy already, and then this close is the one that blocks.
    closer_ = std::thread([last = std::move(sender_)]() mutable { last = {}; });
  }

 private:
  FileDescriptor listener_;
  FileDescriptor sender_;
  FileDescriptor reader_;
  std::thread closer_;
};

TEST(HostileClientTest, DescriptorThatBlocksItsCloserStallsNobody) {
  LocalBed bed;
  std::array<Lingerer, 4> lingerers;
  for (Lingerer& each : lingerers) each.send_to(bed);
  await([&] { return bed.server->stats().connections_broken == 4; });
  {
    const Client honest(bed.address());
    honest.send(bytes_of("hello"));
    EXPECT_EQ(copy(bed.receive()), bytes_of("hello"));
  }
  // The server's end need not wait either, and leaves its name.
  bed.server.reset();
  bed.start();
  EXPECT_EQ(Client(bed.address()).error, "");
}

TEST(HostileClientTest, SocketsThatBlockTheirCloserAreBounded) {
  const LocalBed bed;
  await([] { return background_close_count() == 0; });  // Those of other tests are closed.
  std::vector<std::unique_ptr<Lingerer>> lingerers;
  await([&] {  // Some of them block their sender instead of the server.
    if (background_close_count() < kBackgroundClosesMax) {
      lingerers.push_back(std::make_unique<Lingerer>());
      lingerers.back()->send_to(bed);
      await([&] { return bed.server->stats().connections_broken == lingerers.size(); });
    }
    return Client(bed.address()).error == "too many Unix sockets of strangers are being closed";
  });
  EXPECT_LE(background_close_count(), kBackgroundClosesMax);
  lingerers.clear();
  await([&] { return background_close_count() == 0; });
  await([&] {
    bed.update();
    return Client(bed.address()).error.empty();
  });
}

TEST(HostileClientTest, FloodOfWakeUpsIsReadInPieces) {
  const LocalBed bed;
  const auto welcome = welcome_of(bed.address());
  const auto waker = waker_socket();
  for (uint32_t i = 0; i < 10'000; i++) send_wake_to(waker->get(), welcome.wake_ports[0]);
  const uint64_t before = bed.server->stats().packets.system_calls;
  bed.server->lane(0).drain_wakes();
  EXPECT_LE(bed.server->stats().packets.system_calls - before, 16U);
  const Client honest(bed.address());
  honest.send(bytes_of("hello"));
  EXPECT_EQ(copy(bed.receive()), bytes_of("hello"));
}

TEST(HostileClientTest, ClientThatNeverReadsFillsItsOwnRingOnly) {
  const LocalBed bed({.ring_bytes = 1U << 18});
  const HostileClient hostile(bed.address());
  const Endpoint source = say_hello(bed, hostile);
  const Client honest(bed.address());
  honest.send(bytes_of("hello"));
  const Endpoint honest_source = bed.receive().source;
  // Records of 65,536 bytes: four fill the ring.
  for (uint32_t i = 0; i < 10; i++) bed.send(Bytes(65'500), source);
  EXPECT_EQ(bed.server->stats().packets.tx_packets, 4U);
  EXPECT_EQ(bed.server->stats().packets.tx_refused, 6U);
  bed.send(bytes_of("answer"), honest_source);
  EXPECT_EQ(honest.receive(), bytes_of("answer"));
}

TEST(HostileClientTest, ClientThatReadsNoWakeUpsBlocksNobody) {
  const LocalBed bed;
  const HostileClient hostile(bed.address());
  const Endpoint source = say_hello(bed, hostile);
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
