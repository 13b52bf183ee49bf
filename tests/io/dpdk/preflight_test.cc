// SPDX-License-Identifier: Apache-2.0
// Method: invented machines with one fault each, and the cause and command that must be named. Then
// this machine's own files, with a folder in place of the root.
#include "io/dpdk/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "io/file_descriptor.h"
#include "tests/support/scratch_directory.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

DpdkDeviceSpec device(const std::string& text) {
  const auto spec = parse_dpdk_device("dpdk:" + text);
  EXPECT_TRUE(spec) << (spec ? "" : spec.error().text);
  return spec ? *spec : DpdkDeviceSpec{};
}

DpdkDeviceFacts faultless() {
  DpdkDeviceFacts facts;
  facts.hugepage_bytes_free = uint64_t{2} << 30;
  facts.may_lock_memory = true;
  facts.may_open_raw_sockets = true;
  facts.may_configure_network = true;
  facts.has_iommu = true;
  facts.may_use_vfio = true;
  facts.pci_present = true;
  facts.pci_driver = "vfio-pci";
  facts.interface_mtu = 9000;
  return facts;
}

/// Returns every complaint of that kind in one text, as lines of "cause => remedy".
std::string complaints(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts, bool fatal) {
  std::string text;
  for (const DpdkComplaint& complaint : check_dpdk_device(spec, facts)) {
    if (complaint.is_fatal == fatal) text += complaint.cause + " => " + complaint.remedy + "\n";
  }
  return text;
}
std::string faults(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts) {
  return complaints(spec, facts, true);
}
std::string warnings(const DpdkDeviceSpec& spec, const DpdkDeviceFacts& facts) {
  return complaints(spec, facts, false);
}

TEST(DpdkPreflight, FaultlessDevicesCauseNoComplaint) {
  EXPECT_EQ(faults(device("01:00.0"), faultless()), "");
  EXPECT_EQ(warnings(device("01:00.0"), faultless()), "");
  EXPECT_EQ(faults(device("vhost,iface=/tmp/a"), faultless()), "");
}

TEST(DpdkPreflight, CardsWithoutADpdkDriverAreFaults) {
  DpdkDeviceFacts facts = faultless();
  facts.pci_present = false;
  EXPECT_THAT(faults(device("01:00.0"), facts), HasSubstr("there is no PCI device 0000:01:00.0"));
  facts.pci_present = true;
  facts.pci_class = 0x06'0000;  // A bridge; nobody should be told to bind it.
  EXPECT_THAT(
      faults(device("01:00.0"), facts),
      AllOf(HasSubstr("is not a network card (PCI class 0x060000)"), Not(HasSubstr("--bind"))));
  facts.pci_class = 0x02'8000;  // "Other network controller".
  facts.pci_driver = "ixgbe";
  facts.pci_interface = "eth2";
  EXPECT_THAT(faults(device("01:00.0"), facts),
              AllOf(HasSubstr("the kernel's driver ixgbe (interface eth2)"),
                    HasSubstr("dpdk-devbind.py --bind=vfio-pci 0000:01:00.0")));
  facts.pci_driver = "";
  EXPECT_THAT(faults(device("01:00.0"), facts), HasSubstr("bound to no driver"));
  facts.pci_driver = "mlx5_core";  // Shares the card with the kernel.
  EXPECT_EQ(faults(device("01:00.0"), facts), "");
}

TEST(DpdkPreflight, ReportsMissingVfioPermissionAndIommu) {
  DpdkDeviceFacts facts = faultless();
  facts.may_use_vfio = false;
  EXPECT_THAT(faults(device("01:00.0"), facts), HasSubstr("chown USER /dev/vfio/vfio"));
  facts = faultless();
  facts.has_iommu = false;
  EXPECT_THAT(warnings(device("01:00.0"), facts), HasSubstr("enable_unsafe_noiommu_mode"));
}

TEST(DpdkPreflight, WarnsAboutCoresOnAnotherNumaNode) {
  DpdkDeviceFacts facts = faultless();
  facts.core_numa_nodes = {0, 1};
  EXPECT_EQ(warnings(device("01:00.0"), facts), "");  // The card names no node.
  facts.pci_numa_node = 1;
  EXPECT_THAT(warnings(device("01:00.0"), facts),
              AllOf(HasSubstr("the card is on NUMA node 1, and this process may run on nodes 0, 1"),
                    HasSubstr("taskset -c $(cat /sys/devices/system/node/node1/cpulist)")));
  facts.core_numa_nodes = {1};
  EXPECT_EQ(warnings(device("01:00.0"), facts), "");
  EXPECT_EQ(faults(device("01:00.0"), facts), "");
}

