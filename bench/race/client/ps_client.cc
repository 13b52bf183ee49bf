// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/ps_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/errno_text.h"

namespace tributary::race {
namespace {

tl::unexpected<Error> server_failure(const char* what) {
  return failure(fmt::format("parameter server: {}: {}", what, std::strerror(errno)));
}

}  // namespace

PsClient::~PsClient() {
  for (const Lane& lane : lanes_) close(lane.file);
}

Result<PsClient> PsClient::connect(const std::vector<Endpoint>& servers, uint64_t tensor_bytes) {
  PsClient client;
  const auto count = static_cast<uint32_t>(servers.size());
  for (uint32_t i = 0; i < count; i++) {
    const PsShare share{tensor_bytes, i, count};
    if (share.chunks() == 0) continue;  // A short tensor leaves this server without work.
    if (auto connected = client.connect_lane(servers[i], share); !connected) {
      return tl::unexpected(connected.error());
    }
  }
  return client;
}

Result<void> PsClient::connect_lane(const Endpoint& server, const PsShare& share) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port);
  std::memcpy(&address.sin_addr, server.address.data() + kMappedPrefixBytes,
              sizeof address.sin_addr);
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return server_failure("socket");
  lanes_.push_back({.file = file, .share = share});
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(file, generic, sizeof address) != 0) return server_failure("connect");
  const int one = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const PsGreeting greeting{.server_index = share.server_index,
                            .servers = share.servers,
                            .tensor_bytes = share.tensor_bytes};
  // A new connection accepts this many bytes without blocking.
  if (send(file, &greeting, sizeof greeting, MSG_NOSIGNAL) != ssize_t{sizeof greeting}) {
    return server_failure("greeting");
  }
  fcntl(file, F_SETFL, O_NONBLOCK);
  return {};
}

Result<void> PsClient::send_some(Lane& lane, std::span<const std::byte> tensor) {
  while (lane.may_send()) {
    const std::byte* chunk = tensor.data() + lane.share.offset(lane.sent_chunks);
    const uint32_t chunk_bytes = lane.share.size(lane.sent_chunks);
    const ssize_t size =
        send(lane.file, chunk + lane.sent_bytes, chunk_bytes - lane.sent_bytes, MSG_NOSIGNAL);
    if (size < 0 && is_retryable(errno)) return {};
    if (size < 0) return server_failure("send");
    lane.sent_bytes += static_cast<uint32_t>(size);
    if (lane.sent_bytes < chunk_bytes) continue;
    lane.sent_bytes = 0;
    lane.sent_chunks++;
  }
  return {};
}

Result<void> PsClient::receive_some(Lane& lane, std::span<std::byte> tensor) {
  // The server sends a sum only after it has the chunk, so the sum may overwrite it.
  while (!lane.done()) {
    std::byte* chunk = tensor.data() + lane.share.offset(lane.received_chunks);
    const uint32_t chunk_bytes = lane.share.size(lane.received_chunks);
    const ssize_t size =
        recv(lane.file, chunk + lane.received_bytes, chunk_bytes - lane.received_bytes, 0);
    if (size < 0 && is_retryable(errno)) return {};
    if (size < 0) return server_failure("receive");
    if (size == 0) return failure("parameter server: it closed the connection");
    lane.received_bytes += static_cast<uint32_t>(size);
    if (lane.received_bytes < chunk_bytes) continue;
    lane.received_bytes = 0;
    lane.received_chunks++;
  }
  return {};
}

Result<void> PsClient::reduce(std::span<float> tensor) {
  const auto bytes = std::as_writable_bytes(tensor);
  for (Lane& lane : lanes_) {
    TRIB_ASSERT(bytes.size() == lane.share.tensor_bytes);
    lane.sent_chunks = lane.received_chunks = 0;
  }
  const auto is_done = [](const Lane& lane) { return lane.done(); };
  while (!std::all_of(lanes_.begin(), lanes_.end(), is_done)) {
    std::vector<pollfd> files;
    for (const Lane& lane : lanes_) {
      const short send_too = lane.may_send() ? POLLOUT : 0;
      files.push_back({lane.done() ? -1 : lane.file, static_cast<short>(POLLIN | send_too), 0});
    }
    if (poll(files.data(), files.size(), -1) < 0 && errno != EINTR) return server_failure("poll");
    for (size_t i = 0; i < lanes_.size(); i++) {
      if (files[i].revents == 0) continue;
      if (auto received = receive_some(lanes_[i], bytes); !received) return received;
      if (auto sent = send_some(lanes_[i], bytes); !sent) return sent;
    }
  }
  return {};
}

}  // namespace tributary::race
