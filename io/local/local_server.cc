// SPDX-License-Identifier: Apache-2.0
#include "io/local/local_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/assert.h"
#include "io/local/background_close.h"

namespace tributary::io {
namespace {

/// Callers that wait to be accepted.
constexpr int kBacklog = 64;
/// How often the listener checks whether every lane has released a closed connection. Assumed.
constexpr int kClosingPollMs = 5;
/// If the kernel has no descriptor for a caller, or too many sockets are being closed in the
/// background, the listener waits this long. Assumed.
constexpr int kAcceptPauseMs = 100;

/// Returns the process at the other end of a Unix socket; 0 if this PID namespace has no id for it.
uint32_t peer_pid(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return static_cast<uint32_t>(peer.pid);
}

constexpr uint64_t bit(uint32_t place) { return uint64_t{1} << place; }

}  // namespace

uint32_t connections_allowed(const LocalServerConfig& config) {
  const uint64_t bytes = uint64_t{config.core_count} * 2 * config.ring_bytes;
  const uint64_t fit = std::max<uint64_t>(kRingsBytesMax / bytes, 1);
  return static_cast<uint32_t>(std::min<uint64_t>(config.connections_max, fit));
}

Result<std::unique_ptr<LocalServer>> LocalServer::open(const LocalServerConfig& config,
                                                       std::function<void(uint32_t)> wake_core) {
  TRIB_ASSERT(config.connections_max >= 1 && config.connections_max <= kLocalConnectionsMax);
  std::unique_ptr<LocalServer> server(new LocalServer(config, std::move(wake_core)));
  if (const auto started = server->start(); !started) return tl::unexpected(started.error());
  return server;
}

LocalServer::LocalServer(const LocalServerConfig& config, std::function<void(uint32_t)> wake_core)
    : config_(config),
      wake_core_(std::move(wake_core)),
      name_(local_name(config.listen)),
      welcome_{.shape = {.core_count = config.core_count,
                         .ring_bytes = config.ring_bytes,
                         .packet_bytes_max = kUdpPayloadBytesMax},
               .steering = config.steering} {}

LocalServer::~LocalServer() {
  // Relaxed: the eventfd orders it.
  stopping_.store(true, std::memory_order_relaxed);
  if (!thread_.joinable()) return;
  ::eventfd_write(wake_event_.get(), 1);
  thread_.join();
}

Result<void> LocalServer::start() {
  wake_event_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_event_.is_open()) return failure("cannot make an eventfd");
  for (uint32_t core = 0; core < config_.core_count; core++) {
    auto socket = core_wake_socket(welcome_.wake_ports[core]);
    if (!socket) return tl::unexpected(socket.error());
    lanes_.push_back(std::make_unique<ServerLane>(table_, core, socket->get(), wake_event_.get()));
    wake_sockets_.push_back(*std::move(socket));
  }
  auto listener = unix_socket();
  if (!listener) return tl::unexpected(listener.error());
  if (const auto bound = bind_name(listener->get(), name_); !bound) return bound;
  if (::listen(listener->get(), kBacklog) != 0) return failure("cannot listen on a Unix socket");
  listener_ = *std::move(listener);
  thread_ = std::thread([this] { listen(); });
  return {};
}

LocalServerStats LocalServer::stats() const {
  engine::PortCounters packets;
  for (const auto& lane : lanes_) packets = packets + lane->counters();
  return {.socket = "@" + name_,
          // Relaxed: the number alone is wanted.
          .connections =
              static_cast<uint32_t>(std::popcount(table_.active.load(std::memory_order_relaxed))),
          .connections_opened = opened_.value(),
          .connections_closed = closed_.value(),
          .connections_broken = broken_.value(),
          .connections_refused = refused_.value(),
          .connections_failed = failed_.value(),
          .packets = packets};
}

// --- The listener's thread ---

void LocalServer::listen() {
  std::vector<pollfd> waits;
  while (!stopping_.load(std::memory_order_relaxed)) {
    waits.clear();
    waits.push_back({.fd = wake_event_.get(), .events = POLLIN, .revents = 0});
    const bool may_accept = background_close_count() < kBackgroundClosesMax;
    waits.push_back({.fd = may_accept ? listener_.get() : -1, .events = POLLIN, .revents = 0});
    const uint64_t active = table_.active.load(std::memory_order_relaxed);
    for (uint64_t left = active; left != 0; left &= left - 1) {
      const auto place = static_cast<uint32_t>(std::countr_zero(left));
      // No events: poll() then reports only that the client has hung up.
      waits.push_back({.fd = table_.places[place]->control.get(), .events = 0, .revents = 0});
    }
    const int pause_ms = may_accept ? -1 : kAcceptPauseMs;
    ::poll(waits.data(), waits.size(), closing_ != 0 ? kClosingPollMs : pause_ms);
    eventfd_t wakes = 0;
    if (waits[0].revents != 0) ::eventfd_read(wake_event_.get(), &wakes);
    uint64_t gone = 0;
    size_t next = 2;
    for (uint64_t left = active; left != 0; left &= left - 1) {
      if (waits[next++].revents != 0) gone |= left & -left;
    }
    close_connections(gone);
    free_places();
    if (waits[1].revents != 0) accept_all();
  }
  refuse_callers();
}

