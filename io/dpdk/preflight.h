// SPDX-License-Identifier: Apache-2.0
/// @file
/// What would stop or slow a DPDK device, found before DPDK is asked: its own messages name neither
/// the cause nor the cure. `tributary doctor` and every start go through the same checks.
///
/// Model:   Facts are read in one function and judged in another, so that the judgement can be
///          tested with machines that nobody has. Each trap of the drivers is a check here: frames
///          that vanish in silence, sizes that corrupt, sockets left by a killed process.
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

/// What stands at the path of a vhost-user or memif socket.
enum class SocketState : uint8_t {
  kAbsent,
  kStale,         ///< A socket file that nobody listens to any more.
  kListening,     ///< Somebody does.
  kNoSocket,      ///< Another kind of file.
  kNoDirectory,   ///< Its folder does not exist.
  kNotPermitted,  ///< Its folder may not be written to.
};

struct DpdkDeviceFacts {
  // Of the machine.
  uint64_t hugepage_bytes_free = 0;                ///< In pages of all sizes.
  std::optional<uint64_t> memory_bytes_available;  ///< Of the ordinary kind, without swapping.
  std::vector<uint32_t> core_numa_nodes;  ///< Of the cores this process may use, each node once.
  std::optional<uint64_t> memlock_bytes;  ///< RLIMIT_MEMLOCK; absent without a limit.
  bool may_lock_memory = false;           ///< CAP_IPC_LOCK.
  bool may_open_raw_sockets = false;      ///< CAP_NET_RAW.
  bool may_configure_network = false;     ///< CAP_NET_ADMIN.
  bool has_iommu = false;
  bool may_use_vfio = false;  ///< /dev/vfio/vfio can be opened.

  // Of a PCI device.
  bool pci_present = false;
  std::optional<uint32_t> pci_class;      ///< Class, subclass and interface, a byte each.
  std::optional<uint32_t> pci_numa_node;  ///< Absent on a machine with one node.
  std::string pci_driver;                 ///< "ixgbe"; empty for none.
  std::string pci_interface;              ///< "eth0", while the kernel has it; empty for none.

  // Of a kernel interface that a virtual driver is to use.
  std::optional<uint32_t> interface_mtu;     ///< Absent: there is no such interface.
  std::optional<uint32_t> interface_queues;  ///< Combined ones; absent: there is no such interface.

  SocketState socket = SocketState::kAbsent;
};

/// Files of /sys and /dev are read below `root` ("/" but for tests).
[[nodiscard]] DpdkDeviceFacts gather_dpdk_facts(const DpdkDeviceSpec& spec,
                                                const std::filesystem::path& root = "/");

struct DpdkComplaint {
  std::string cause;
  std::string mend;      ///< The command or step that mends it.
  bool is_fatal = true;  ///< Else it works, but slower or with a risk.
};
[[nodiscard]] std::vector<DpdkComplaint> judge_dpdk_device(const DpdkDeviceSpec& spec,
                                                           const DpdkDeviceFacts& facts);

/// Memory of a port with these devices, at most: it grows with devices, cores and the MTU.
[[nodiscard]] uint64_t dpdk_memory_bytes(std::span<const DpdkDeviceSpec> devices, uint32_t cores);

/// Whether a port takes hugepages, and what is to be said about its memory.
struct HugepageJudgement {
  bool use = false;
  std::optional<DpdkComplaint> complaint;
};
/// @param bytes_needed As dpdk_memory_bytes(): DPDK can be started once in a process, so pages that
///        run out halfway could not be given up for ordinary memory any more.
[[nodiscard]] HugepageJudgement judge_dpdk_hugepages(std::span<const DpdkDeviceSpec> devices,
                                                     HugepageUse wanted,
                                                     const DpdkDeviceFacts& machine,
                                                     uint64_t bytes_needed);

/// The MTU of this device: what was written, else the interface's, else what suits the driver.
[[nodiscard]] uint32_t dpdk_mtu(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts);

/// Bytes of the largest frame that a device with this MTU carries.
[[nodiscard]] constexpr uint32_t dpdk_frame_bytes(uint32_t mtu) { return mtu + 14; }

/// Bytes that a receive buffer holds: a frame with some spare, or what the driver insists on.
[[nodiscard]] uint32_t dpdk_buffer_bytes(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts);

/// Queues that a device may have at most for so many cores; drivers that are told have no more.
[[nodiscard]] uint32_t dpdk_queues_max(const DpdkDeviceSpec& spec, uint32_t cores);

/// Receive buffers that a queue with so many descriptors holds.
[[nodiscard]] uint32_t dpdk_queue_buffers(const DpdkDeviceSpec& spec, uint32_t descriptors);

/// The driver's arguments, with what keeps it from losing or damaging frames added where the user
/// has not chosen: ring sizes of net_af_packet, buffer sizes of net_memif.
[[nodiscard]] std::string dpdk_arguments(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts);

/// True where this end makes the socket and the other end connects to it.
[[nodiscard]] bool dpdk_makes_socket(const DpdkDeviceSpec& spec);

}  // namespace tributary::io
