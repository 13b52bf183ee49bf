// SPDX-License-Identifier: Apache-2.0
#include "io/packet/packet_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "base/assert.h"
#include "base/clock.h"
#include "base/errno_text.h"
#include "io/packet/packet_queue.h"
#include "io/packet/packet_socket.h"
#include "io/udp/socket_address.h"

namespace tributary::io {
namespace {

/// Returns whether the kernel has this address on any interface.
bool kernel_has(const Endpoint& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress known{};
    std::memcpy(&known, at->ifa_addr, family == AF_INET ? sizeof known.v4 : sizeof known.v6);
    if (same_address(from_socket_address(known), address)) return true;
  }
  return false;
}

/// Returns whether the kernel forwards IPv4 packets that arrive on the interface.
bool kernel_forwards(const std::string& interface) {
  std::ifstream file("/proc/sys/net/ipv4/conf/" + interface + "/forwarding");
  int value = 0;
  return file >> value && value != 0;
}

}  // namespace

PacketPort::PacketPort() : neighbours_(kNeighboursMax) {}

PacketPort::~PacketPort() {
  if (in_groups_) queues_.front()->leave_groups();
}

Result<std::unique_ptr<PacketPort>> PacketPort::open(const PacketPortConfig& config) {
  TRIB_ASSERT(config.udp_port != 0 && config.queue_count > 0 && config.spec.address);
  std::unique_ptr<PacketPort> port(new PacketPort());
  port->link_.local = *config.spec.address;
  port->link_.local.port = config.udp_port;
  port->link_.prefix_bits = config.spec.prefix_bits;
  port->link_.gateway = config.spec.gateway;
  port->link_.peer = config.peer;
  port->link_.lax_checksums = config.lax_checksums;
  auto done = port->open_socket(config);
  if (done) done = port->read_interface(config);
  if (done) done = port->make_queues(config);
  if (!done) return failure_in(fmt::format("'{}': ", config.spec.text), done.error());
  return port;
}

Result<void> PacketPort::open_socket(const PacketPortConfig& config) {
  auto opened = open_packet_socket(config.receive_buffer_bytes);
  if (!opened) return tl::unexpected(opened.error());
  socket_ = std::move(opened->descriptor);
  receive_buffer_bytes_ = opened->receive_buffer_bytes;
  if (receive_buffer_bytes_ < config.receive_buffer_bytes) {
    warnings_.push_back(fmt::format(
        "the receive buffer of {} holds {} bytes, but {} were requested, so bursts may be lost; to "
        "fix: sysctl -w net.core.rmem_max={}",
        config.spec.interface, receive_buffer_bytes_, config.receive_buffer_bytes,
        config.receive_buffer_bytes));
  }
  return {};
}

Result<void> PacketPort::read_interface(const PacketPortConfig& config) {
  const std::string& name = config.spec.interface;
  const auto interface = read_ethernet_interface(socket_, name);
  if (!interface) return tl::unexpected(interface.error());
  interface_index_ = interface->index;
  FrameLinkConfig::Device device;
  device.mac = interface->mac;
  link_.devices.push_back(device);
  const uint32_t mtu_max = interface->mtu;
  mtu_ = config.spec.mtu == 0 ? std::min(mtu_max, kPacketMtuMax) : config.spec.mtu;
  if (mtu_ > mtu_max || mtu_ < kPacketMtuMin) {
    return failure(
        fmt::format("mtu={} is not allowed; allowed: {} to the MTU of {}, {}; to fix: "
                    "ip link set dev {} mtu {}",
                    mtu_, kPacketMtuMin, name, mtu_max, name, mtu_));
  }
  if (kernel_has(link_.local)) {
    return failure(
        "the kernel has this ip too, and would answer its packets with errors; allowed: a free "
        "address of the interface's network");
  }
  if (link_.local.is_ipv4() && kernel_forwards(name)) {
    const std::string ip = link_.local.host_text();
    warnings_.push_back(
        fmt::format("the kernel forwards IPv4 on {}, so it sends errors to the senders of packets "
                    "for {}; to fix: ip route add blackhole {}",
                    name, ip, ip));
  }
  payload_bytes_max_ =
      mtu_ - (link_.local.is_ipv4() ? kUdpFrameHeaderBytesIpv4 : kUdpFrameHeaderBytesIpv6) +
      kEthernetHeaderBytes;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = interface_index_;
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return system_failure(errno, name);
  }
  return {};
}

Result<void> PacketPort::make_queues(const PacketPortConfig& config) {
  for (uint32_t i = 0; i < config.queue_count; i++) {
    auto queue = PacketQueue::make({.socket = socket_.get(),
                                    .receives = i == 0,
                                    .mtu = mtu_,
                                    .payload_bytes_max = payload_bytes_max_},
                                   link_, neighbours_);
    if (!queue) return tl::unexpected(queue.error());
    queues_.push_back(*std::move(queue));
  }
  if (config.queue_count > 1) {
    warnings_.push_back(
        fmt::format("{}: one core receives, and {} cores hand packets over, which costs a copy; "
                    "one core is enough until it is busy: --cores 1",
                    config.spec.interface, config.queue_count));
  }
  if (link_.local.is_ipv4()) return {};
  // IPv6 neighbours ask for our address on a multicast group.
  const auto listening = listen_to(multicast_mac(solicited_node_group(link_.local)));
  if (!listening) return listening;
  return listen_to(multicast_mac(solicited_node_group(link_local_address(link_.devices[0].mac))));
}

/// Makes the interface receive frames to a multicast MAC address, until the socket closes.
Result<void> PacketPort::listen_to(const MacAddress& group) {
  packet_mreq request{};
  request.mr_ifindex = interface_index_;
  request.mr_type = PACKET_MR_MULTICAST;
  request.mr_alen = static_cast<uint16_t>(group.size());
  std::memcpy(request.mr_address, group.data(), group.size());
  if (set_socket_option(socket_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)) return {};
  return system_failure(errno, "cannot receive a multicast group");
}

Result<bool> PacketPort::join_group(const Endpoint& group) {
  for (auto& queue : queues_) {
    const auto joined = queue->link().join(group, monotonic_now());
    if (!joined) return tl::unexpected(joined.error());
  }
  in_groups_ = true;
  if (const auto listening = listen_to(multicast_mac(group)); !listening) {
    return tl::unexpected(listening.error());
  }
  return true;
}

uint64_t PacketPort::mac() const { return number_of(link_.devices.front().mac); }

void PacketPort::pin_neighbour(const Endpoint& address, uint64_t mac) {
  io::pin_neighbour(neighbours_, link_, address, mac);
}

void PacketPort::unpin_neighbour(const Endpoint& address) { neighbours_.unpin(address); }

uint32_t PacketPort::queue_count() const { return static_cast<uint32_t>(queues_.size()); }

engine::PortQueue& PacketPort::queue(uint32_t index) {
  TRIB_ASSERT(index < queues_.size());
  return *queues_[index];
}

}  // namespace tributary::io
