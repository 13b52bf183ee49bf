// SPDX-License-Identifier: Apache-2.0
// Method:  a server and workers as processes, joined by vhost-user sockets, without privileges,
//          hugepages or a network card. They add exactly. Then one is killed: the others must name
//          it, and its remains must not prevent the next start. As root, also over a veth pair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/byte_order.h"
#include "base/internet_checksum.h"
#include "io/frames/udp_frame.h"
#include "tests/system/network.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorld = 2;

/// Returns the server's ports. The address on its wires is the one that Server listens on.
std::vector<std::string> server_ports(const std::string& name) {
  std::vector<std::string> words;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    words.insert(words.end(), {"--port", "dpdk:vhost,iface=" + scratch(name) + "." +
                                             std::to_string(rank) + ",ip=127.0.0.1/8"});
  }
  return words;
}

/// A server and its workers, over the test's own sockets.
class OverVhost : public ::testing::Test {
 protected:
  static std::string name() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void serve(const std::string& job, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = server_ports(name());
    words.insert(words.end(), more.begin(), more.end());
    server_ = std::make_unique<Server>(std::vector<std::string>{job}, words);
  }
  void start_workers(const std::vector<std::string>& more) {
    workers_.clear();
    for (uint32_t rank = 0; rank < kWorld; rank++) workers_.push_back(worker(rank, more));
  }
  std::unique_ptr<Process> worker(uint32_t rank, const std::vector<std::string>& more) const {
    const std::string number = std::to_string(rank);
    std::vector<std::string> words{"--port", "dpdk:virtio_user,path=" + scratch(name()) + "." +
                                                 number + ",ip=127.0.0.1" + number + "/8"};
    words.insert(words.end(), more.begin(), more.end());
    return start_worker(*server_, rank, kWorld, words);
  }
  void expect_exact() {
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      EXPECT_EQ(workers_[rank]->wait_for_end(), 0) << workers_[rank]->errors();
      const auto result = result_of(rank);
      EXPECT_EQ(result["status"], "ok");
      EXPECT_GT(result["checked"], 0);
      EXPECT_EQ(result["wrong"], 0);
      EXPECT_EQ(result["degraded"], 0);
    }
  }

  std::unique_ptr<Server> server_;
  Workers workers_;
};

const std::vector<std::string> kSome{"--verify", "--elements", "50000", "--iterations", "10"};
/// More work than they can finish during the test.
const std::vector<std::string> kEndless{"--elements", "20000",        "--iterations",
                                        "10000000",   "--deadline-s", "6"};

