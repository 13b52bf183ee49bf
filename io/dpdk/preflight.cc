// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "io/dpdk/buffer_counts.h"
#include "io/frames/link_answers.h"

namespace tributary::io {
namespace {

/// Bytes that net_af_packet's ring uses in front of each frame. Source: TPACKET2_HDRLEN, rounded.
constexpr uint32_t kRingHeaderBytes = 96;
constexpr uint32_t kRingBlockBytes = 65'536;
constexpr uint32_t kRingFramesMax = 4096;
constexpr uint32_t kRingFramesMin = 64;
/// Largest length of a socket's path, in bytes. Source: sockaddr_un.
constexpr size_t kSocketPathMax = 107;

/// Default page size of Linux on x86, and the smallest number of pages that a message suggests.
constexpr uint64_t kHugepageBytes = 2 << 20;
constexpr uint64_t kHugepagesMin = 1024;

/// Source: DPDK 22.11, lib/vhost, VHOST_MAX_QUEUE_PAIRS. The other drivers allow at least as many.
constexpr uint32_t kQueuesMax = 128;
/// With more queues, net_tap overruns its stack: its message for secondary processes has room for 8
/// descriptors, one for each queue of each direction. Source: DPDK 22.11, rte_eth_tap.c,
/// tap_mp_req_on_rxtx(), and RTE_MP_MAX_FD_NUM.
constexpr uint32_t kTapQueuesMax = 4;
/// Class of a network controller of any kind: the first byte of three. Source: PCI Code and ID
/// Assignment Specification.
constexpr uint32_t kPciNetworkClass = 0x02'0000;

uint32_t number_in(const std::string& text) {
  uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool uses_interface(const DpdkDeviceSpec& spec) {
  return spec.driver == "net_af_packet" || spec.driver == "net_af_xdp";
}

/// Returns the driver's key for its number of queues, or null.
const char* queue_count_key(const std::string& driver) {
  if (driver == "net_vhost" || driver == "net_virtio_user") return "queues";
  if (driver == "net_af_packet") return "qpairs";
  if (driver == "net_af_xdp") return "queue_count";
  return nullptr;
}

class DeviceCheck {
 public:
  DeviceCheck(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts)
      : spec_(spec), facts_(facts), mtu_(dpdk_mtu(spec, facts)) {}

  std::vector<DpdkComplaint> complaints() {
    if (spec_.is_pci()) check_pci();
    if (uses_interface(spec_)) check_interface();
    if (spec_.driver == "net_af_packet") check_af_packet();
    if (spec_.driver == "net_af_xdp") check_af_xdp();
    if (spec_.driver == "net_tap") check_tap();
    if (spec_.driver == "net_pcap") check_pcap();
    if (spec_.driver == "net_memif") check_memif();
    if (!dpdk_socket_path(spec_).empty()) check_socket();
    check_required_arguments();
    check_queue_count();
    check_buffers();
    return std::move(complaints_);
  }

 private:
  void fatal(std::string cause, std::string remedy) {
    complaints_.push_back({std::move(cause), std::move(remedy), true});
  }
  void warn(std::string cause, std::string remedy) {
    complaints_.push_back({std::move(cause), std::move(remedy), false});
  }

  void check_pci() {
    if (!facts_.pci_present) {
      return fatal(fmt::format("there is no PCI device {}", spec_.name),
                   "list the devices: dpdk-devbind.py --status-dev net");
    }
    if (facts_.pci_class.value_or(kPciNetworkClass) >> 16 != kPciNetworkClass >> 16) {
      return fatal(fmt::format("{} is not a network card (PCI class {:#08x})", spec_.name,
                               *facts_.pci_class),
                   "list the devices: dpdk-devbind.py --status-dev net");
    }
    const std::string& driver = facts_.pci_driver;
    const bool for_dpdk = driver == "vfio-pci" || driver == "uio_pci_generic" ||
                          driver == "igb_uio" || driver == "mlx5_core" || driver == "mlx4_core";
    if (!for_dpdk) {
      const std::string who = driver.empty() ? "no driver" : "the kernel's driver " + driver;
      const std::string interface =
          facts_.pci_interface.empty() ? "" : fmt::format(" (interface {})", facts_.pci_interface);
      return fatal(fmt::format("{} is bound to {}{}", spec_.name, who, interface),
                   fmt::format("modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {}; this "
                               "takes the card from the kernel",
                               spec_.name));
    }
    check_numa();
    if (driver != "vfio-pci") return;
    if (!facts_.may_use_vfio) {
      fatal("this user may not open /dev/vfio/vfio",
            "run as root, or: chown USER /dev/vfio/vfio /dev/vfio/*");
    }
    if (!facts_.has_iommu) {
      warn("there is no IOMMU: the card can write to all memory, and only root may use it",
           "boot with intel_iommu=on or amd_iommu=on; without one: echo 1 > "
           "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    }
  }

  /// Packet buffers are on the card's node, so cores on other nodes reach them more slowly.
  void check_numa() {
    if (!facts_.pci_numa_node) return;
    const uint32_t node = *facts_.pci_numa_node;
    const auto& cores = facts_.core_numa_nodes;
    if (std::all_of(cores.begin(), cores.end(), [node](uint32_t of) { return of == node; })) return;
    warn(fmt::format("the card is on NUMA node {}, and this process may run on nodes {}", node,
                     fmt::join(cores, ", ")),
         fmt::format("taskset -c $(cat /sys/devices/system/node/node{}/cpulist) tributary ...",
                     node));
  }

  void check_interface() {
    const std::string interface = spec_.argument("iface");
    if (interface.empty()) return;
    if (!facts_.interface_mtu) {
      return fatal(fmt::format("there is no interface {}", interface),
                   "list the interfaces: ip link");
    }
    if (mtu_ > *facts_.interface_mtu) {
      fatal(
          fmt::format("mtu={} exceeds the MTU of {} ({})", mtu_, interface, *facts_.interface_mtu),
          fmt::format("ip link set dev {} mtu {}", interface, mtu_));
    }
  }

  void check_af_packet() {
    if (!facts_.may_open_raw_sockets) {
      fatal("net_af_packet needs CAP_NET_RAW",
            "run as root, or in a user namespace: unshare -rn; or: setcap cap_net_raw+ep "
            "$(command -v tributary)");
    }
    const std::string given = spec_.argument("framesz");
    const uint32_t needed = dpdk_frame_bytes(mtu_) + kRingHeaderBytes;
    if (!given.empty() && number_in(given) < needed) {
      fatal(fmt::format("framesz={} would silently lose frames of {} bytes", given,
                        dpdk_frame_bytes(mtu_)),
            fmt::format("leave framesz out, or give at least {}", needed));
    }
    DpdkDeviceSpec complete = spec_;
    complete.arguments = dpdk_arguments(spec_, facts_);
    const uint64_t queues = std::max(number_in(spec_.argument("qpairs")), 1U);
    const uint64_t ring_bytes = 2 * queues * number_in(complete.argument("framesz")) *
                                number_in(complete.argument("framecnt"));
    if (facts_.memlock_bytes && !facts_.may_lock_memory && ring_bytes > *facts_.memlock_bytes) {
      fatal(fmt::format("net_af_packet's rings need {} bytes of locked memory; the limit is {}",
                        ring_bytes, *facts_.memlock_bytes),
            fmt::format("ulimit -l {}, or a smaller framecnt=", ring_bytes / 1024 + 1));
    }
    warn(
        "a sender on this machine that uses UDP_SEGMENT over veth sends frames larger than the "
        "ring's slots; they are truncated",
        "ethtool -K SENDER tx-udp-segmentation off");
  }

  void check_af_xdp() {
    if (!facts_.may_configure_network) {
      fatal("net_af_xdp needs CAP_NET_ADMIN and CAP_BPF", "run as root");
    }
    if (facts_.interface_mtu && *facts_.interface_mtu > kAfXdpInterfaceMtuMax) {
      fatal(fmt::format("{} has an MTU of {}; XDP takes at most {}", spec_.argument("iface"),
                        *facts_.interface_mtu, kAfXdpInterfaceMtuMax),
            fmt::format("ip link set dev {} mtu {}, at both ends of a veth",
                        spec_.argument("iface"), kAfXdpInterfaceMtuMax));
    }
    const uint64_t queues_end = uint64_t{number_in(spec_.argument("start_queue"))} +
                                std::max(number_in(spec_.argument("queue_count")), 1U);
    if (facts_.interface_queues && queues_end > *facts_.interface_queues) {
      fatal(fmt::format("{} has no queue {}; it has {}", spec_.argument("iface"), queues_end - 1,
                        *facts_.interface_queues),
            fmt::format("ethtool -L {} combined {}, where its driver allows it; or smaller "
                        "start_queue= and queue_count=",
                        spec_.argument("iface"), queues_end));
    }
    if (mtu_ > kDpdkMtuAfXdp) {
      fatal(fmt::format("net_af_xdp silently loses frames of mtu={}", mtu_),
            fmt::format("give mtu={} or less", kDpdkMtuAfXdp));
    }
  }

  void check_tap() {
    if (!facts_.may_configure_network) {
      fatal("net_tap needs CAP_NET_ADMIN", "run as root, or in a user namespace: unshare -rn");
    }
    if (mtu_ > kDpdkMtuEthernet) {
      fatal(fmt::format("net_tap cannot send frames of mtu={}", mtu_),
            fmt::format("give mtu={} or less", kDpdkMtuEthernet));
    }
  }

  void check_pcap() {
    const bool live = !spec_.argument("iface").empty() || !spec_.argument("rx_iface").empty();
    if (live && !facts_.may_open_raw_sockets) {
      fatal("net_pcap needs CAP_NET_RAW", "run as root, or in a user namespace: unshare -rn");
    }
  }

  void check_memif() {
    const std::string given = spec_.argument("bsize");
    if (!given.empty() && number_in(given) < dpdk_frame_bytes(mtu_)) {
      fatal(fmt::format("bsize={} damages frames of {} bytes", given, dpdk_frame_bytes(mtu_)),
            fmt::format("leave bsize out, or give at least {}", dpdk_frame_bytes(mtu_)));
    }
    warn("net_memif may crash when its peer goes away", "use vhost and virtio_user instead");
  }

  void check_socket() {
    const std::string path = dpdk_socket_path(spec_);
    if (path.size() > kSocketPathMax) {
      return fatal(fmt::format("the socket's path has {} bytes; at most {} are allowed",
                               path.size(), kSocketPathMax),
                   "choose a shorter path");
    }
    const bool makes = dpdk_makes_socket(spec_);
    switch (facts_.socket) {
      case SocketState::kNoDirectory:
        return fatal(fmt::format("the folder of {} does not exist", path),
                     fmt::format("mkdir -p \"$(dirname {})\"", path));
      case SocketState::kNotPermitted:
        return fatal(fmt::format("this user may not create or use {}", path),
                     "run as the folder's owner, or give a path in a folder of your own");
      case SocketState::kNoSocket:
        return fatal(fmt::format("{} exists but is not a socket", path), "choose another path");
      case SocketState::kListening:
        if (makes) {
          fatal(fmt::format("another process serves {}", path),
                fmt::format("see which: ss -xlp | grep {}", path));
        }
        return;
      case SocketState::kStale:  // Left by a killed process; the end that makes sockets removes it.
      case SocketState::kAbsent:
        if (!makes) {
          fatal(fmt::format("no process serves {}", path),
                fmt::format(
                    "start the other end first, as in: tributary serve --port dpdk:{}{},ip=...",
                    spec_.driver == "net_memif" ? "memif,role=server,socket=" : "vhost,iface=",
                    path));
        }
    }
  }

  void check_required_arguments() {
    const auto require = [this](std::string_view driver, const char* key, const char* example) {
      if (spec_.driver == driver && spec_.argument(key).empty()) {
        fatal(fmt::format("{} needs {}=", driver, key), fmt::format("add it, as in {}", example));
      }
    };
    require("net_vhost", "iface", "iface=/run/tributary/worker0.sock");
    require("net_virtio_user", "path", "path=/run/tributary/worker0.sock");
    require("net_memif", "socket", "socket=/run/tributary/memif0.sock");
    require("net_af_packet", "iface", "iface=eth1");
    require("net_af_xdp", "iface", "iface=eth1");
  }

  void check_queue_count() {
    const char* key = queue_count_key(spec_.driver);
    const std::string given = key == nullptr ? "" : spec_.argument(key);
    if (given.empty()) return;
    if (const uint32_t count = number_in(given); count == 0 || count > kQueuesMax) {
      fatal(fmt::format("{}={} is not allowed; allowed: a whole number from 1 to {}", key, given,
                        kQueuesMax),
            fmt::format("leave {} out, or give one queue for each core", key));
    }
  }

  /// Assumes one queue and one core. DpdkDevice checks the need of more once it knows their number.
  void check_buffers() {
    const uint32_t needed = receive_buffers(dpdk_queue_buffers(spec_, kDescriptors), 1, 1);
    if (spec_.mbufs == 0 || spec_.mbufs >= needed) return;
    fatal(fmt::format("mbufs={} is too few; one queue and one core need {}", spec_.mbufs, needed),
          fmt::format("leave mbufs out, or give mbufs={}", needed));
  }

  /// An XDP program cannot be attached to a veth with a larger MTU. Measured.
  static constexpr uint32_t kAfXdpInterfaceMtuMax = 3498;

  const DpdkDeviceSpec& spec_;
  const DpdkDeviceFacts& facts_;
  const uint32_t mtu_;
  std::vector<DpdkComplaint> complaints_;
};

}  // namespace

std::vector<DpdkComplaint> check_dpdk_device(const DpdkDeviceSpec& spec,
                                             const DpdkDeviceFacts& facts) {
  return DeviceCheck(spec, facts).complaints();
}

uint32_t dpdk_queues_max(const DpdkDeviceSpec& spec, uint32_t cores) {
  if (spec.driver == "net_tap") return std::min(cores, kTapQueuesMax);
  const char* key = queue_count_key(spec.driver);
  if (key == nullptr) return cores;
  return std::min(cores, std::max(number_in(spec.argument(key)), 1U));
}

uint64_t dpdk_memory_bytes(std::span<const DpdkDeviceSpec> devices, uint32_t cores) {
  uint64_t bytes = kEalMemoryBytes;
  uint32_t send_descriptors = 0;
  uint32_t frame_bytes_max = 0;
  for (const DpdkDeviceSpec& spec : devices) {
    const DpdkDeviceFacts facts = gather_dpdk_facts(spec);
    const uint32_t queues = dpdk_queues_max(spec, cores);
    const uint32_t buffers =
        spec.mbufs != 0 ? spec.mbufs
                        : receive_buffers(dpdk_queue_buffers(spec, kDescriptors), queues, cores);
    bytes += kDeviceMemoryBytes + kPoolMemoryBytes +
             buffers * buffer_memory_bytes(dpdk_buffer_bytes(spec, facts));
    send_descriptors += queues * kDescriptors;
    frame_bytes_max = std::max(frame_bytes_max, dpdk_frame_bytes(dpdk_mtu(spec, facts)));
  }
  const uint64_t both =
      buffer_memory_bytes(frame_bytes_max) + buffer_memory_bytes(kLinkFrameBytesMax);
  return bytes + 2 * kPoolMemoryBytes + send_buffers(send_descriptors, cores) * both;
}

namespace {

/// Complains if ordinary memory is short. Creating buffers touches all of them, so the kernel would
/// kill this or another process.
std::optional<DpdkComplaint> check_ordinary_memory(const DpdkDeviceFacts& machine,
                                                   uint64_t bytes_needed) {
  if (bytes_needed <= machine.memory_bytes_available.value_or(bytes_needed)) return std::nullopt;
  return DpdkComplaint{
      .cause = fmt::format("{} MB of memory are needed and {} MB are available",
                           (bytes_needed >> 20) + 1, *machine.memory_bytes_available >> 20),
      .remedy = "give a smaller mbufs=, a smaller mtu= or fewer --cores"};
}

}  // namespace

HugepageDecision decide_dpdk_hugepages(std::span<const DpdkDeviceSpec> devices, HugepageUse wanted,
                                       const DpdkDeviceFacts& machine, uint64_t bytes_needed) {
  const auto memory_complaint = check_ordinary_memory(machine, bytes_needed);
  if (wanted == HugepageUse::kOff) return {.use = false, .complaint = memory_complaint};
  if (machine.hugepage_bytes_free >= bytes_needed) return {.use = true, .complaint = {}};
  const uint64_t pages = std::max(kHugepagesMin, bytes_needed / kHugepageBytes + 1);
  DpdkComplaint complaint{
      .cause = fmt::format("{} MB of hugepages are free and {} MB are needed",
                           machine.hugepage_bytes_free >> 20, (bytes_needed >> 20) + 1),
      .remedy = fmt::format("sysctl -w vm.nr_hugepages={}", pages)};
  const bool physical =
      !machine.has_iommu &&
      std::any_of(devices.begin(), devices.end(), [](const auto& spec) { return spec.is_pci(); });
  if (wanted == HugepageUse::kOn) {
    complaint.cause += ", and hugepages=on requires them";
  } else if (physical) {
    complaint.cause += ": without an IOMMU a card cannot use ordinary memory";
  } else if (memory_complaint) {
    complaint = *memory_complaint;
  } else {
    complaint.cause += ": using ordinary memory, which makes small packets 10 to 20 % slower";
    complaint.is_fatal = false;
  }
  return {.use = false, .complaint = std::move(complaint)};
}

uint32_t dpdk_mtu(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts) {
  if (spec.mtu != 0) return spec.mtu;
  if (spec.is_pci() || spec.driver == "net_tap" || spec.driver == "net_pcap") {
    return kDpdkMtuEthernet;
  }
  if (!uses_interface(spec)) return kDpdkMtuMax;
  const uint32_t mtu =
      std::clamp(facts.interface_mtu.value_or(kDpdkMtuEthernet), kDpdkMtuMin, kDpdkMtuMax);
  return spec.driver == "net_af_xdp" ? std::min(mtu, kDpdkMtuAfXdp) : mtu;
}

uint32_t dpdk_buffer_bytes(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts) {
  // net_af_xdp loses a frame if fewer than about 200 bytes of the buffer remain. DPDK reserves 128
  // of them in front. Measured: buffers of 3600 bytes in all pass frames of 3400, but not of 3500.
  constexpr uint32_t kSpareBytes = 80;
  constexpr uint32_t kDefaultBytes = 2048;
  if (spec.driver == "net_af_packet") {  // Each buffer must hold a whole slot of the ring.
    DpdkDeviceSpec complete = spec;
    complete.arguments = dpdk_arguments(spec, facts);
    return number_in(complete.argument("framesz"));
  }
  return std::max(dpdk_frame_bytes(dpdk_mtu(spec, facts)) + kSpareBytes, kDefaultBytes);
}

uint32_t dpdk_queue_buffers(const DpdkDeviceSpec& spec, uint32_t descriptors) {
  return spec.driver == "net_af_xdp" ? std::max(descriptors, kAfXdpQueueBuffers) : descriptors;
}

std::string dpdk_arguments(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts) {
  std::string arguments = spec.arguments;
  const auto add = [&](const char* key, const std::string& value) {
    if (!spec.argument(key).empty()) return;
    arguments += fmt::format("{}{}={}", arguments.empty() ? "" : ",", key, value);
  };
  const uint32_t frame_bytes = dpdk_frame_bytes(dpdk_mtu(spec, facts));
  if (spec.driver == "net_af_packet") {
    // The kernel requires a multiple of 16 that divides the block; a power of two is both.
    uint32_t size = 2048;
    while (size < frame_bytes + kRingHeaderBytes) size *= 2;
    const uint64_t queues = std::max(number_in(spec.argument("qpairs")), 1U);
    uint64_t count = kRingFramesMax;
    if (facts.memlock_bytes && !facts.may_lock_memory) {
      count = std::min(count, *facts.memlock_bytes / (2 * queues * size));
    }
    const uint32_t per_block = kRingBlockBytes / size;
    count = std::max<uint64_t>(count / per_block * per_block, kRingFramesMin);
    add("framesz", std::to_string(size));
    add("blocksz", std::to_string(kRingBlockBytes));
    add("framecnt", std::to_string(count));
  }
  if (spec.driver == "net_memif") {
    add("role", "client");
    add("socket-abstract", "no");
    add("bsize", std::to_string((frame_bytes + 63) / 64 * 64));
    add("rsize", "10");
  }
  if (spec.driver == "net_vhost") add("queues", "1");
  if (spec.driver == "net_virtio_user") {
    add("queues", "1");
    add("queue_size", "256");
  }
  return arguments;
}

bool dpdk_makes_socket(const DpdkDeviceSpec& spec) {
  if (spec.driver == "net_vhost") return spec.argument("client") != "1";
  if (spec.driver == "net_memif") {
    const std::string role = spec.argument("role");
    return role == "server" || role == "master";
  }
  return spec.argument("server") == "1";
}

}  // namespace tributary::io
