// SPDX-License-Identifier: Apache-2.0
/// @file
/// One DPDK device, from its specification to a started card: buffers, queues, MTU, offloads, and
/// how a card with several queues shares its frames.
///
/// Model:   Receive buffers are on the card's NUMA node and hold a whole frame. open() sets the MTU
///          of a network card. Virtual drivers refuse an MTU, but carry large frames without it.
/// Units:   Bytes.
/// Threads: No queue may be in use during open() and the destructor.
/// Errors:  One line: the device, the cause, and the command to fix it.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/dpdk/port_spec.h"
#include "io/dpdk/steering_rules.h"
#include "io/frames/udp_frame.h"
#include "io/inline/steering.h"

struct rte_mbuf;
struct rte_mempool;

namespace tributary::io {

/// A pool of packet buffers of one size; the destructor frees the buffers.
class MbufPool {
 public:
  MbufPool() = default;
  /// Creates a pool of `count` buffers that hold `buffer_bytes` each.
  static Result<MbufPool> create(uint32_t count, uint32_t buffer_bytes, int numa_node);
  MbufPool(MbufPool&& other) noexcept;
  MbufPool& operator=(MbufPool&& other) noexcept;
  MbufPool(const MbufPool&) = delete;
  MbufPool& operator=(const MbufPool&) = delete;
  ~MbufPool();

  [[nodiscard]] rte_mempool* get() const { return pool_; }

 private:
  rte_mempool* pool_ = nullptr;
};

class DpdkDevice {
 public:
  /// Opens and starts the device.
  /// @param queues_wanted One queue per core. An end of a wire has all of them or is refused; any
  ///                      other device may have fewer.
  /// @param wire          Given for an end of a wire: the device takes all frames, and its card
  ///                      shares them among the queues (RSS) as the value says.
  static Result<std::unique_ptr<DpdkDevice>> open(const DpdkDeviceSpec& spec,
                                                  uint32_t queues_wanted,
                                                  std::optional<Steering> wire = {});
  ~DpdkDevice();
  DpdkDevice(const DpdkDevice&) = delete;
  DpdkDevice& operator=(const DpdkDevice&) = delete;

  [[nodiscard]] uint16_t port_id() const { return port_id_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] uint32_t rx_queues() const { return rx_queues_; }
  [[nodiscard]] uint32_t tx_queues() const { return tx_queues_; }
  [[nodiscard]] uint32_t tx_descriptors() const { return tx_descriptors_; }
  [[nodiscard]] uint32_t mtu() const { return mtu_; }
  [[nodiscard]] const MacAddress& mac() const { return mac_; }
  [[nodiscard]] int numa_node() const { return numa_node_; }
  /// Returns true if the card completes UDP checksums.
  [[nodiscard]] bool tx_checksum() const { return tx_checksum_; }
  /// Returns true if a frame may consist of several buffers: its own header and a shared payload.
  [[nodiscard]] bool tx_segments() const { return tx_segments_; }
  /// Returns true if the bytes never leave this machine's memory, so that they need no checksum.
  [[nodiscard]] bool is_shared_memory() const { return is_shared_memory_; }
  /// Returns true if the peer leaves UDP checksums incomplete.
  [[nodiscard]] bool trusts_udp_checksum() const { return trusts_udp_checksum_; }
  /// Returns how the card steers the packets of a block to one queue. With BlockSteering::kNone the
  /// engine's cores hand packets over.
  [[nodiscard]] BlockSteering steering() const { return steering_; }
  /// Asks the card to steer; see steering().
  void steer_blocks(uint16_t udp_port, bool ipv4);
  /// Adds the device's warnings to `all`, each once.
  void add_warnings_to(std::vector<std::string>& all) const;

  /// Returns true if cores share transmit queues; tx_lock() then guards each queue.
  [[nodiscard]] bool shares_tx_queues() const { return tx_locks_ != nullptr; }
  [[nodiscard]] std::mutex& tx_lock(uint32_t queue) { return tx_locks_[queue]; }

  /// Returns a received frame in one buffer, behind this much room at least. If no buffer is left
  /// for that, frees it and returns null.
  [[nodiscard]] rte_mbuf* in_one_buffer(rte_mbuf* frame, uint32_t headroom_bytes = 0) const;

  /// Returns the frames that the device has dropped before anybody could receive them. Any thread.
  [[nodiscard]] uint64_t missed() const;

  /// Makes the card receive frames to further MAC addresses, those of multicast groups.
  void listen_to(const std::vector<MacAddress>& groups);

 private:
  DpdkDevice() = default;
  Result<void> probe(const DpdkDeviceSpec& spec, const std::string& arguments);
  /// @param queues_max Upper limit for the device's queues, whatever the device offers.
  Result<void> configure(uint32_t queues_wanted, uint32_t queues_max, std::optional<Steering> wire);
  Result<void> make_buffers(const DpdkDeviceSpec& spec, uint32_t buffer_bytes,
                            uint32_t queues_wanted);
  Result<void> set_up_queues();
  Result<void> start(bool takes_all);

  std::string name_;
  bool is_pci_ = false;
  bool hotplugged_ = false;  ///< True if this object added the device and must remove it.
  bool attached_ = false;    ///< True if port_id_ is valid.
  uint16_t port_id_ = 0;
  uint32_t rx_queues_ = 0;
  uint32_t tx_queues_ = 0;
  uint32_t rx_descriptors_ = 0;
  uint32_t tx_descriptors_ = 0;
  uint32_t mtu_ = 0;
  MacAddress mac_{};
  int numa_node_ = -1;
  bool tx_checksum_ = false;
  bool tx_segments_ = false;
  bool is_shared_memory_ = false;
  /// True to reclaim sent buffers after each burst, instead of when the ring is nearly full. The
  /// same few buffers then stay in the processor's cache.
  bool reclaims_early_ = false;
  bool trusts_udp_checksum_ = false;
  BlockSteering steering_ = BlockSteering::kNone;
  MbufPool rx_pool_;
  std::unique_ptr<std::mutex[]> tx_locks_;
  std::vector<std::string> warnings_;
};

}  // namespace tributary::io