TEST_F(OverVhost, SumsAreBitExact) {
  serve("id=1,sources=2");
  start_workers(kSome);
  expect_exact();
  const auto port = server_->stats()["ports"][0];
  EXPECT_GT(port["frames"]["delivered"], 2 * 10 * 50'000 / 352);
  EXPECT_EQ(port["frames"]["arp_answered"], kWorld);
  EXPECT_EQ(server_->stop(), 0);
  // An orderly end leaves no socket.
  EXPECT_FALSE(std::filesystem::exists(scratch(name()) + ".0"));
}

TEST_F(OverVhost, SumsAreBitExactUnderFaultsAndOverSeveralCores) {
  serve("id=1,sources=2", {"--cores", "2"});
  start_workers({"--verify", "--elements", "50000", "--iterations", "5", "--loss", "0.01",
                 "--duplicate", "0.01", "--reorder", "0.02"});
  expect_exact();
  const auto stats = server_->stats();
  for (const auto& core : stats["cores"]) EXPECT_GT(core["packets"], 0);
}

TEST_F(OverVhost, SumsAreBitExactWithLargePacketsAndAGroup) {
  serve("id=1,sources=2,group=239.1.2.3:7001");
  std::vector<std::string> large = kSome;
  large.insert(large.end(), {"--gradients", "2048"});
  start_workers(large);
  expect_exact();
}

TEST_F(OverVhost, KilledWorkerIsNamedAndMayReturn) {
  serve("id=1,sources=2");
  start_workers(kEndless);
  server_->wait_until_counted("block_completed", 1000);
  workers_[1]->signal(SIGKILL);
  EXPECT_EQ(workers_[1]->wait_for_end(), 128 + SIGKILL);
  EXPECT_EQ(workers_[0]->wait_for_end(), 1);
  EXPECT_THAT(workers_[0]->errors(), HasSubstr("rank 1 "));
  start_workers(kSome);
  expect_exact();
}

TEST_F(OverVhost, KilledServerIsNamedAndMayReturn) {
  serve("id=1,sources=2");
  start_workers(kEndless);
  server_->wait_until_counted("block_completed", 1000);
  server_->kill();
  for (const auto& worker : workers_) {
    // Not killed by SIGPIPE, which the driver raises.
    EXPECT_EQ(worker->wait_for_end(), 1) << worker->errors();
    EXPECT_THAT(worker->errors(), HasSubstr("aggregator " + server_->address()));
  }
  ASSERT_TRUE(std::filesystem::exists(scratch(name()) + ".0"));  // Left behind, but harmless.
  server_->start_again();
  start_workers(kSome);
  expect_exact();
}

TEST_F(OverVhost, RefusalsNameCauseAndRemedy) {
  const auto refusal = [](const std::vector<std::string>& words) {
    Process process(words);
    EXPECT_EQ(process.wait_for_end(), 2) << process.errors();
    return process.errors();
  };
  const std::string device = "dpdk:vhost,iface=" + scratch("r") + ",ip=10.0.0.1/24";
  EXPECT_THAT(refusal({"serve", "--job", "id=1,sources=2", "--port", device + ",mtu=1500"}),
              HasSubstr("block_grad_max=2048 needs payloads of 8256 bytes; the port's MTU leaves "
                        "1472: give the job block_grad_max=352"));
  EXPECT_THAT(
      refusal({"serve", "--job", "id=1,sources=2", "--port", device, "--listen", "10.0.0.9:12000"}),
      HasSubstr("--listen 10.0.0.9:12000: is not the address of --port"));
  EXPECT_THAT(refusal({"serve", "--job", "id=1,sources=2", "--port", "dpdk:vhots"}),
              HasSubstr("--port 'dpdk:vhots': 'vhots' is not a device"));
  Process worker({"worker", "--server", "10.0.0.1", "--port",
                  "dpdk:virtio_user,path=" + scratch("nobody") + ",ip=10.0.0.2/24"});
  EXPECT_EQ(worker.wait_for_end(), 1);
  EXPECT_THAT(worker.errors(), HasSubstr("no process serves " + scratch("nobody")));
}

TEST(OverMemif, SumsAreBitExactWhileADoctorChecksTheSocket) {
  const std::string path = scratch("memif");
  const std::string socket = path + ".0";
  const std::vector<std::string> ports{
      "--port", "dpdk:memif,role=server,socket=" + socket + ",ip=127.0.0.1/8", "--port",
      "dpdk:memif,role=server,socket=" + path + ".1"};
  const Server server({"id=1,sources=2"}, ports);
  // The check must not connect to the socket: net_memif's server would die of it.
  Process doctor({"doctor", "--dpdk", "dpdk:memif,role=server,socket=" + socket});
  doctor.wait_for_end();
  EXPECT_THAT(doctor.output(), HasSubstr("another process serves " + socket));
  std::vector<std::unique_ptr<Process>> workers;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    const std::string number = std::to_string(rank);
    workers.push_back(std::make_unique<Process>(std::vector<std::string>{
        "worker", "--server", server.address(), "--world", "2", "--rank", number, "--verify",
        "--elements", "50000", "--iterations", "5", "--port",
        "dpdk:memif,socket=" + path + "." + number + ",ip=127.0.0.1" + number + "/8"}));
  }
  for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
}

class OverVeth : public VethTest {
 protected:
  /// @param driver The driver of the server's device.
  void expect_sums(const std::string& driver, uint16_t gradients) const {
    expect_trio_ml_sums(ours_, theirs_, "dpdk:" + driver + ",iface=wire,ip=10.77.0.1/24",
                        gradients);
  }
};

TEST_F(OverVeth, SourcesWithKernelSocketsGetExactSums) { expect_sums("af_packet", 1024); }

TEST_F(OverVeth, SourcesWithKernelSocketsGetExactSumsOverXdp) {
  const int probe = socket(AF_XDP, SOCK_RAW, 0);
  if (probe < 0) GTEST_SKIP() << "no XDP sockets in this kernel";
  close(probe);
  for (const std::string& network : {ours_, theirs_}) {
    ASSERT_TRUE(run("ip -n " + network + " link set wire mtu 3498"));
  }
  expect_sums("af_xdp", 800);
}

TEST_F(OverVeth, RefusesAnMtuBeyondTheInterface) {
  const Inside inside(ours_);
  Process process({"serve", "--job", "id=1,sources=2", "--port",
                   "dpdk:af_packet,iface=wire,mtu=9000,ip=10.77.0.1/24"});
  EXPECT_EQ(process.wait_for_end(), 2);
  EXPECT_THAT(process.errors(), HasSubstr("ip link set dev wire mtu 9000"));
}

/// A raw socket at the kernel's end of a tap device, for frames that no UDP socket sends.
class RawEnd {
 public:
  explicit RawEnd(const std::string& interface)
      : socket_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawEnd() { close(socket_); }
  RawEnd(const RawEnd&) = delete;
  RawEnd& operator=(const RawEnd&) = delete;