TEST(DpdkPreflight, RefusesTooFewBuffersAndBadQueueCounts) {
  // 1024 descriptors, 256 * 3 / 2 buffers in a core's cache, and two bursts of 128 that it holds.
  EXPECT_THAT(faults(device("vhost,iface=/tmp/a,mbufs=1663"), faultless()),
              AllOf(HasSubstr("mbufs=1663 is too few; one queue and one core need 1664"),
                    HasSubstr("give mbufs=1664")));
  EXPECT_EQ(faults(device("vhost,iface=/tmp/a,mbufs=1664"), faultless()), "");
  for (const std::string wrong : {"0", "two", "129"}) {
    EXPECT_THAT(faults(device("vhost,iface=/tmp/a,queues=" + wrong), faultless()),
                HasSubstr("queues=" + wrong + " is not allowed; allowed: a whole number from 1"));
  }
  EXPECT_THAT(faults(device("af_packet,iface=eth1,qpairs=0"), faultless()), HasSubstr("qpairs=0"));
  EXPECT_EQ(faults(device("vhost,iface=/tmp/a,queues=128"), faultless()), "");
}

TEST(DpdkPreflight, DriverLimitsTheQueueCount) {
  EXPECT_EQ(dpdk_queues_max(device("01:00.0"), 8), 8U);
  EXPECT_EQ(dpdk_queues_max(device("vhost,iface=/tmp/a"), 8), 1U);
  EXPECT_EQ(dpdk_queues_max(device("vhost,iface=/tmp/a,queues=4"), 8), 4U);
  EXPECT_EQ(dpdk_queues_max(device("tap"), 8), 4U);
  EXPECT_EQ(dpdk_queues_max(device("tap"), 2), 2U);
}

HugepageDecision decided(const std::string& text, const DpdkDeviceFacts& facts, uint64_t needed) {
  const DpdkDeviceSpec spec = device(text);
  return decide_dpdk_hugepages({&spec, 1}, spec.hugepages, facts, needed);
}

TEST(DpdkPreflight, UsesHugepagesIfEnoughAreFree) {
  constexpr uint64_t kNeeded = 100 << 20;
  DpdkDeviceFacts facts = faultless();
  EXPECT_TRUE(decided("vhost,iface=/tmp/a", facts, kNeeded).use);
  EXPECT_FALSE(decided("vhost,iface=/tmp/a", facts, kNeeded).complaint);
  EXPECT_FALSE(decided("vhost,iface=/tmp/a,hugepages=off", facts, kNeeded).use);

  facts.hugepage_bytes_free = kNeeded - 1;  // Some, but too few.
  const HugepageDecision few = decided("vhost,iface=/tmp/a", facts, kNeeded);
  EXPECT_FALSE(few.use);
  ASSERT_TRUE(few.complaint);
  EXPECT_FALSE(few.complaint->is_fatal);
  EXPECT_THAT(few.complaint->cause, HasSubstr("99 MB of hugepages are free and 101 MB are needed"));
  EXPECT_EQ(few.complaint->remedy, "sysctl -w vm.nr_hugepages=1024");
  EXPECT_EQ(decided("vhost,iface=/tmp/a", facts, uint64_t{4} << 30).complaint->remedy,
            "sysctl -w vm.nr_hugepages=2049");
  EXPECT_FALSE(decided("vhost,iface=/tmp/a,hugepages=off", facts, kNeeded).complaint);
  EXPECT_TRUE(decided("vhost,iface=/tmp/a,hugepages=on", facts, kNeeded).complaint->is_fatal);
  EXPECT_FALSE(decided("01:00.0", facts, kNeeded).complaint->is_fatal);
  facts.has_iommu = false;  // The card then needs physical addresses.
  EXPECT_THAT(decided("01:00.0", facts, kNeeded).complaint->cause, HasSubstr("IOMMU"));
  EXPECT_TRUE(decided("01:00.0", facts, kNeeded).complaint->is_fatal);
}

TEST(DpdkPreflight, ShortageOfMemoryStopsTheStart) {
  constexpr uint64_t kNeeded = 100 << 20;
  DpdkDeviceFacts facts = faultless();
  facts.memory_bytes_available = kNeeded - 1;
  EXPECT_TRUE(decided("vhost,iface=/tmp/a", facts, kNeeded).use);  // Hugepages are separate.
  facts.hugepage_bytes_free = 0;
  for (const std::string pages : {"", ",hugepages=off"}) {
    const HugepageDecision decision = decided("vhost,iface=/tmp/a" + pages, facts, kNeeded);
    ASSERT_TRUE(decision.complaint);
    EXPECT_TRUE(decision.complaint->is_fatal);
    EXPECT_EQ(decision.complaint->cause, "101 MB of memory are needed and 99 MB are available");
    EXPECT_THAT(decision.complaint->remedy, HasSubstr("a smaller mbufs="));
  }
  facts.memory_bytes_available = kNeeded;
  EXPECT_FALSE(decided("vhost,iface=/tmp/a,hugepages=off", facts, kNeeded).complaint);
}

