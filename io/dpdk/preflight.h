// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks a DPDK device for faults that would stop or slow it, before DPDK starts. DPDK's own
/// messages name neither cause nor remedy. `tributary doctor` and every start use the same checks.
///
/// Model:   One function gathers facts and another checks them, so that tests can check invented
///          machines. Each known driver fault has a check: frames lost without an error, buffer
///          sizes that corrupt frames, sockets left by a killed process.
/// Units:   Bytes.
/// Threads: One, at the start.
/// Errors:  None; an unreadable fact is absent.
/// Tests:   tests/io/dpdk/preflight_test.cc
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/dpdk/port_spec.h"

namespace tributary::io {

/// The state of the path of a vhost-user or memif socket.
enum class SocketState : uint8_t {
  kAbsent,
  kStale,         ///< A socket file without a listener.
  kListening,     ///< A socket with a listener.
  kNoSocket,      ///< Another kind of file.
  kNoDirectory,   ///< The folder does not exist.
  kNotPermitted,  ///< This user may not write to the folder.
};

struct DpdkDeviceFacts {
  // Facts about the machine.
  uint64_t hugepage_bytes_free = 0;                ///< In pages of all sizes.
  std::optional<uint64_t> memory_bytes_available;  ///< Ordinary memory, without swapping.
  std::vector<uint32_t> core_numa_nodes;  ///< Nodes of the cores this process may use, each once.
  std::optional<uint64_t> memlock_bytes;  ///< RLIMIT_MEMLOCK; absent if unlimited.
  bool may_lock_memory = false;           ///< CAP_IPC_LOCK.
  bool may_open_raw_sockets = false;      ///< CAP_NET_RAW.
  bool may_configure_network = false;     ///< CAP_NET_ADMIN.
  bool has_iommu = false;
  bool may_use_vfio = false;  ///< /dev/vfio/vfio can be opened.

  // Facts about a PCI device.
  bool pci_present = false;
  std::optional<uint32_t> pci_class;      ///< Class, subclass and interface, a byte each.
  std::optional<uint32_t> pci_numa_node;  ///< Absent on a machine with one node.
  std::string pci_driver;                 ///< "ixgbe"; empty for none.
  std::string pci_interface;              ///< "eth0" while the kernel has the card; else empty.

  // Facts about a kernel interface that a virtual driver will use.
  std::optional<uint32_t> interface_mtu;     ///< Absent if the interface does not exist.
  std::optional<uint32_t> interface_queues;  ///< Combined queues; absent likewise.

  SocketState socket = SocketState::kAbsent;
};

/// Gathers the facts. Reads files of /sys and /dev below `root`, which is "/" except in tests.
[[nodiscard]] DpdkDeviceFacts gather_dpdk_facts(const DpdkDeviceSpec& spec,
                                                const std::filesystem::path& root = "/");

struct DpdkComplaint {
  std::string cause;
  std::string remedy;    ///< The command or step that fixes it.
  bool is_fatal = true;  ///< False if the device works, but slower or with a risk.
};
/// Returns the complaints about a device with these facts.
[[nodiscard]] std::vector<DpdkComplaint> check_dpdk_device(const DpdkDeviceSpec& spec,
                                                           const DpdkDeviceFacts& facts);

/// Returns the most memory that a port with these devices needs. It grows with devices, cores and
/// the MTU.
[[nodiscard]] uint64_t dpdk_memory_bytes(std::span<const DpdkDeviceSpec> devices, uint32_t cores);

/// Whether a port uses hugepages, and any complaint about its memory.
struct HugepageDecision {
  bool use = false;
  std::optional<DpdkComplaint> complaint;
};
/// Decides before the start whether hugepages suffice. DPDK starts only once per process, so it
/// could not change to ordinary memory if the pages ran out later.
/// @param bytes_needed The result of dpdk_memory_bytes().
[[nodiscard]] HugepageDecision decide_dpdk_hugepages(std::span<const DpdkDeviceSpec> devices,
                                                     HugepageUse wanted,
                                                     const DpdkDeviceFacts& machine,
                                                     uint64_t bytes_needed);

/// Returns the MTU of this device: the given one, else the interface's, else the driver's default.
[[nodiscard]] uint32_t dpdk_mtu(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts);

/// Returns the bytes of the largest frame of a device with this MTU.
[[nodiscard]] constexpr uint32_t dpdk_frame_bytes(uint32_t mtu) { return mtu + 14; }

/// Returns the bytes of a receive buffer: a frame and some spare, or what the driver requires.
[[nodiscard]] uint32_t dpdk_buffer_bytes(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts);

/// Returns the most queues that a device may have for `cores` cores. A driver that takes a queue
/// count as an argument has no more queues than that.
[[nodiscard]] uint32_t dpdk_queues_max(const DpdkDeviceSpec& spec, uint32_t cores);

/// Returns the receive buffers that a queue with this many descriptors holds.
[[nodiscard]] uint32_t dpdk_queue_buffers(const DpdkDeviceSpec& spec, uint32_t descriptors);

/// Returns the driver's arguments. Where the user has not chosen, it adds arguments that keep the
/// driver from losing or damaging frames: ring sizes of net_af_packet, buffer sizes of net_memif.
[[nodiscard]] std::string dpdk_arguments(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts);

/// Returns true if this end creates the socket and the other end connects to it.
[[nodiscard]] bool dpdk_makes_socket(const DpdkDeviceSpec& spec);

}  // namespace tributary::io