  void send(const std::vector<std::byte>& frame) const {
    EXPECT_EQ(::send(socket_, frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
  }
  /// Sends an ARP request for 10.77.0.1.
  /// @return the address in the answer. Frames are processed in order, so all earlier frames have
  ///   been processed by then.
  [[nodiscard]] std::optional<io::MacAddress> ask() const {
    // "Who has 10.77.0.1? Tell 10.77.0.2", as a broadcast.
    std::vector<std::byte> question;
    for (const int byte :
         {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,  0,  0, 0, 0, 2, 8, 6,                //
          0,    1,    8,    0,    6,    4,    0,  1,  2, 0, 0, 0, 0, 2, 10, 77, 0, 2,  //
          0,    0,    0,    0,    0,    0,    10, 77, 0, 1}) {
      question.push_back(static_cast<std::byte>(byte));
    }
    send(question);
    const auto deadline = Clock::now() + kPatience;
    std::array<std::byte, 2048> frame{};
    for (pollfd waiting{socket_, POLLIN, 0}; poll(&waiting, 1, milliseconds_until(deadline)) > 0;) {
      const ssize_t bytes = recv(socket_, frame.data(), frame.size(), 0);
      if (bytes < 42 || load_be<uint16_t>(&frame[12]) != 0x0806 || frame[21] != std::byte{2}) {
        continue;
      }
      io::MacAddress mac{};
      std::memcpy(mac.data(), &frame[6], mac.size());
      return mac;
    }
    return std::nullopt;
  }

 private:
  int socket_;
};

/// Recomputes the IP header's checksum after a change.
void fix_ip_checksum(std::vector<std::byte>& frame) {
  store_be<uint16_t>(&frame[24], uint16_t{0});
  store_be<uint16_t>(&frame[24], internet_checksum(std::span(frame).subspan(14, 20)));
}

TEST_F(OverVeth, BadFramesAreDroppedAndCounted) {
  const Inside inside(ours_);
  const std::string json = scratch("bad_frames.json");
  Process server({"serve", "--json", json, "--job", "id=1,sources=1,block_grad_max=300", "--port",
                  "dpdk:tap,iface=bad_frames,ip=10.77.0.1/24"});
  ASSERT_TRUE(server.wait_for_line("ready")) << server.errors();
  const RawEnd raw("bad_frames");
  const auto mac = raw.ask();
  ASSERT_TRUE(mac.has_value());
  const auto frame = [&mac](uint16_t port) {
    std::vector<std::byte> bytes(142);
    EXPECT_EQ(io::build_udp_frame({.source_mac = {2, 0, 0, 0, 0, 2},
                                   .destination_mac = *mac,
                                   .source = Endpoint::ipv4(0x0a4d0002, 5000),
                                   .destination = Endpoint::ipv4(0x0a4d0001, port)},
                                  std::vector<std::byte>(100), bytes),
              bytes.size());
    return bytes;
  };
  const auto send_changed = [&](size_t at, uint16_t word, bool fix_checksum) {
    std::vector<std::byte> bytes = frame(12000);
    store_be<uint16_t>(&bytes[at], word);
    if (fix_checksum) fix_ip_checksum(bytes);
    raw.send(bytes);
  };
  raw.send(frame(12001));                            // An unused port.
  send_changed(24, 0x1234, /*fix_checksum=*/false);  // The IP checksum.
  send_changed(20, 0x2000, /*fix_checksum=*/true);   // A first fragment …
  send_changed(20, 0x0005, /*fix_checksum=*/true);   // … and a later one.
  send_changed(12, 0x8100, /*fix_checksum=*/false);  // A VLAN tag.
  send_changed(12, 0x88cc, /*fix_checksum=*/false);  // LLDP.
  std::vector<std::byte> runt = frame(12000);
  runt.resize(33);
  raw.send(runt);
  ASSERT_TRUE(raw.ask().has_value());
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait_for_end(), 0);
  std::ifstream file(json);
  const auto stats = nlohmann::json::parse(file);
  const auto& frames = stats["ports"][0]["frames"];
  EXPECT_EQ(frames["wrong_port"], 1);
  EXPECT_EQ(frames["bad_ip_checksum"], 1);
  EXPECT_EQ(frames["fragment"], 2);
  EXPECT_EQ(frames["vlan"], 1);
  EXPECT_EQ(frames["runt"], 1);
  EXPECT_EQ(frames["arp_answered"], 2);
  EXPECT_GE(frames["not_ip"], 1);
  EXPECT_EQ(frames["delivered"], 0);
  for (const auto& [name, count] : stats["counters"].items()) EXPECT_EQ(count, 0) << name;
}

}  // namespace
}  // namespace tributary::system_test