/// Closes the connections whose client is gone or has broken a ring.
void LocalServer::close_connections(uint64_t gone) {
  const uint64_t active = table_.active.load(std::memory_order_relaxed);
  // Relaxed: only the bits matter.
  const uint64_t broken = table_.broken.exchange(0, std::memory_order_relaxed) & active;
  for (uint64_t left = broken | gone; left != 0; left &= left - 1) {
    const auto place = static_cast<uint32_t>(std::countr_zero(left));
    close_place(place, (broken & bit(place)) != 0 ? broken_ : closed_);
  }
}

/// Ends a connection. Its place stays taken until no lane uses it.
void LocalServer::close_place(uint32_t place, CounterCell& reason) {
  reason.add(1);
  // The client learns at once. The descriptor stays open, because lanes may still write to it.
  ::shutdown(table_.places[place]->control.get(), SHUT_RDWR);
  closing_ |= bit(place);
  publish_active(table_.active.load(std::memory_order_relaxed) & ~bit(place));
  closing_version_ = table_.version.load(std::memory_order_relaxed);
  for (uint32_t core = 0; core < config_.core_count; core++) wake_core_(core);
}

void LocalServer::publish_active(uint64_t active) {
  // Release, both: pair with the acquire in the lanes.
  table_.active.store(active, std::memory_order_release);
  table_.version.fetch_add(1, std::memory_order_release);
}

/// Frees the closed connections that no lane uses.
void LocalServer::free_places() {
  if (closing_ == 0) return;
  for (const auto& lane : lanes_) {
    if (lane->seen_version() < closing_version_) return;
  }
  for (; closing_ != 0; closing_ &= closing_ - 1) {
    const auto place = static_cast<uint32_t>(std::countr_zero(closing_));
    table_.places[place].reset();
    // A lane may have marked it after it was closed.
    table_.broken.fetch_and(~bit(place), std::memory_order_relaxed);
  }
}

FileDescriptor LocalServer::accept() const {
  return FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void LocalServer::accept_all() {
  for (int i = 0; i < kBacklog && background_close_count() < kBackgroundClosesMax; i++) {
    FileDescriptor control = accept();
    if (control.is_open()) {
      open_connection(std::move(control));
      continue;
    }
    if (errno == EAGAIN) return;
    if (errno == ECONNABORTED || errno == EINTR) continue;
    failed_.add(1);  // Perhaps out of descriptors: wait before the next try.
    pollfd stop{.fd = wake_event_.get(), .events = POLLIN, .revents = 0};
    ::poll(&stop, 1, kAcceptPauseMs);
    return;
  }
}

/// Closes the callers that nobody has accepted. Closing the listener would close them in place.
void LocalServer::refuse_callers() {
  ::shutdown(listener_.get(), SHUT_RD);  // No other caller gets in.
  for (FileDescriptor control = accept(); control.is_open(); control = accept()) {
    if (end_receiving(control.get())) close_in_background(std::move(control));
  }
}

void LocalServer::open_connection(FileDescriptor control) {
  if (end_receiving(control.get())) {  // No honest client sends anything.
    broken_.add(1);
    close_in_background(std::move(control));
    return;
  }
  const uint64_t active = table_.active.load(std::memory_order_relaxed);
  const auto place = static_cast<uint32_t>(std::countr_one(active | closing_));
  if (place >= connections_allowed(config_)) {
    refused_.add(1);
    send_refusal(control.get());
    return;
  }
  FileDescriptor memory_fd;
  auto memory = RingMemory::create(welcome_.shape, memory_fd);
  if (!memory) return failed_.add(1);
  for (uint32_t core = 0; core < config_.core_count; core++) {
    // A core that sleeps does not know the new ring, so the first packet must wake it.
    memory->ring(core, RingDirection::kToServer)
        .words->reader_sleeps.store(1, std::memory_order_relaxed);
  }
  const int socket = control.get();
  table_.places[place].emplace(
      LocalConnection{.client = client_address(++numbers_, place, peer_pid(socket)),
                      .control = std::move(control),
                      .memory = *std::move(memory)});
  opened_.add(1);
  // Before the welcome: a core that the first packet wakes must find the connection.
  publish_active(active | bit(place));
  if (send_welcome(socket, welcome_, memory_fd.get())) return;
  const bool hung_up = errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
  close_place(place, hung_up ? closed_ : failed_);
}

}  // namespace tributary::io
