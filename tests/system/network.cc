// SPDX-License-Identifier: Apache-2.0
#include "tests/system/network.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "tests/system/paper_client.h"
#include "tests/system/process.h"

namespace tributary::system_test {

Inside::Inside(const std::string& network)
    : outside_(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
  const int inside = open(("/run/netns/" + network).c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(setns(inside, CLONE_NEWNET), 0);
  close(inside);
}

Inside::~Inside() {
  EXPECT_EQ(setns(outside_, CLONE_NEWNET), 0);
  close(outside_);
}

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

VethTest::VethTest()
    : ours_("tributary_a" + std::to_string(getpid())),
      theirs_("tributary_b" + std::to_string(getpid())) {}

VethTest::~VethTest() {
  run("ip netns del " + ours_);
  run("ip netns del " + theirs_);
}

void VethTest::SetUp() {
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

void expect_trio_ml_sums(const std::string& ours, const std::string& theirs,
                         const std::string& port, uint16_t gradients) {
  std::unique_ptr<Process> server;
  {
    const Inside inside(ours);
    server = std::make_unique<Process>(std::vector<std::string>{
        "serve", "--job", "id=1,sources=2,block_grad_max=" + std::to_string(gradients), "--port",
        port});
  }
  ASSERT_TRUE(server->wait_for_line("ready")) << server->errors();
  const Inside inside(theirs);
  // The kernel on the other end sends ARP requests, leaves the UDP checksum to a missing card, and
  // checks our checksums.
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

}  // namespace tributary::system_test