TEST(DpdkPreflight, MemoryGrowsWithDevicesCoresAndFrameSize) {
  const std::vector cards{device("01:00.0"), device("02:00.0,mtu=9000")};
  const uint64_t one = dpdk_memory_bytes({cards.data(), 1}, 1);
  // 3584 buffers of 9094 and 9014 bytes, instead of 2048 and 1514.
  EXPECT_GT(dpdk_memory_bytes({&cards[1], 1}, 1), one + 3584 * 7000);
  EXPECT_GT(dpdk_memory_bytes(cards, 1), one);
  // 16 queues of 1024 buffers of 9 KB and more, received and sent: 2 x 151 MB at least.
  EXPECT_GT(dpdk_memory_bytes({&cards[1], 1}, 16), uint64_t{2} * 16 * 1024 * 9014);
  // A wire with one queue has no more queues if there are more cores.
  const DpdkDeviceSpec wire = device("vhost,iface=/tmp/a");
  const DpdkDeviceSpec wide = device("vhost,iface=/tmp/a,queues=16");
  EXPECT_LT(dpdk_memory_bytes({&wire, 1}, 16), dpdk_memory_bytes({&wide, 1}, 16));
}

TEST(DpdkPreflight, ChecksKernelInterfaces) {
  DpdkDeviceFacts facts = faultless();
  facts.interface_mtu.reset();
  EXPECT_THAT(faults(device("af_packet,iface=eth7"), facts),
              HasSubstr("there is no interface eth7"));
  facts.interface_mtu = 1500;
  EXPECT_THAT(faults(device("af_packet,iface=eth7,mtu=9000"), facts),
              HasSubstr("ip link set dev eth7 mtu 9000"));
  EXPECT_EQ(faults(device("af_packet,iface=eth7"), facts), "");
  EXPECT_THAT(faults(device("af_packet"), facts), HasSubstr("needs iface="));
  facts.may_open_raw_sockets = false;
  EXPECT_THAT(faults(device("af_packet,iface=eth7"), facts), HasSubstr("CAP_NET_RAW"));
}

TEST(DpdkPreflight, AfPacketRingsHoldTheLargestFrame) {
  DpdkDeviceFacts facts = faultless();
  // 9000 + 14 + 96 bytes need 16384; 1500 + 14 + 96 fit 2048.
  EXPECT_THAT(dpdk_arguments(device("af_packet,iface=e"), facts),
              AllOf(HasSubstr("framesz=16384"), HasSubstr("blocksz=65536")));
  EXPECT_THAT(dpdk_arguments(device("af_packet,iface=e,mtu=1500"), facts),
              AllOf(HasSubstr("framesz=2048"), HasSubstr("framecnt=4096")));
  EXPECT_THAT(faults(device("af_packet,iface=e,framesz=2048"), facts),
              HasSubstr("framesz=2048 would silently lose frames of 9014 bytes"));
  EXPECT_THAT(warnings(device("af_packet,iface=e"), facts),
              HasSubstr("ethtool -K SENDER tx-udp-segmentation off"));
}

TEST(DpdkPreflight, AfPacketRingsFitTheLockedMemoryLimit) {
  DpdkDeviceFacts facts = faultless();
  facts.may_lock_memory = false;
  facts.memlock_bytes = 8U << 20;
  // 8 MB for two rings of 16384-byte frames: 256 each.
  EXPECT_THAT(dpdk_arguments(device("af_packet,iface=e"), facts), HasSubstr("framecnt=256"));
  EXPECT_EQ(faults(device("af_packet,iface=e"), facts), "");
  facts.memlock_bytes = 65'536;
  EXPECT_THAT(faults(device("af_packet,iface=e"), facts), HasSubstr("ulimit -l 2049"));
}

