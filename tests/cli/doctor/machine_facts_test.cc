// SPDX-License-Identifier: Apache-2.0
// Method:  reads a small hand-written /proc and /sys, then an empty one. Then checks this machine's
//          sockets, with a port that the test itself has bound.
#include "cli/doctor/machine_facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

namespace tributary::cli {
namespace {

namespace fs = std::filesystem;

class MachineFactsTest : public ::testing::Test {
 protected:
  MachineFactsTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) /
            fmt::format("tributary-facts-{}-{}", ::getpid(), info->name());
    fs::create_directories(root_);
  }
  ~MachineFactsTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

  fs::path root_;
};

/// A UDP socket on a port that the kernel chooses, on all addresses.
class HeldPort {
 public:
  HeldPort() : fd_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    socklen_t size = sizeof any;
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&any), &size), 0);
    port_ = ntohs(any.sin_port);
  }
  ~HeldPort() { ::close(fd_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

TEST_F(MachineFactsTest, ReadsProcAndSys) {
  write("sys/class/net/lo/flags", "0x9");
  write("sys/class/net/lo/mtu", "65536");
  write("sys/class/net/eth0/flags", "0x1003");
  write("sys/class/net/eth0/mtu", "1500");
  write("sys/class/net/eth1/flags", "0x1002");
  write("sys/class/net/eth1/mtu", "9000");
  write("sys/class/net/eth0/speed", "25000");
  write("sys/class/net/eth1/speed", "-1");  // No cable.
  write("sys/class/net/bonding_masters", "");
  write("proc/sys/net/core/rmem_max", "212992");
  write("proc/sys/net/core/wmem_max", "425984");
  write("proc/sys/kernel/osrelease", "6.1.0-18-amd64");
  write("sys/fs/cgroup/cpu.max", "150000 100000");
  write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "12");
  write("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock");

  const MachineFacts facts = gather_facts(12000, root_);
  ASSERT_EQ(facts.interfaces.size(), 3U);
  EXPECT_EQ(facts.interfaces[0].name, "eth0");
  EXPECT_EQ(facts.interfaces[0].mtu_bytes, 1500U);
  EXPECT_EQ(facts.interfaces[0].mbit, 25000U);
  EXPECT_FALSE(facts.interfaces[1].mbit.has_value());
  EXPECT_TRUE(facts.interfaces[0].up);
  EXPECT_FALSE(facts.interfaces[0].loopback);
  EXPECT_FALSE(facts.interfaces[1].up);
  EXPECT_TRUE(facts.interfaces[2].loopback);
  EXPECT_EQ(facts.receive_buffer_bytes_max, 212'992U);
  EXPECT_EQ(facts.send_buffer_bytes_max, 425'984U);
  EXPECT_EQ(facts.kernel_release, "6.1.0-18-amd64");
  EXPECT_EQ(facts.cpu_quota_cores, 1.5);
  EXPECT_EQ(facts.hugepages_free, 12U);
  EXPECT_EQ(facts.clock_source, "kvm-clock");
}

TEST_F(MachineFactsTest, UnreadableFactsAreAbsent) {
  write("sys/fs/cgroup/cpu.max", "max 100000");
  write("proc/sys/net/core/rmem_max", "words");
  const MachineFacts facts = gather_facts(12000, root_);
  EXPECT_TRUE(facts.interfaces.empty());
  EXPECT_FALSE(facts.receive_buffer_bytes_max.has_value());
  EXPECT_FALSE(facts.cpu_quota_cores.has_value());
  EXPECT_FALSE(facts.hugepages_free.has_value());
  EXPECT_EQ(facts.kernel_release, "");
  EXPECT_GE(facts.cores_online, 1U);
}

TEST_F(MachineFactsTest, DetectsPortsInUse) {
  const HeldPort held;
  const MachineFacts facts = gather_facts(held.port(), root_);
  EXPECT_EQ(facts.socket_refusal, "");
  EXPECT_EQ(facts.port_refusal, "Address already in use");
  EXPECT_EQ(gather_facts(0, root_).port_refusal, "");  // Port 0: a free port chosen by the kernel.
}

}  // namespace
}  // namespace tributary::cli
