// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/dpdk_device.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/errno_text.h"
#include "io/dpdk/buffer_counts.h"
#include "io/dpdk/eal.h"
#include "io/dpdk/flow_steering.h"
#include "io/dpdk/preflight.h"
#include "io/dpdk/rss_key.h"

namespace tributary::io {
namespace {

/// Returns true if the driver's peer is a program on this machine, so that the bytes cross no wire.
bool stays_in_memory(const std::string& driver) {
  return driver == "net_vhost" || driver == "net_virtio_user" || driver == "net_memif" ||
         driver == "net_ring" || driver == "net_null";
}

/// Returns true if the driver's peer may be the Linux kernel, which leaves checksums to a network
/// card that does not exist.
bool is_kernel_interface(const std::string& driver) {
  return driver == "net_af_packet" || driver == "net_af_xdp" || driver == "net_tap" ||
         driver == "net_pcap";
}

std::string error_text(int status) {
  const std::string complaint = take_dpdk_complaint();
  return complaint.empty() ? std::string(rte_strerror(status)) : complaint;
}

tl::unexpected<Error> device_failure(const std::string& name, const std::string& what, int status) {
  return failure(fmt::format("{}: {}: {}", name, what, error_text(status)), errno_kind(status));
}

/// Returns the hashes by which a card shares frames, if it has them.
uint64_t hashes_of(std::optional<Steering> wire) {
  if (!wire) return RTE_ETH_RSS_UDP;
  const uint64_t all = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
  return *wire == Steering::kByFlow ? all : all | RTE_ETH_RSS_L3_DST_ONLY;
}

/// Tells whether a card with these hashes shares frames as wanted.
bool shares_as(Steering wanted, uint64_t hashes) {
  return (hashes & RTE_ETH_RSS_IP) != 0 &&
         (wanted == Steering::kByFlow || (hashes & RTE_ETH_RSS_L3_DST_ONLY) != 0);
}

}  // namespace

Result<MbufPool> MbufPool::create(uint32_t count, uint32_t buffer_bytes, int numa_node) {
  static std::atomic<uint32_t> number{0};
  const std::string name = fmt::format("tributary_{}", number.fetch_add(1));
  MbufPool pool;
  // Relaxed tail synchronisation, because a thread may be preempted while it holds the ring.
  pool.pool_ = rte_pktmbuf_pool_create_by_ops(
      name.c_str(), count, kCacheBuffers, 0,
      static_cast<uint16_t>(std::min<uint32_t>(buffer_bytes + RTE_PKTMBUF_HEADROOM, UINT16_MAX)),
      numa_node < 0 ? SOCKET_ID_ANY : numa_node, "ring_mt_rts");
  if (pool.pool_ == nullptr) {
    return failure(
        fmt::format("cannot allocate {} packet buffers of {} bytes ({}); give fewer with "
                    "mbufs=, or more memory: sysctl -w vm.nr_hugepages=1024",
                    count, buffer_bytes, error_text(rte_errno)),
        errno_kind(rte_errno));
  }
  return pool;
}

MbufPool::MbufPool(MbufPool&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}

MbufPool& MbufPool::operator=(MbufPool&& other) noexcept {
  std::swap(pool_, other.pool_);
  return *this;
}

MbufPool::~MbufPool() { rte_mempool_free(pool_); }

Result<std::unique_ptr<DpdkDevice>> DpdkDevice::open(const DpdkDeviceSpec& spec,
                                                     uint32_t queues_wanted,
                                                     std::optional<Steering> wire) {
  const DpdkDeviceFacts facts = gather_dpdk_facts(spec);
  std::unique_ptr<DpdkDevice> device(new DpdkDevice());
  for (const DpdkComplaint& complaint : check_dpdk_device(spec, facts)) {
    std::string line = fmt::format("{}; to fix: {}", complaint.cause, complaint.remedy);
    if (complaint.is_fatal) return failure(fmt::format("{}: {}", spec.name, line));
    device->warnings_.push_back(fmt::format("{}: {}", spec.name, line));
  }
  device->mtu_ = dpdk_mtu(spec, facts);
  device->name_ = spec.name;
  device->is_pci_ = spec.is_pci();
  device->reclaims_early_ = spec.driver == "net_virtio_user";
  device->is_shared_memory_ = stays_in_memory(spec.driver);
  device->trusts_udp_checksum_ = is_kernel_interface(spec.driver);
  if (dpdk_makes_socket(spec) && facts.socket == SocketState::kStale) {
    ::unlink(dpdk_socket_path(spec).c_str());
  }
  auto done = device->probe(spec, dpdk_arguments(spec, facts));
  if (done) done = device->configure(queues_wanted, dpdk_queues_max(spec, queues_wanted), wire);
  if (done) done = device->make_buffers(spec, dpdk_buffer_bytes(spec, facts), queues_wanted);
  if (done) done = device->set_up_queues();
  if (done) done = device->start(wire.has_value());
  if (!done) return tl::unexpected(done.error());
  return device;
}

void DpdkDevice::add_warnings_to(std::vector<std::string>& all) const {
  for (const std::string& warning : warnings_) {
    if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
  }
}

void DpdkDevice::steer_blocks(uint16_t udp_port, bool ipv4) {
  steering_ = io::steer_blocks(port_id_, udp_port, ipv4, rx_queues_);
  static_cast<void>(take_dpdk_complaint());  // A driver without rte_flow logs that it has none.
}

Result<void> DpdkDevice::probe(const DpdkDeviceSpec& spec, const std::string& arguments) {
  static_cast<void>(take_dpdk_complaint());
  if (rte_eth_dev_get_port_by_name(name_.c_str(), &port_id_) == 0) {
    attached_ = true;
    return {};
  }
  if (is_pci_) {
    return failure(
        fmt::format("{}: DPDK has no driver for this card; see: dpdk-devbind.py "
                    "--status-dev net ({})",
                    name_, error_text(ENODEV)));
  }
  int status = rte_eal_hotplug_add("vdev", name_.c_str(), arguments.c_str());
  hotplugged_ = status == 0;
  if (hotplugged_ && rte_eth_dev_get_port_by_name(name_.c_str(), &port_id_) != 0) status = -ENODEV;
  if (status != 0) {
    return failure(
        fmt::format("{}: the driver refuses '{}': {}; to fix: see its keys in "
                    "https://doc.dpdk.org/guides-22.11/nics/",
                    name_, spec.text, error_text(-status)));
  }
  attached_ = true;
  return {};
}

Result<void> DpdkDevice::configure(uint32_t queues_wanted, uint32_t queues_max,
                                   std::optional<Steering> wire) {
  rte_eth_dev_info info{};
  if (const int status = rte_eth_dev_info_get(port_id_, &info); status != 0) {
    return device_failure(name_, "gives no information", -status);
  }
  rx_queues_ = std::min<uint32_t>(queues_max, info.max_rx_queues);
  tx_queues_ = std::min<uint32_t>(queues_max, info.max_tx_queues);
  numa_node_ = rte_eth_dev_socket_id(port_id_);
  rte_eth_conf wanted{};
  constexpr uint64_t kRx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
  // For real cards only: virtual devices compute checksums in software or leave them to their peer.
  if (is_pci_) {
    wanted.rxmode.offloads = info.rx_offload_capa & kRx;
    tx_checksum_ = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
    if (tx_checksum_) wanted.txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    wanted.rxmode.mtu = mtu_;
  }
  tx_segments_ = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  if (tx_segments_) wanted.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  const uint64_t hashes = hashes_of(wire) & info.flow_type_rss_offloads;
  if (wire && queues_wanted > 1 && (rx_queues_ < queues_wanted || !shares_as(*wire, hashes))) {
    return failure(
        fmt::format("{}: this device cannot share its frames among {} cores by {}; "
                    "to fix: --cores 1",
                    name_, queues_wanted, *wire == Steering::kByFlow ? "flow" : "IP destination"));
  }
  std::vector<uint8_t> key;
  if (rx_queues_ > 1 && hashes != 0) {
    wanted.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    wanted.rx_adv_conf.rss_conf.rss_hf = hashes;
    if (wire) {
      key = symmetric_rss_key(info.hash_key_size);
      wanted.rx_adv_conf.rss_conf.rss_key = key.data();
      wanted.rx_adv_conf.rss_conf.rss_key_len = static_cast<uint8_t>(key.size());
    }
  }
  if (is_pci_ && info.max_mtu != 0 && mtu_ > info.max_mtu) {
    return failure(fmt::format("{}: mtu={} is not allowed; this card takes up to {}", name_, mtu_,
                               info.max_mtu));
  }
  const int status = rte_eth_dev_configure(port_id_, static_cast<uint16_t>(rx_queues_),
                                           static_cast<uint16_t>(tx_queues_), &wanted);
  if (status != 0) return device_failure(name_, "cannot be configured", -status);
  uint16_t rx = kDescriptors;
  uint16_t tx = kDescriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx, &tx);
  rx_descriptors_ = rx;
  tx_descriptors_ = tx;
  if (tx_queues_ < queues_wanted) tx_locks_ = std::make_unique<std::mutex[]>(tx_queues_);
  return {};
}

