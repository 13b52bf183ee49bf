// SPDX-License-Identifier: Apache-2.0
// Method:  a server here and a client in a process of its own, which waits in the port only. The
//          child leaves by _exit(): 0 after the right echoes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/io/local/local_bed.h"

namespace tributary::io {
namespace {

constexpr uint32_t kPackets = 2000;

/// A child process that runs `body` with the server's address, when it gets one.
class Child {
 public:
  template <class Body>
  explicit Child(Body body) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    process_ = ::fork();
    if (process_ == 0) {
      Endpoint server;
      const bool started = ::read(pipe[0], &server, sizeof server) == sizeof server;
      ::_exit(started ? body(server) : 9);
    }
    ::close(pipe[0]);
    start_ = FileDescriptor(pipe[1]);
  }
  void start(const Endpoint& server) const {
    EXPECT_EQ(::write(start_.get(), &server, sizeof server), sizeof server);
  }
  void kill() const { ::kill(process_, SIGKILL); }
  [[nodiscard]] int wait() const {
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    return status;
  }

 private:
  FileDescriptor start_;
  pid_t process_ = -1;
};

/// Sends packets of growing sizes and compares their echoes.
int echo_client(const Endpoint& server) {
  const Client client(server);
  if (client.port == nullptr) return 1;
  for (uint32_t i = 0; i < kPackets; i++) {
    const Bytes bytes(1 + i * 7 % 9000, static_cast<std::byte>(i));
    client.send(bytes);
    if (client.receive() != bytes) return 2;
  }
  return 0;
}

/// Says hello and waits until it is killed.
int waiting_client(const Endpoint& server) {
  const Client client(server);
  if (client.port == nullptr) return 1;
  client.send(Bytes(1));
  for (;;) client.queue().wait(seconds(3600));
}

TEST(LocalProcessTest, EchoesBetweenProcesses) {
  const Child child(echo_client);  // Before this process has threads.
  const LocalBed bed;
  child.start(bed.address());
  for (uint32_t i = 0; i < kPackets; i++) {
    const engine::Packet packet = bed.receive();
    bed.send(copy(packet), packet.source);
  }
  EXPECT_EQ(child.wait(), 0);
  await([&] { return bed.server->stats().connections_closed == 1; });
}

TEST(LocalProcessTest, DeathOfTheClientEndsItsConnection) {
  const Child child(waiting_client);
  const LocalBed bed;
  child.start(bed.address());
  bed.receive();
  EXPECT_EQ(bed.server->stats().connections, 1U);
  child.kill();
  static_cast<void>(child.wait());
  await([&] { return bed.server->stats().connections == 0; });
  EXPECT_EQ(bed.server->stats().connections_closed, 1U);
}

}  // namespace
}  // namespace tributary::io
