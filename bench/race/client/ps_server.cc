// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/ps_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/errno_text.h"

namespace tributary::race {

struct PsServer::Connection {
  explicit Connection(int socket) : file(socket) {}
  ~Connection() { close(file); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const int file;
  PsGreeting greeting{};
  bool greeted = false;
  uint64_t chunks_in = 0;     ///< Whole chunks received so far.
  uint32_t bytes_in = 0;      ///< Bytes received of the greeting, or of chunk number chunks_in.
  std::vector<float> buffer;  ///< Holds chunk number chunks_in.
  std::deque<Sum> out;        ///< Sums to send.
  uint32_t bytes_out = 0;     ///< Bytes sent of the first sum in `out`.

  [[nodiscard]] PsShare share() const {
    return {greeting.tensor_bytes, greeting.server_index, greeting.servers};
  }
  [[nodiscard]] uint32_t chunk_bytes() const { return share().size(chunks_in % share().chunks()); }
};

namespace {

void add_to(std::vector<float>& sum, const std::vector<float>& values) {
  float* __restrict to = sum.data();
  const float* __restrict from = values.data();
  for (size_t i = 0; i < sum.size(); i++) to[i] += from[i];
}

}  // namespace

Result<std::unique_ptr<PsServer>> PsServer::listen(const Endpoint& local, uint32_t workers) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(local.port);
  // An IPv4 address is in the last four bytes.
  std::memcpy(&address.sin_addr, local.address.data() + kMappedPrefixBytes,
              sizeof address.sin_addr);
  std::array<int, 2> wake{-1, -1};
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const bool listens = bind(listener, generic, size) == 0 && ::listen(listener, SOMAXCONN) == 0 &&
                       getsockname(listener, generic, &size) == 0 &&
                       pipe2(wake.data(), O_CLOEXEC | O_NONBLOCK) == 0;
  const int reason = errno;
  std::unique_ptr<PsServer> server(
      new PsServer(listener, wake[0], wake[1], ntohs(address.sin_port), workers));
  if (listens) return server;
  return failure(
      fmt::format("parameter server at {}: {}", local.to_string(), std::strerror(reason)));
}

PsServer::PsServer(int listener, int wake_read, int wake_write, uint16_t port, uint32_t workers)
    : listener_(listener),
      wake_read_(wake_read),
      wake_write_(wake_write),
      port_(port),
      workers_(workers) {}

PsServer::~PsServer() {
  for (const int file : {listener_, wake_read_, wake_write_}) {
    if (file >= 0) close(file);
  }
}

void PsServer::stop() {
  const char any = 0;
  // A full pipe wakes the server too.
  if (write(wake_write_, &any, 1) < 0) return;
}

void PsServer::run() {
  while (true) {
    std::vector<pollfd> files{{wake_read_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& connection : connections_) {
      const bool has_output = !connection->out.empty();
      files.push_back(
          {connection->file, static_cast<short>(has_output ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (poll(files.data(), files.size(), -1) < 0) continue;
    if (files[0].revents != 0) return;
    for (size_t i = connections_.size(); i-- > 0;) {
      const short events = files[i + 2].revents;
      const bool readable = (events & (POLLIN | POLLHUP | POLLERR)) != 0;
      const bool alive = (!readable || read_from(*connections_[i])) && write_to(*connections_[i]);
      if (!alive) connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (files[1].revents != 0) accept_all();
  }
}

void PsServer::accept_all() {
  while (connections_.size() < workers_) {
    const int file = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file < 0) return;
    const int one = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connections_.push_back(std::make_unique<Connection>(file));
  }
}

bool PsServer::read_from(Connection& connection) {
  // Read what has arrived, up to a bound, so that other connections get their turn.
  for (uint32_t i = 0; i < kPsChunksAhead; i++) {
    void* to = &connection.greeting;
    uint32_t wanted_bytes = sizeof connection.greeting;
    if (connection.greeted) {
      wanted_bytes = connection.chunk_bytes();
      connection.buffer.resize(wanted_bytes / sizeof(float));
      to = connection.buffer.data();
    }
    const ssize_t size = recv(connection.file, static_cast<char*>(to) + connection.bytes_in,
                              wanted_bytes - connection.bytes_in, 0);
    if (size < 0) return is_retryable(errno);
    if (size == 0) return false;
    connection.bytes_in += static_cast<uint32_t>(size);
    if (connection.bytes_in < wanted_bytes) continue;
    connection.bytes_in = 0;
    if (!(connection.greeted ? take_chunk(connection) : take_greeting(connection))) return false;
  }
  return true;
}

bool PsServer::take_greeting(Connection& connection) {
  const PsGreeting& greeting = connection.greeting;
  connection.greeted = true;
  const auto agrees = [&greeting](const auto& other) {
    return !other->greeted || other->greeting == greeting;
  };
  return greeting.magic == PsGreeting{}.magic && greeting.servers > 0 &&
         greeting.tensor_bytes > 0 && greeting.tensor_bytes % sizeof(float) == 0 &&
         connection.share().chunks() > 0 &&
         std::all_of(connections_.begin(), connections_.end(), agrees);
}

PsServer::Sum PsServer::unused_sum() {
  for (const Sum& sum : spare_) {
    if (sum.use_count() == 1) return sum;
  }
  spare_.push_back(std::make_shared<std::vector<float>>());
  return spare_.back();
}

bool PsServer::take_chunk(Connection& connection) {
  const uint64_t ahead = connection.chunks_in - pending_first_;
  if (ahead >= 2 * kPsChunksAhead) return false;
  while (pending_.size() <= ahead) pending_.emplace_back();
  Pending& pending = pending_[ahead];
  if (pending.sum == nullptr) {
    pending.sum = unused_sum();
    pending.sum->swap(connection.buffer);
  } else if (pending.sum->size() != connection.buffer.size()) {
    return false;  // A worker that left had cut its tensor differently.
  } else {
    add_to(*pending.sum, connection.buffer);
  }
  connection.chunks_in++;
  pending.contributions++;
  // Connections deliver in order, so only the first chunk can be complete.
  while (!pending_.empty() && pending_.front().contributions == workers_) {
    for (const auto& other : connections_) other->out.push_back(pending_.front().sum);
    pending_.pop_front();
    pending_first_++;
  }
  return true;
}

bool PsServer::write_to(Connection& connection) {
  while (!connection.out.empty()) {
    const std::vector<float>& sum = *connection.out.front();
    const auto* bytes = reinterpret_cast<const char*>(sum.data());
    const size_t all_bytes = sum.size() * sizeof(float);
    const ssize_t size = send(connection.file, bytes + connection.bytes_out,
                              all_bytes - connection.bytes_out, MSG_NOSIGNAL);
    if (size < 0) return is_retryable(errno);
    connection.bytes_out += static_cast<uint32_t>(size);
    if (connection.bytes_out < all_bytes) return true;
    connection.bytes_out = 0;
    connection.out.pop_front();
  }
  return true;
}

}  // namespace tributary::race