Result<void> DpdkDevice::make_buffers(const DpdkDeviceSpec& spec, uint32_t buffer_bytes,
                                      uint32_t queues_wanted) {
  const uint32_t needed =
      receive_buffers(dpdk_queue_buffers(spec, rx_descriptors_), rx_queues_, queues_wanted);
  if (spec.mbufs != 0 && spec.mbufs < needed) {
    return failure(
        fmt::format("{}: mbufs={} is too few; {} queues and {} cores need {}; to fix: leave mbufs "
                    "out, or give mbufs={}",
                    name_, spec.mbufs, rx_queues_, queues_wanted, needed, needed));
  }
  auto pool = MbufPool::create(spec.mbufs != 0 ? spec.mbufs : needed, buffer_bytes, numa_node_);
  if (!pool) return failure_in(name_ + ": ", pool.error());
  rx_pool_ = std::move(*pool);
  return {};
}

Result<void> DpdkDevice::set_up_queues() {
  rte_eth_dev_info info{};
  rte_eth_dev_info_get(port_id_, &info);  // configure() has checked that this call succeeds.
  const auto node = static_cast<unsigned>(numa_node_ < 0 ? 0 : numa_node_);
  for (uint32_t i = 0; i < rx_queues_; i++) {
    const int status = rte_eth_rx_queue_setup(port_id_, static_cast<uint16_t>(i),
                                              static_cast<uint16_t>(rx_descriptors_), node, nullptr,
                                              rx_pool_.get());
    if (status != 0) return device_failure(name_, "has no such receive queue", -status);
  }
  for (uint32_t i = 0; i < tx_queues_; i++) {
    const int status = rte_eth_tx_queue_setup(
        port_id_, static_cast<uint16_t>(i), static_cast<uint16_t>(tx_descriptors_), node, nullptr);
    if (status != 0) return device_failure(name_, "has no such transmit queue", -status);
  }
  return {};
}

