// SPDX-License-Identifier: Apache-2.0
// Method: a server and workers as processes, joined by vhost-user sockets: no privilege, no
// hugepage, no network card. They add exactly; then one of them is killed, the others must say
// which, and what is left behind must not be in the way of the next start. As root also over a veth
// pair.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "tests/system/paper_client.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorld = 2;

/// The server's address on its wires is the one that Server listens on.
std::vector<std::string> server_ports(const std::string& name) {
  std::vector<std::string> words;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    words.insert(words.end(), {"--port", "dpdk:vhost,iface=" + scratch(name) + "." +
                                             std::to_string(rank) + ",ip=127.0.0.1/8"});
  }
  return words;
}

/// A test's server and its workers, by sockets of the test's own.
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
/// More than they can do while the test runs.
const std::vector<std::string> kEndless{"--elements", "20000",        "--iterations",
                                        "10000000",   "--deadline-s", "2"};

TEST_F(OverVhost, BitExact) {
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

TEST_F(OverVhost, BitExactUnderFaultsAndOverSeveralCores) {
  serve("id=1,sources=2", {"--cores", "2"});
  start_workers({"--verify", "--elements", "50000", "--iterations", "5", "--loss", "0.01",
                 "--duplicate", "0.01", "--reorder", "0.02"});
  expect_exact();
  const auto stats = server_->stats();
  for (const auto& core : stats["cores"]) EXPECT_GT(core["packets"], 0);
}

TEST_F(OverVhost, LargePacketsAndAGroup) {
  serve("id=1,sources=2,group=239.1.2.3:7001");
  std::vector<std::string> large = kSome;
  large.insert(large.end(), {"--gradients", "2048"});
  start_workers(large);
  expect_exact();
}

TEST_F(OverVhost, AKilledWorkerIsNamedAndMayComeBack) {
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

TEST_F(OverVhost, AKilledServerIsNamedAndMayComeBack) {
  serve("id=1,sources=2");
  start_workers(kEndless);
  server_->wait_until_counted("block_completed", 1000);
  server_->kill();
  for (const auto& worker : workers_) {
    // Not by SIGPIPE, which the driver raises.
    EXPECT_EQ(worker->wait_for_end(), 1) << worker->errors();
    EXPECT_THAT(worker->errors(), HasSubstr("aggregator " + server_->address()));
  }
  ASSERT_TRUE(std::filesystem::exists(scratch(name()) + ".0"));  // Left behind, and in no way.
  server_->start_again();
  start_workers(kSome);
  expect_exact();
}

TEST_F(OverVhost, RefusalsNameCauseAndCure) {
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
              HasSubstr("--port 'dpdk:vhots': 'vhots' is no device"));
  Process worker({"worker", "--server", "10.0.0.1", "--port",
                  "dpdk:virtio_user,path=" + scratch("nobody") + ",ip=10.0.0.2/24"});
  EXPECT_EQ(worker.wait_for_end(), 1);
  EXPECT_THAT(worker.errors(), HasSubstr("nobody serves " + scratch("nobody")));
}

TEST(OverMemif, BitExactWithADoctorAtTheSocket) {
  const std::string path = scratch("memif");
  const std::string socket = path + ".0";
  const std::vector<std::string> ports{
      "--port", "dpdk:memif,role=server,socket=" + socket + ",ip=127.0.0.1/8", "--port",
      "dpdk:memif,role=server,socket=" + path + ".1"};
  const Server server({"id=1,sources=2"}, ports);
  // A look at the socket must not be a visit: net_memif's server would die of it.
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

/// While it lives, this thread and the processes that it starts are in a network namespace.
class Inside {
 public:
  explicit Inside(const std::string& network)
      : outside_(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
    const int inside = open(("/run/netns/" + network).c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(setns(inside, CLONE_NEWNET), 0);
    close(inside);
  }
  ~Inside() {
    EXPECT_EQ(setns(outside_, CLONE_NEWNET), 0);
    close(outside_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  int outside_;
};

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Two network namespaces joined by a veth pair that carries 4200 bytes.
class OverVeth : public ::testing::Test {
 protected:
  OverVeth()
      : ours_("tributary_a" + std::to_string(getpid())),
        theirs_("tributary_b" + std::to_string(getpid())) {}
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root for network namespaces";
    if (!run("ip netns add " + ours_) || !run("ip netns add " + theirs_) ||
        !run("ip link add wire mtu 4200 netns " + ours_ +
             " type veth peer name wire mtu 4200 netns " + theirs_)) {
      GTEST_SKIP() << "no network namespaces here, or no ip command";
    }
    ASSERT_TRUE(run("ip -n " + ours_ + " link set wire up"));
    ASSERT_TRUE(run("ip -n " + theirs_ + " link set wire up"));
    ASSERT_TRUE(run("ip -n " + theirs_ + " address add 10.77.0.2/24 dev wire"));
  }
  ~OverVeth() override {
    run("ip netns del " + ours_);
    run("ip netns del " + theirs_);
  }
  /// A server on our end, without the kernel's IP, that adds for two sources with kernel sockets on
  /// the other.
  void expect_sums(const std::string& driver, uint16_t gradients) const;

  const std::string ours_;
  const std::string theirs_;
};

void OverVeth::expect_sums(const std::string& driver, uint16_t gradients) const {
  std::unique_ptr<Process> server;
  {
    const Inside inside(ours_);
    server = std::make_unique<Process>(std::vector<std::string>{
        "serve", "--job", "id=1,sources=2,block_grad_max=" + std::to_string(gradients), "--port",
        "dpdk:" + driver + ",iface=wire,ip=10.77.0.1/24"});
  }
  ASSERT_TRUE(server->wait_for_line("ready")) << server->errors();
  const Inside inside(theirs_);
  // Their kernel asks by ARP, leaves the UDP checksum to a card that is not there, and checks ours.
  paper::Source first(1, 0, 12000, 0x0a4d0001);
  paper::Source second(1, 1, 12000, 0x0a4d0001);
  const paper::Gradients contribution(gradients, 21);
  for (uint32_t block = 0; block < 50; block++) {
    first.send(block, 1, contribution);
    second.send(block, 1, contribution);
    for (paper::Source* source : {&first, &second}) {
      const auto result = source->receive(Clock::now() + kPatience);
      ASSERT_TRUE(result.has_value()) << "block " << block << server->errors();
      EXPECT_EQ(result->header.block_id, block);
      EXPECT_EQ(result->header.src_cnt, 2);
      ASSERT_EQ(result->gradients, paper::Gradients(gradients, 42));
    }
  }
}

TEST_F(OverVeth, SourcesWithKernelSocketsGetTheirSums) { expect_sums("af_packet", 1024); }

TEST_F(OverVeth, SourcesWithKernelSocketsGetTheirSumsOverXdp) {
  const int probe = socket(AF_XDP, SOCK_RAW, 0);
  if (probe < 0) GTEST_SKIP() << "no XDP sockets in this kernel";
  close(probe);
  for (const std::string& network : {ours_, theirs_}) {
    ASSERT_TRUE(run("ip -n " + network + " link set wire mtu 3498"));
  }
  expect_sums("af_xdp", 800);
}

TEST_F(OverVeth, AnMtuThatTheInterfaceLacksIsRefused) {
  const Inside inside(ours_);
  Process process({"serve", "--job", "id=1,sources=2", "--port",
                   "dpdk:af_packet,iface=wire,mtu=9000,ip=10.77.0.1/24"});
  EXPECT_EQ(process.wait_for_end(), 2);
  EXPECT_THAT(process.errors(), HasSubstr("ip link set dev wire mtu 9000"));
}

}  // namespace
}  // namespace tributary::system_test
