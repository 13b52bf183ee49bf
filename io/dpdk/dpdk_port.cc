// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/dpdk_port.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "io/dpdk/buffer_counts.h"
#include "io/dpdk/dpdk_queue.h"
#include "io/dpdk/preflight.h"
#include "io/dpdk/start_dpdk.h"

namespace tributary::io {

bool has_dpdk() { return true; }

Result<OpenedDpdkPort> open_dpdk_port(const DpdkPortConfig& config) {
  auto port = DpdkPort::open(config);
  if (!port) return tl::unexpected(port.error());
  OpenedDpdkPort opened;
  opened.warnings = (*port)->warnings();
  opened.port = *std::move(port);
  return opened;
}

Result<std::unique_ptr<DpdkPort>> DpdkPort::open(const DpdkPortConfig& config) {
  TRIB_ASSERT(!config.spec.devices.empty() && config.udp_port != 0 && config.queue_count > 0);
  auto warnings = start_dpdk(config.spec.devices, config.spec.hugepages, config.queue_count);
  if (!warnings) return tl::unexpected(warnings.error());
  std::unique_ptr<DpdkPort> port(new DpdkPort());
  port->warnings_ = *std::move(warnings);
  port->link_.local = config.spec.address;
  port->link_.local.port = config.udp_port;
  port->link_.prefix_bits = config.spec.prefix_bits;
  port->link_.gateway = config.spec.gateway;
  port->link_.peer = config.peer;
  port->link_.lax_checksums = config.lax_checksums;
  auto done = port->open_devices(config);
  if (done) done = port->make_pools(config.queue_count);
  if (!done) return tl::unexpected(done.error());
  port->make_queues(config);
  return port;
}

Result<void> DpdkPort::open_devices(const DpdkPortConfig& config) {
  uint32_t mtu_min = kDpdkMtuMax;
  for (const DpdkDeviceSpec& spec : config.spec.devices) {
    auto device = DpdkDevice::open(spec, config.queue_count);
    if (!device) return tl::unexpected(device.error());
    DpdkDevice& opened = **device;
    if (config.queue_count > 1 && opened.rx_queues() == config.queue_count) {
      opened.steer_blocks(config.udp_port, link_.local.is_ipv4());
    }
    mtu_min = std::min(mtu_min, opened.mtu());
    frame_bytes_max_ = std::max(frame_bytes_max_, dpdk_frame_bytes(opened.mtu()));
    link_.devices.push_back(
        {.mac = opened.mac(), .trusts_udp_checksum = opened.trusts_udp_checksum()});
    opened.add_warnings_to(warnings_);
    devices_.push_back(*std::move(device));
  }
  agree_on_steering(config.queue_count);
  const uint32_t headers =
      (link_.local.is_ipv4() ? kUdpFrameHeaderBytesIpv4 : kUdpFrameHeaderBytesIpv6) -
      kEthernetHeaderBytes;
  payload_bytes_max_ = mtu_min - headers;
  listen_to_groups({});
  return {};
}

/// Announces UDP ports to senders only if all devices steer by them.
void DpdkPort::agree_on_steering(uint32_t queue_count) {
  const bool ports_exist = link_.local.port + queue_count - 1 <= UINT16_MAX;
  const bool by_port = ports_exist && std::ranges::all_of(devices_, [](const auto& device) {
                         return device->steering() == BlockSteering::kByPort;
                       });
  if (by_port) link_.udp_ports = queue_count;
  for (const auto& device : devices_) {
    if (queue_count == 1 || by_port || device->steering() == BlockSteering::kByBlock) continue;
    warnings_.push_back(fmt::format(
        "{}: has no rte_flow for blocks or UDP ports, or too few queues; {} cores hand packets "
        "over, which costs a copy; one core is enough until it is busy: --cores 1",
        device->name(), queue_count));
  }
}

Result<void> DpdkPort::make_pools(uint32_t queue_count) {
  uint32_t descriptors = 0;
  for (const auto& device : devices_) descriptors += device->tx_queues() * device->tx_descriptors();
  const uint32_t count = send_buffers(descriptors, queue_count);
  const int node = devices_.front()->numa_node();
  auto payloads = MbufPool::create(count, frame_bytes_max_, node);
  if (!payloads) return tl::unexpected(payloads.error());
  auto headers = MbufPool::create(count, kLinkFrameBytesMax, node);
  if (!headers) return tl::unexpected(headers.error());
  payloads_ = std::move(*payloads);
  headers_ = std::move(*headers);
  return {};
}

void DpdkPort::make_queues(const DpdkPortConfig& config) {
  std::vector<DpdkQueue::Config> queues(config.queue_count);
  uint32_t next = 0;
  for (uint32_t d = 0; d < devices_.size(); d++) {
    const uint32_t count = devices_[d]->rx_queues();
    // With one queue per core, steering needs queue i on core i. Fewer queues go to cores in turn.
    if (count == config.queue_count) next = 0;
    for (uint32_t q = 0; q < count; q++) {
      queues[next].sources.push_back({.device = d, .queue = q});
      next = (next + 1) % config.queue_count;
    }
  }
  for (uint32_t i = 0; i < config.queue_count; i++) {
    queues[i].transmitter = {.queue_index = i,
                             .payload_bytes_max = payload_bytes_max_,
                             .payloads = payloads_.get(),
                             .headers = headers_.get()};
    queues[i].frame_bytes_max = frame_bytes_max_;
    queues[i].poll = config.spec.poll;
    queues_.push_back(std::make_unique<DpdkQueue>(queues[i], link_, neighbours_, devices_));
  }
}

/// Opens each card's filter for the given groups. IPv6 neighbours ask for our address on a
/// multicast group, so the filter must pass that group too.
void DpdkPort::listen_to_groups(const std::vector<Endpoint>& groups) {
  for (const auto& device : devices_) {
    std::vector<MacAddress> macs;
    if (!link_.local.is_ipv4()) {
      macs.push_back(multicast_mac(solicited_node_group(link_.local)));
      macs.push_back(multicast_mac(solicited_node_group(link_local_address(device->mac()))));
    }
    for (const Endpoint& group : groups) macs.push_back(multicast_mac(group));
    if (!macs.empty()) device->listen_to(macs);
  }
}

Result<bool> DpdkPort::join_group(const Endpoint& group) {
  for (auto& queue : queues_) {
    const auto joined = queue->link().join(group, monotonic_now());
    if (!joined) return tl::unexpected(joined.error());
  }
  groups_.push_back(group);
  listen_to_groups(groups_);
  return true;
}

DpdkPort::~DpdkPort() {
  if (!groups_.empty()) queues_.front()->leave_groups();
}

uint64_t DpdkPort::mac() const {
  return link_.devices.size() == 1 ? number_of(link_.devices.front().mac) : 0;
}

void DpdkPort::pin_neighbour(const Endpoint& address, uint64_t mac) {
  io::pin_neighbour(neighbours_, link_, address, mac);
}

void DpdkPort::unpin_neighbour(const Endpoint& address) { neighbours_.unpin(address); }

uint32_t DpdkPort::queue_count() const { return static_cast<uint32_t>(queues_.size()); }

engine::PortQueue& DpdkPort::queue(uint32_t index) {
  TRIB_ASSERT(index < queues_.size());
  return *queues_[index];
}

}  // namespace tributary::io
