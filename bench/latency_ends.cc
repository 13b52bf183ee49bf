// SPDX-License-Identifier: Apache-2.0
#include "bench/latency_ends.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "io/dpdk/open_dpdk_port.h"
#include "io/udp/udp_port.h"

namespace tributary::bench {
namespace {

constexpr uint32_t kLoopback = 0x7f000001;

sockaddr_in loopback_at(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(kLoopback);
  address.sin_port = htons(port);
  return address;
}

Result<std::unique_ptr<engine::Port>> open_end(const std::string& text, uint16_t udp_port) {
  auto device = io::parse_dpdk_device(text);
  if (!device) return tl::unexpected(device.error());
  auto spec = io::join_dpdk_devices({*std::move(device)});
  if (!spec) return tl::unexpected(spec.error());
  auto opened = io::open_dpdk_port({.spec = *std::move(spec), .udp_port = udp_port});
  if (!opened) return tl::unexpected(opened.error());
  return std::move(opened->port);
}

}  // namespace

LoopbackSocket::LoopbackSocket()
    : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in address = loopback_at(0);
  socklen_t size = sizeof address;
  if (::bind(fd(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      ::getsockname(fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port_ = ntohs(address.sin_port);
  }
}

bool LoopbackSocket::connect(uint16_t port) const {
  const sockaddr_in address = loopback_at(port);
  return ::connect(fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

SocketLink::SocketLink(uint16_t server)
    : is_open_(server != 0 && socket_.port() != 0 && socket_.connect(server)),
      received_(io::kUdpPayloadBytesMax) {}

void SocketLink::send(std::span<const std::byte> bytes) const {
  ::send(socket_.fd(), bytes.data(), bytes.size(), 0);
}

std::span<const std::byte> SocketLink::receive() {
  const ssize_t size = ::recv(socket_.fd(), received_.data(), received_.size(), 0);
  return {received_.data(), size < 0 ? 0 : static_cast<size_t>(size)};
}

SocketEcho::~SocketEcho() {
  stopping_.store(true, std::memory_order_relaxed);  // Relaxed: no other data depends on it.
  thread_.join();
}

void SocketEcho::run() {
  std::vector<std::byte> bytes(io::kUdpPayloadBytesMax);
  while (!stopping_.load(std::memory_order_relaxed)) {
    sockaddr_in from{};
    socklen_t from_size = sizeof from;
    const ssize_t size = ::recvfrom(socket_.fd(), bytes.data(), bytes.size(), 0,
                                    reinterpret_cast<sockaddr*>(&from), &from_size);
    if (size < 0) continue;
    ::sendto(socket_.fd(), bytes.data(), static_cast<size_t>(size), 0,
             reinterpret_cast<const sockaddr*>(&from), from_size);
  }
}

void PortLink::send(std::span<const std::byte> bytes) {
  const engine::TxPacket packet{.data = bytes.data(),
                                .size = static_cast<uint32_t>(bytes.size()),
                                .destination = server_,
                                .layer = engine::PacketLayer::kUdpPayload};
  queue_.transmit({&packet, 1});
}

std::span<const std::byte> PortLink::receive() {
  std::array<engine::Packet, 1> burst;
  if (queue_.receive(burst) == 0) return {};
  return {burst[0].data, burst[0].size};
}

PortEcho::~PortEcho() {
  stopping_.store(true, std::memory_order_relaxed);  // Relaxed: no other data depends on it.
  thread_.join();
}

void PortEcho::run() {
  std::array<engine::Packet, engine::kBurstPackets> burst;
  std::array<engine::TxPacket, engine::kBurstPackets> back;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const uint32_t count = queue_.receive(burst);
    for (uint32_t i = 0; i < count; i++) {
      back[i] = {.data = burst[i].data,
                 .size = burst[i].size,
                 .destination = burst[i].source,
                 .layer = burst[i].layer};
    }
    if (count > 0) queue_.transmit({back.data(), count});
  }
}

Result<SharedMemoryWire> SharedMemoryWire::open() {
  static std::atomic<uint32_t> number{0};
  const auto path = std::filesystem::temp_directory_path() /
                    fmt::format("tributary_latency_{}_{}", ::getpid(), number.fetch_add(1));
  SharedMemoryWire wire;
  auto server = open_end(fmt::format("dpdk:vhost,iface={},ip=10.0.0.1/24", path.string()), 12000);
  if (!server) return tl::unexpected(server.error());
  wire.server = *std::move(server);
  auto worker =
      open_end(fmt::format("dpdk:virtio_user,path={},ip=10.0.0.2/24", path.string()), 12001);
  if (!worker) return tl::unexpected(worker.error());
  wire.worker = *std::move(worker);
  return wire;
}

}  // namespace tributary::bench