TEST(DpdkPreflight, ChecksMtuAndPrivilegesOfXdpAndTap) {
  DpdkDeviceFacts facts = faultless();
  EXPECT_THAT(faults(device("af_xdp,iface=e"), facts), HasSubstr("ip link set dev e mtu 3498"));
  facts.interface_mtu = 3498;
  EXPECT_EQ(faults(device("af_xdp,iface=e"), facts), "");
  EXPECT_EQ(dpdk_mtu(device("af_xdp,iface=e"), facts), 3386U);
  EXPECT_THAT(faults(device("af_xdp,iface=e,mtu=3400"), facts), HasSubstr("give mtu=3386 or less"));
  EXPECT_THAT(faults(device("tap,iface=t,mtu=4000"), facts), HasSubstr("give mtu=1500 or less"));
  facts.may_configure_network = false;
  EXPECT_THAT(faults(device("tap,iface=t"), facts), HasSubstr("CAP_NET_ADMIN"));
}

TEST(DpdkPreflight, RefusesQueuesThatTheInterfaceLacks) {
  DpdkDeviceFacts facts = faultless();
  facts.interface_mtu = 1500;
  facts.interface_queues = 2;
  EXPECT_EQ(faults(device("af_xdp,iface=eth1,queue_count=2"), facts), "");
  EXPECT_THAT(
      faults(device("af_xdp,iface=eth1,queue_count=3"), facts),
      AllOf(HasSubstr("eth1 has no queue 2; it has 2"), HasSubstr("ethtool -L eth1 combined 3")));
  EXPECT_THAT(faults(device("af_xdp,iface=eth1,start_queue=2"), facts),
              HasSubstr("eth1 has no queue 2"));
}

TEST(DpdkPreflight, PcapNeedsRawSocketsForAnInterface) {
  DpdkDeviceFacts facts = faultless();
  facts.may_open_raw_sockets = false;
  EXPECT_THAT(faults(device("pcap,iface=eth1"), facts), HasSubstr("net_pcap needs CAP_NET_RAW"));
  EXPECT_EQ(faults(device("pcap,rx_pcap=a.pcap,tx_pcap=b.pcap"), facts), "");  // Files.
}

TEST(DpdkPreflight, QueueBuffersFollowDescriptorsOrTheDriver) {
  EXPECT_EQ(dpdk_queue_buffers(device("vhost,iface=/tmp/a"), 1024), 1024U);
  EXPECT_EQ(dpdk_queue_buffers(device("af_xdp,iface=e"), 1024), 4096U);  // The driver's own number.
}

TEST(DpdkPreflight, MemifBuffersHoldTheLargestFrame) {
  // 9014 rounded up to whole cache lines: 9024.
  EXPECT_THAT(dpdk_arguments(device("memif,socket=/tmp/m"), faultless()), HasSubstr("bsize=9024"));
  EXPECT_THAT(faults(device("memif,socket=/tmp/m,role=server,bsize=2048"), faultless()),
              HasSubstr("bsize=2048 damages frames of 9014 bytes"));
  EXPECT_THAT(warnings(device("memif,socket=/tmp/m,role=server"), faultless()),
              HasSubstr("use vhost and virtio_user"));
}

TEST(DpdkPreflight, ChecksVhostAndMemifSockets) {
  DpdkDeviceFacts facts = faultless();
  facts.socket = SocketState::kStale;
  EXPECT_EQ(faults(device("vhost,iface=/tmp/a"), facts), "");  // Removed at the start.
  EXPECT_THAT(faults(device("virtio_user,path=/tmp/a"), facts),
              AllOf(HasSubstr("no process serves /tmp/a"), HasSubstr("dpdk:vhost,iface=/tmp/a")));
  EXPECT_THAT(faults(device("memif,socket=/tmp/a"), facts),
              HasSubstr("dpdk:memif,role=server,socket=/tmp/a"));
  facts.socket = SocketState::kListening;
  EXPECT_THAT(faults(device("vhost,iface=/tmp/a"), facts), HasSubstr("ss -xlp | grep /tmp/a"));
  EXPECT_EQ(faults(device("virtio_user,path=/tmp/a"), facts), "");
  facts.socket = SocketState::kNoSocket;
  EXPECT_THAT(faults(device("vhost,iface=/tmp/a"), facts), HasSubstr("is not a socket"));
  facts.socket = SocketState::kNoDirectory;
  EXPECT_THAT(faults(device("vhost,iface=/x/a"), facts), HasSubstr("mkdir -p"));
  facts.socket = SocketState::kNotPermitted;
  EXPECT_THAT(faults(device("vhost,iface=/x/a"), facts),
              AllOf(HasSubstr("this user may not create or use /x/a"), Not(HasSubstr("mkdir"))));
  EXPECT_THAT(faults(device("vhost,iface=/" + std::string(120, 'a')), faultless()),
              HasSubstr("the socket's path has 121 bytes"));
  EXPECT_THAT(faults(device("vhost"), faultless()), HasSubstr("needs iface="));
  EXPECT_THAT(faults(device("memif"), faultless()), HasSubstr("needs socket="));
}