Result<void> DpdkDevice::start(bool takes_all) {
  if (const int status = rte_eth_dev_start(port_id_); status != 0) {
    return device_failure(name_, "does not start", -status);
  }
  if (takes_all) {
    const int status = rte_eth_promiscuous_enable(port_id_);
    if (status != 0 && is_pci_) return device_failure(name_, "has no promiscuous mode", -status);
    static_cast<void>(take_dpdk_complaint());  // Most virtual devices have no filter to turn off.
  }
  rte_ether_addr address{};
  if (rte_eth_macaddr_get(port_id_, &address) == 0) {
    std::memcpy(mac_.data(), address.addr_bytes, mac_.size());
  }
  return {};
}

rte_mbuf* DpdkDevice::in_one_buffer(rte_mbuf* frame, uint32_t headroom_bytes) const {
  if (frame->nb_segs == 1 && rte_pktmbuf_headroom(frame) >= headroom_bytes) return frame;
  // Copied instead of joined, because other frames may share its segments.
  rte_mbuf* const whole = rte_pktmbuf_copy(frame, rx_pool_.get(), 0, UINT32_MAX);
  rte_pktmbuf_free(frame);
  return whole;
}

uint64_t DpdkDevice::missed() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(port_id_, &stats) == 0 ? stats.imissed + stats.rx_nombuf : 0;
}

void DpdkDevice::listen_to(const std::vector<MacAddress>& groups) {
  std::vector<rte_ether_addr> addresses(groups.size());
  for (size_t i = 0; i < groups.size(); i++) {
    std::memcpy(addresses[i].addr_bytes, groups[i].data(), groups[i].size());
  }
  // A driver without a filter receives all groups anyway, or does so after this call.
  if (rte_eth_dev_set_mc_addr_list(port_id_, addresses.data(),
                                   static_cast<uint32_t>(addresses.size())) != 0) {
    rte_eth_allmulticast_enable(port_id_);
  }
  static_cast<void>(take_dpdk_complaint());
}

DpdkDevice::~DpdkDevice() {
  if (attached_) {
    rte_eth_dev_stop(port_id_);
    rte_eth_dev_close(port_id_);
  }
  // rte_eth_dev_close() leaves the virtual device on its bus.
  if (hotplugged_) rte_eal_hotplug_remove("vdev", name_.c_str());
  static_cast<void>(take_dpdk_complaint());
}

}  // namespace tributary::io
