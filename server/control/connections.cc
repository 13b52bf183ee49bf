// SPDX-License-Identifier: Apache-2.0
#include "server/control/connections.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

#include "base/cpus.h"
#include "base/endpoint.h"
#include "base/errno_text.h"

namespace tributary::control {
namespace {

/// Pause after an error of accept(), which would repeat at once while no descriptor is free.
/// Assumed.
constexpr std::chrono::milliseconds kRetryAfter{20};
/// Connections that are accepted before the others are served.
constexpr uint32_t kAcceptsAtOnce = 64;
constexpr size_t kReadBytes = 16'384;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// Returns the part of a peer's address that one client has: the IPv4 address, or the first 64 bits
/// of the IPv6 address, because a host may have all addresses of its network.
std::string client_of(const sockaddr_storage& peer) {
  const auto bytes = [](const auto& address, size_t from, size_t count) {
    return std::string(reinterpret_cast<const char*>(&address) + from, count);
  };
  if (peer.ss_family == AF_INET) {
    return bytes(reinterpret_cast<const sockaddr_in&>(peer).sin_addr, 0, 4);
  }
  if (peer.ss_family != AF_INET6) return {};
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  return IN6_IS_ADDR_V4MAPPED(&address) ? bytes(address, kMappedPrefixBytes, 4)
                                        : bytes(address, 0, 8);
}

}  // namespace

const char* to_string(ConnectionEnd end) {
  constexpr std::array<const char*, kConnectionEndCount> kNames{"answered", "timed_out",
                                                                "displaced", "closed"};
  return kNames[static_cast<uint32_t>(end)];
}

Connections::Connections(io::FileDescriptor listener, ConnectionCounters& counters)
    : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      listener_(std::move(listener)),
      counters_(counters) {}

Result<void> Connections::start(Take take) {
  // Without it nobody could wake the thread.
  if (!wake_.is_open()) return system_failure(EMFILE, "cannot serve HTTP");
  take_ = std::move(take);
  thread_ = std::thread([this] { run(); });
  return {};
}

void Connections::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  static_cast<void>(eventfd_write(wake_.get(), 1));
  thread_.join();
  connections_.clear();
}

void Connections::answer(uint64_t id, std::string bytes) {
  {
    const std::lock_guard lock(mutex_);
    answers_.emplace_back(id, std::move(bytes));
  }
  static_cast<void>(eventfd_write(wake_.get(), 1));
}

void Connections::run() {
  take_short_slices();
  while (true) {
    const std::vector<int16_t> events = wait();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    size_t i = 0;
    std::erase_if(connections_, [&](const auto& connection) {
      return events[i++] != 0 && serve(*connection) == Next::kGone;
    });
    take_answers();
    const auto now = Clock::now();
    std::erase_if(connections_, [&](const auto& connection) {
      if (connection->state == State::kAnswering || now < connection->deadline) return false;
      // A client that keeps its side open has its answer nevertheless.
      return connection->state == State::kEnding || end(ConnectionEnd::kTimedOut) == Next::kGone;
    });
    if (now >= accept_at_) accept_some();
  }
}

std::vector<int16_t> Connections::wait() {
  const bool may_accept = Clock::now() >= accept_at_ && has_room();
  std::vector<pollfd> files{{wake_.get(), POLLIN, 0},
                            {may_accept ? listener_.get() : -1, POLLIN, 0}};
  const size_t first = files.size();
  for (const auto& connection : connections_) {
    // poll() ignores descriptors below 0. The end of a connection that waits for its answer would
    // wake it without a pause.
    const bool waits = connection->state == State::kAnswering;
    const auto event =
        static_cast<int16_t>(connection->state == State::kWriting ? POLLOUT : POLLIN);
    files.push_back({waits ? -1 : connection->socket.get(), event, 0});
  }
  if (poll(files.data(), files.size(), wait_ms()) < 0)
    return std::vector<int16_t>(connections_.size());
  eventfd_t count = 0;
  if (files[0].revents != 0) static_cast<void>(eventfd_read(wake_.get(), &count));
  std::vector<int16_t> events;
  for (size_t i = first; i < files.size(); i++) events.push_back(files[i].revents);
  return events;
}

int Connections::wait_ms() const {
  const auto now = Clock::now();
  std::optional<Clock::time_point> until;
  const auto not_after = [&until](Clock::time_point time) {
    if (!until || time < *until) until = time;
  };
  if (now < accept_at_) not_after(accept_at_);
  for (const auto& connection : connections_) {
    if (connection->state != State::kAnswering) not_after(connection->deadline);
  }
  if (!until) return -1;
  // Rounded up, so that the time has come when poll() ends.
  return static_cast<int>(
      std::chrono::ceil<std::chrono::milliseconds>(std::max(*until - now, Clock::duration()))
          .count());
}

void Connections::take_answers() {
  std::vector<std::pair<uint64_t, std::string>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [id, bytes] : answers) {
    const auto found = std::ranges::find(connections_, id, [](const auto& c) { return c->id; });
    if (found == connections_.end()) continue;
    Connection& connection = **found;
    connection.state = State::kWriting;
    connection.deadline =
        Clock::now() + kRequestWithin + std::chrono::seconds(bytes.size() / kAnswerBytesPerS);
    connection.answer = std::move(bytes);
    if (serve(connection) == Next::kGone) connections_.erase(found);
  }
  if (!answers.empty()) limit_answers();
}

