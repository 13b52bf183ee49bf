// SPDX-License-Identifier: Apache-2.0
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "io/dpdk/preflight.h"
#include "io/file_descriptor.h"

namespace tributary::io {
namespace {

namespace fs = std::filesystem;

uint64_t number_in_file(const fs::path& path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : otherwise;
}

uint64_t hugepage_bytes_free(const fs::path& root) {
  constexpr std::string_view kPrefix = "hugepages-";  // Followed by the size: "2048kB".
  uint64_t free = 0;
  std::error_code error;
  for (const auto& size : fs::directory_iterator(root / "sys/kernel/mm/hugepages", error)) {
    const std::string name = size.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const uint64_t kilobytes = std::strtoull(name.c_str() + kPrefix.size(), nullptr, 10);
    free += number_in_file(size.path() / "free_hugepages", 0) * kilobytes * 1024;
  }
  return free;
}

bool has_capability(uint32_t capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1) != 0;
}

/// Asks the kernel, because /sys may show another network namespace than ours.
void ask_interface(const std::string& name, DpdkDeviceFacts& facts) {
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return;
  std::memcpy(request.ifr_name, name.data(), name.size());
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return;
  facts.interface_mtu = static_cast<uint32_t>(request.ifr_mtu);
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  request.ifr_data = reinterpret_cast<char*>(&channels);
  const bool answered = ::ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
  // If the driver does not report a number, assume one, as net_af_xdp does.
  facts.interface_queues = answered && channels.combined_count != 0 ? channels.combined_count : 1;
}

std::optional<uint32_t> numa_node_of(const fs::path& device) {
  int node = -1;  // The kernel writes -1 if there is only one node.
  if (!(std::ifstream(device / "numa_node") >> node) || node < 0) return std::nullopt;
  return static_cast<uint32_t>(node);
}

std::optional<uint32_t> class_of(const fs::path& device) {
  uint32_t number = 0;
  if (!(std::ifstream(device / "class") >> std::hex >> number)) return std::nullopt;
  return number;
}

/// Returns the NUMA nodes of the cores that this thread may use.
std::vector<uint32_t> core_numa_nodes(const fs::path& root) {
  constexpr std::string_view kPrefix = "node";
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  std::set<uint32_t> nodes;
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &allowed)) continue;
    std::error_code error;
    const fs::path folder = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(core));
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(kPrefix)) continue;
      nodes.insert(static_cast<uint32_t>(std::strtoul(name.c_str() + kPrefix.size(), nullptr, 10)));
    }
  }
  return {nodes.begin(), nodes.end()};
}

std::optional<uint64_t> memory_bytes_available(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (std::istringstream(line) >> key >> kilobytes && key == "MemAvailable:") {
      return kilobytes * 1024;
    }
  }
  return std::nullopt;
}

std::string link_target_name(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? "" : target.filename().string();
}

std::string first_entry(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  return error || entries == fs::directory_iterator() ? "" : entries->path().filename().string();
}

SocketState socket_state(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const fs::path folder = fs::path(path).parent_path();
    const char* const in = folder.empty() ? "." : folder.c_str();
    if (::access(in, W_OK | X_OK) == 0) return SocketState::kAbsent;
    return errno == EACCES || errno == EROFS ? SocketState::kNotPermitted
                                             : SocketState::kNoDirectory;
  }
  if (!S_ISSOCK(status.st_mode)) return SocketState::kNoSocket;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return SocketState::kStale;
  std::memcpy(address.sun_path, path.data(), path.size());
  // Do not open a real connection: net_memif's server crashes if a connection ends at once. A live
  // socket, stream (vhost-user) or packet (memif), refuses a datagram socket because of its type. A
  // stale file refuses it because nobody listens.
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EPROTOTYPE) {
    return SocketState::kListening;
  }
  return SocketState::kStale;
}

}  // namespace

DpdkDeviceFacts gather_dpdk_facts(const DpdkDeviceSpec& spec, const fs::path& root) {
  DpdkDeviceFacts facts;
  facts.hugepage_bytes_free = hugepage_bytes_free(root);
  facts.memory_bytes_available = memory_bytes_available(root);
  facts.core_numa_nodes = core_numa_nodes(root);
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.memlock_bytes = limit.rlim_cur;
  }
  facts.may_lock_memory = has_capability(CAP_IPC_LOCK);
  facts.may_open_raw_sockets = has_capability(CAP_NET_RAW);
  facts.may_configure_network = has_capability(CAP_NET_ADMIN);
  facts.has_iommu = !first_entry(root / "sys/kernel/iommu_groups").empty();
  facts.may_use_vfio = ::access((root / "dev/vfio/vfio").c_str(), R_OK | W_OK) == 0;
  if (spec.is_pci()) {
    const fs::path device = root / "sys/bus/pci/devices" / spec.name;
    std::error_code error;
    facts.pci_present = fs::exists(device, error);
    facts.pci_class = class_of(device);
    facts.pci_numa_node = numa_node_of(device);
    facts.pci_driver = link_target_name(device / "driver");
    facts.pci_interface = first_entry(device / "net");
  }
  if (const std::string interface = spec.argument("iface");
      !interface.empty() && dpdk_socket_path(spec).empty()) {
    ask_interface(interface, facts);
  }
  if (const std::string path = dpdk_socket_path(spec); !path.empty()) {
    facts.socket = socket_state(path);
  }
  return facts;
}

}  // namespace tributary::io
