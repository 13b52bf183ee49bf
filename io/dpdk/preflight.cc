// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "io/dpdk/buffer_counts.h"
#include "io/link_answers.h"

namespace tributary::io {
namespace {

/// Room that net_af_packet's ring takes in front of each frame. Source: TPACKET2_HDRLEN, rounded.
constexpr uint32_t kRingHeaderBytes = 96;
constexpr uint32_t kRingBlockBytes = 65'536;
constexpr uint32_t kRingFramesMax = 4096;
constexpr uint32_t kRingFramesMin = 64;
/// A socket's path has at most so many bytes. Source: sockaddr_un.
constexpr size_t kSocketPathMax = 107;

/// What Linux on x86 has unless told otherwise, and how many are asked for at least.
constexpr uint64_t kHugepageBytes = 2 << 20;
constexpr uint64_t kHugepagesMin = 1024;

uint32_t number_in(const std::string& text) {
  uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool uses_interface(const DpdkDeviceSpec& spec) {
  return spec.driver == "net_af_packet" || spec.driver == "net_af_xdp";
}

class Judge {
 public:
  Judge(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts)
      : spec_(spec), facts_(facts), mtu_(dpdk_mtu(spec, facts)) {}

  std::vector<DpdkComplaint> complaints() {
    if (spec_.is_pci()) judge_pci();
    if (uses_interface(spec_)) judge_interface();
    if (spec_.driver == "net_af_packet") judge_af_packet();
    if (spec_.driver == "net_af_xdp") judge_af_xdp();
    if (spec_.driver == "net_tap") judge_tap();
    if (spec_.driver == "net_memif") judge_memif();
    if (!dpdk_socket_path(spec_).empty()) judge_socket();
    judge_required_arguments();
    return std::move(complaints_);
  }

 private:
  void fatal(std::string cause, std::string mend) {
    complaints_.push_back({std::move(cause), std::move(mend), true});
  }
  void warn(std::string cause, std::string mend) {
    complaints_.push_back({std::move(cause), std::move(mend), false});
  }

  void judge_pci() {
    if (!facts_.pci_present) {
      return fatal(fmt::format("there is no PCI device {}", spec_.name),
                   "see which there are: dpdk-devbind.py --status-dev net");
    }
    const std::string& driver = facts_.pci_driver;
    const bool for_dpdk = driver == "vfio-pci" || driver == "uio_pci_generic" ||
                          driver == "igb_uio" || driver == "mlx5_core" || driver == "mlx4_core";
    if (!for_dpdk) {
      const std::string who = driver.empty() ? "no driver" : "the kernel's driver " + driver;
      const std::string interface =
          facts_.pci_interface.empty() ? "" : fmt::format(" (interface {})", facts_.pci_interface);
      return fatal(fmt::format("{} is bound to {}{}", spec_.name, who, interface),
                   fmt::format("modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {}; the "
                               "kernel then has it no more",
                               spec_.name));
    }
    if (driver != "vfio-pci") return;
    if (!facts_.may_use_vfio) {
      fatal("/dev/vfio/vfio may not be opened",
            "run as root, or: chown USER /dev/vfio/vfio /dev/vfio/*");
    }
    if (!facts_.has_iommu) {
      warn("there is no IOMMU: the card can write to all memory, and only root may use it",
           "boot with intel_iommu=on or amd_iommu=on; without one: echo 1 > "
           "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    }
  }

  void judge_interface() {
    const std::string interface = spec_.argument("iface");
    if (interface.empty()) return;
    if (!facts_.interface_mtu) {
      return fatal(fmt::format("there is no interface {}", interface),
                   "see which there are: ip link");
    }
    if (mtu_ > *facts_.interface_mtu) {
      fatal(fmt::format("mtu={} is more than {} has ({})", mtu_, interface, *facts_.interface_mtu),
            fmt::format("ip link set dev {} mtu {}", interface, mtu_));
    }
  }

  void judge_af_packet() {
    if (!facts_.may_open_raw_sockets) {
      fatal("net_af_packet needs CAP_NET_RAW",
            "run as root, or in a user namespace: unshare -rn; or: setcap cap_net_raw+ep "
            "$(command -v tributary)");
    }
    const std::string given = spec_.argument("framesz");
    const uint32_t needed = dpdk_frame_bytes(mtu_) + kRingHeaderBytes;
    if (!given.empty() && number_in(given) < needed) {
      fatal(fmt::format("framesz={} would lose frames of {} bytes in silence", given,
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
        "ring, which are cut off",
        "ethtool -K SENDER tx-udp-segmentation off");
  }

  void judge_af_xdp() {
    if (!facts_.may_configure_network) {
      fatal("net_af_xdp needs CAP_NET_ADMIN and CAP_BPF", "run as root");
    }
    if (facts_.interface_mtu && *facts_.interface_mtu > kAfXdpInterfaceMtuMax) {
      fatal(fmt::format("{} has an MTU of {}; XDP takes at most {}", spec_.argument("iface"),
                        *facts_.interface_mtu, kAfXdpInterfaceMtuMax),
            fmt::format("ip link set dev {} mtu {}, at both ends of a veth",
                        spec_.argument("iface"), kAfXdpInterfaceMtuMax));
    }
    if (mtu_ > kDpdkMtuAfXdp) {
      fatal(fmt::format("net_af_xdp loses frames of mtu={} in silence", mtu_),
            fmt::format("give mtu={} or less", kDpdkMtuAfXdp));
    }
  }

  void judge_tap() {
    if (!facts_.may_configure_network) {
      fatal("net_tap needs CAP_NET_ADMIN", "run as root, or in a user namespace: unshare -rn");
    }
    if (mtu_ > kDpdkMtuEthernet) {
      fatal(fmt::format("net_tap sends no frame of mtu={}", mtu_),
            fmt::format("give mtu={} or less", kDpdkMtuEthernet));
    }
  }

  void judge_memif() {
    const std::string given = spec_.argument("bsize");
    if (!given.empty() && number_in(given) < dpdk_frame_bytes(mtu_)) {
      fatal(fmt::format("bsize={} damages frames of {} bytes", given, dpdk_frame_bytes(mtu_)),
            fmt::format("leave bsize out, or give at least {}", dpdk_frame_bytes(mtu_)));
    }
    warn("net_memif may crash when its peer goes away", "use vhost and virtio_user instead");
  }

  void judge_socket() {
    const std::string path = dpdk_socket_path(spec_);
    if (path.size() > kSocketPathMax) {
      return fatal(fmt::format("the socket's path has {} bytes; allowed are {}", path.size(),
                               kSocketPathMax),
                   "choose a shorter one");
    }
    const bool makes = dpdk_makes_socket(spec_);
    switch (facts_.socket) {
      case SocketState::kNoDirectory:
        return fatal(fmt::format("the folder of {} is not there, or may not be written to", path),
                     fmt::format("mkdir -p \"$(dirname {})\"", path));
      case SocketState::kNoSocket:
        return fatal(fmt::format("{} is there and is no socket", path), "choose another path");
      case SocketState::kListening:
        if (makes) {
          fatal(fmt::format("another process serves {}", path),
                fmt::format("see which: ss -xlp | grep {}", path));
        }
        return;
      case SocketState::kStale:  // Of a killed process; the one that makes it removes it.
      case SocketState::kAbsent:
        if (!makes) {
          fatal(fmt::format("nobody serves {}", path),
                fmt::format(
                    "start the other end first, as in: tributary serve --port dpdk:{}{},ip=...",
                    spec_.driver == "net_memif" ? "memif,role=server,socket=" : "vhost,iface=",
                    path));
        }
    }
  }

  void judge_required_arguments() {
    const auto require = [this](std::string_view driver, const char* key, const char* example) {
      if (spec_.driver == driver && spec_.argument(key).empty()) {
        fatal(fmt::format("{} needs {}=", driver, key), fmt::format("add it, as in {}", example));
      }
    };
    require("net_vhost", "iface", "iface=/run/tributary/worker0.sock");
    require("net_virtio_user", "path", "path=/run/tributary/worker0.sock");
    require("net_af_packet", "iface", "iface=eth1");
    require("net_af_xdp", "iface", "iface=eth1");
  }

  /// Larger ones keep an XDP program from being attached to veth. Measured.
  static constexpr uint32_t kAfXdpInterfaceMtuMax = 3498;

  const DpdkDeviceSpec& spec_;
  const DpdkDeviceFacts& facts_;
  const uint32_t mtu_;
  std::vector<DpdkComplaint> complaints_;
};

}  // namespace

std::vector<DpdkComplaint> judge_dpdk_device(const DpdkDeviceSpec& spec,
                                             const DpdkDeviceFacts& facts) {
  return Judge(spec, facts).complaints();
}

namespace {

/// Queues that a device may have for so many cores; drivers that are told have no more.
uint32_t queues_at_most(const DpdkDeviceSpec& spec, uint32_t cores) {
  const char* key = nullptr;
  if (spec.driver == "net_vhost" || spec.driver == "net_virtio_user") key = "queues";
  if (spec.driver == "net_af_packet") key = "qpairs";
  if (key == nullptr) return cores;
  return std::min(cores, std::max(number_in(spec.argument(key)), 1U));
}

}  // namespace

uint64_t dpdk_memory_bytes(std::span<const DpdkDeviceSpec> devices, uint32_t cores) {
  uint64_t bytes = kEalMemoryBytes;
  uint32_t send_descriptors = 0;
  uint32_t frame_bytes_max = 0;
  for (const DpdkDeviceSpec& spec : devices) {
    const DpdkDeviceFacts facts = gather_dpdk_facts(spec);
    const uint32_t queues = queues_at_most(spec, cores);
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

HugepageJudgement judge_dpdk_hugepages(std::span<const DpdkDeviceSpec> devices, HugepageUse wanted,
                                       const DpdkDeviceFacts& machine, uint64_t bytes_needed) {
  if (wanted == HugepageUse::kOff) return {};
  if (machine.hugepage_bytes_free >= bytes_needed) return {.use = true, .complaint = {}};
  const uint64_t pages = std::max(kHugepagesMin, bytes_needed / kHugepageBytes + 1);
  DpdkComplaint complaint{
      .cause = fmt::format("{} MB of hugepages are free and {} MB are needed",
                           machine.hugepage_bytes_free >> 20, (bytes_needed >> 20) + 1),
      .mend = fmt::format("sysctl -w vm.nr_hugepages={}", pages)};
  const bool physical =
      !machine.has_iommu &&
      std::any_of(devices.begin(), devices.end(), [](const auto& spec) { return spec.is_pci(); });
  if (wanted == HugepageUse::kOn) {
    complaint.cause += ", which hugepages=on insists on";
  } else if (physical) {
    complaint.cause += ": without an IOMMU a card cannot do with ordinary memory";
  } else {
    complaint.cause += ": ordinary memory is taken, with which small packets are 10 to 20 % slower";
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
  // net_af_xdp loses frames that leave less than some 200 bytes of a buffer, of which 128 are the
  // room that DPDK keeps in front (measured: 3600 in all pass frames of 3400, not of 3500).
  constexpr uint32_t kSpareBytes = 80;
  constexpr uint32_t kDefaultBytes = 2048;
  if (spec.driver == "net_af_packet") {  // Any buffer must hold a whole place of the ring.
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
    // A power of two is a multiple of 16 and divides the block, which the kernel wants.
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

std::string dpdk_socket_path(const DpdkDeviceSpec& spec) {
  if (spec.driver == "net_vhost") return spec.argument("iface");
  if (spec.driver == "net_virtio_user") return spec.argument("path");
  if (spec.driver == "net_memif") return spec.argument("socket");
  return "";
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