TEST(DpdkPreflight, ReadsCardFactsFromSysfs) {
  const testing::ScratchDirectory root;
  namespace fs = std::filesystem;
  const fs::path card = root.path() / "sys/bus/pci/devices/0000:01:00.0";
  fs::create_directories(card / "net/eth2");
  fs::create_symlink("../../../bus/pci/drivers/ixgbe", card / "driver");
  std::ofstream(card / "class") << "0x020000\n";
  std::ofstream(card / "numa_node") << "1\n";
  const fs::path no_node = root.path() / "sys/bus/pci/devices/0000:03:00.0";
  fs::create_directories(no_node);
  std::ofstream(no_node / "numa_node") << "-1\n";
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &allowed)) continue;
    fs::create_directories(root.path() / "sys/devices/system/cpu" / ("cpu" + std::to_string(core)) /
                           "node3");
  }
  fs::create_directories(root.path() / "proc");
  std::ofstream(root.path() / "proc/meminfo")
      << "MemTotal:       24564820 kB\nMemAvailable:       2048 kB\n";
  fs::create_directories(root.path() / "sys/kernel/iommu_groups/0");
  for (const auto& [size, free] :
       {std::pair{"hugepages-2048kB", "5"}, {"hugepages-1048576kB", "2"}}) {
    const fs::path folder = root.path() / "sys/kernel/mm/hugepages" / size;
    fs::create_directories(folder);
    std::ofstream(folder / "free_hugepages") << free << "\n";
  }
  const DpdkDeviceFacts facts = gather_dpdk_facts(device("01:00.0"), root.path());
  EXPECT_TRUE(facts.pci_present);
  EXPECT_EQ(facts.pci_driver, "ixgbe");
  EXPECT_EQ(facts.pci_interface, "eth2");
  EXPECT_EQ(facts.pci_class, 0x02'0000U);
  EXPECT_EQ(facts.pci_numa_node, 1U);
  EXPECT_EQ(facts.core_numa_nodes, std::vector<uint32_t>{3});
  EXPECT_EQ(facts.memory_bytes_available, uint64_t{2} << 20);
  EXPECT_FALSE(gather_dpdk_facts(device("03:00.0"), root.path()).pci_numa_node);
  EXPECT_TRUE(facts.has_iommu);
  EXPECT_EQ(facts.hugepage_bytes_free, 5 * (uint64_t{2} << 20) + 2 * (uint64_t{1} << 30));
  EXPECT_FALSE(facts.may_use_vfio);
  EXPECT_FALSE(gather_dpdk_facts(device("02:00.0"), root.path()).pci_present);
}

TEST(DpdkPreflight, ReadsInterfaceFactsFromTheKernel) {
  EXPECT_EQ(gather_dpdk_facts(device("af_packet,iface=lo")).interface_mtu, 65'536U);
  EXPECT_EQ(gather_dpdk_facts(device("af_packet,iface=lo")).interface_queues, 1U);
  EXPECT_FALSE(gather_dpdk_facts(device("af_packet,iface=nosuchif")).interface_mtu);
  EXPECT_FALSE(gather_dpdk_facts(device("af_packet,iface=nosuchif")).interface_queues);
  EXPECT_FALSE(gather_dpdk_facts(device("af_packet,iface=" + std::string(40, 'a'))).interface_mtu);
}

TEST(DpdkPreflight, SocketOfAKilledProcessIsStale) {
  const testing::ScratchDirectory directory;
  const std::string path = directory.path() / "s";
  const auto state = [&path] { return gather_dpdk_facts(device("vhost,iface=" + path)).socket; };
  EXPECT_EQ(state(), SocketState::kAbsent);
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {  // As for vhost-user and memif.
    {
      const FileDescriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path, path.data(), path.size());
      ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      ASSERT_EQ(::listen(socket.get(), 1), 0);
      EXPECT_EQ(state(), SocketState::kListening);
      EXPECT_EQ(::accept(socket.get(), nullptr, nullptr), -1);  // The check opened no connection.
    }
    EXPECT_EQ(state(), SocketState::kStale);
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
  EXPECT_EQ(gather_dpdk_facts(device("vhost,iface=" + directory.file("f", "x"))).socket,
            SocketState::kNoSocket);
  EXPECT_EQ(gather_dpdk_facts(device("vhost,iface=" + path + "d/s")).socket,
            SocketState::kNoDirectory);
}

}  // namespace
}  // namespace tributary::io