void Connections::limit_answers() {
  size_t others = 0;  // Bytes of all answers but the largest.
  const Connection* largest = nullptr;
  for (const auto& connection : connections_) {
    others += connection->answer.size();
    if (largest == nullptr || connection->answer.size() >= largest->answer.size()) {
      largest = connection.get();
    }
  }
  if (largest != nullptr) others -= largest->answer.size();
  std::erase_if(connections_, [&](const auto& connection) {
    if (others <= kAnswersBytesMax || connection->answer.empty()) return false;
    if (connection.get() == largest) return false;
    others -= connection->answer.size();
    return end(ConnectionEnd::kDisplaced) == Next::kGone;
  });
}

bool Connections::has_room() const {
  return connections_.size() < kConnectionsMax ||
         std::ranges::any_of(connections_,
                             [](const auto& c) { return c->state != State::kAnswering; });
}

void Connections::accept_some() {
  for (uint32_t i = 0; i < kAcceptsAtOnce && has_room(); i++) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    io::FileDescriptor socket(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      // EMFILE, ENFILE, ENOBUFS, ENOMEM: others must free something first. ECONNABORTED and the
      // network's errors concern one caller. None of them ends the server.
      if (!is_retryable(errno)) accept_at_ = Clock::now() + kRetryAfter;
      return;
    }
    if (connections_.size() == kConnectionsMax) displace();
    connections_.push_back(
        std::make_unique<Connection>(Connection{.id = next_id_++,
                                                .socket = std::move(socket),
                                                .address = client_of(peer),
                                                .deadline = Clock::now() + kRequestWithin}));
    // The request has often come already.
    if (serve(*connections_.back()) == Next::kGone) connections_.pop_back();
  }
}

void Connections::displace() {
  const auto any = [this](State state) {
    return std::ranges::any_of(connections_, [state](const auto& c) { return c->state == state; });
  };
  State state = State::kWriting;
  if (any(State::kReading)) state = State::kReading;
  if (any(State::kEnding)) state = State::kEnding;
  const auto is_candidate = [state](const auto& c) { return c->state == state; };
  std::map<std::string, uint32_t> counts;
  for (const auto& connection : connections_)
    counts[connection->address] += is_candidate(connection) ? 1 : 0;
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& row) { return row.second; });
  const auto oldest = std::ranges::find_if(connections_, [&](const auto& connection) {
    return is_candidate(connection) && connection->address == most->first;
  });
  if (state != State::kEnding) end(ConnectionEnd::kDisplaced);
  connections_.erase(oldest);
}

Connections::Next Connections::serve(Connection& connection) {
  switch (connection.state) {
    case State::kReading:
      return read(connection);
    case State::kAnswering:
      return Next::kStays;
    case State::kWriting:
      return write(connection);
    case State::kEnding:
      return drain_request(connection);
  }
  return Next::kGone;
}

Connections::Next Connections::read(Connection& connection) {
  std::array<char, kReadBytes> bytes;
  const size_t room = std::min(bytes.size(), connection.request.room());
  const ssize_t got = recv(connection.socket.get(), bytes.data(), room, 0);
  if (got < 0 && is_retryable(errno)) return Next::kStays;
  if (got <= 0) return end(ConnectionEnd::kClosed);
  if (connection.request.add({bytes.data(), static_cast<size_t>(got)})) {
    connection.state = State::kAnswering;
    take_(connection.id, connection.request.take());
  } else if (connection.request.take_expectation()) {
    // A client whose buffer is full waits for its own timeout.
    static_cast<void>(
        send(connection.socket.get(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL));
  }
  return Next::kStays;
}

Connections::Next Connections::write(Connection& connection) {
  const std::string_view rest = std::string_view(connection.answer).substr(connection.sent_bytes);
  const ssize_t sent = send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0 && is_retryable(errno)) return Next::kStays;
  if (sent < 0) return end(ConnectionEnd::kClosed);
  connection.sent_bytes += static_cast<size_t>(sent);
  if (connection.sent_bytes < connection.answer.size()) return Next::kStays;
  end(ConnectionEnd::kAnswered);
  connection.answer = {};
  connection.state = State::kEnding;
  shutdown(connection.socket.get(), SHUT_WR);
  return drain_request(connection);
}

/// Reads what remains of the request: closing a socket with unread bytes would reset the
/// connection, and the client would lose the answer.
Connections::Next Connections::drain_request(Connection& connection) {
  std::array<char, kReadBytes> bytes;
  while (connection.drained_bytes < kRequestBytesMax) {
    const ssize_t got = recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && is_retryable(errno)) return Next::kStays;
    if (got <= 0) return Next::kGone;
    connection.drained_bytes += static_cast<size_t>(got);
  }
  return Next::kGone;
}

Connections::Next Connections::end(ConnectionEnd how) {
  counters_[static_cast<uint32_t>(how)].fetch_add(1, std::memory_order_relaxed);
  return Next::kGone;
}

}  // namespace tributary::control
