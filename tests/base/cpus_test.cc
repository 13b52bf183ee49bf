// SPDX-License-Identifier: Apache-2.0
// Method: hand-written lists, and this machine's own CPUs.
#include "base/cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array kAllowed{0, 1, 2, 3, 5, 8};

std::string refusal(const std::string& list) {
  const auto cpus = parse_cpus(list, kAllowed);
  return cpus ? "" : cpus.error().text;
}

TEST(ParseCpus, ReadsNumbersAndRanges) {
  EXPECT_THAT(*parse_cpus("3", kAllowed), ElementsAre(3));
  EXPECT_THAT(*parse_cpus("8,0-2", kAllowed), ElementsAre(8, 0, 1, 2));
  EXPECT_THAT(*parse_cpus("5-5", kAllowed), ElementsAre(5));
}

TEST(ParseCpus, RefusalsNameTheCpusAllowed) {
  EXPECT_EQ(refusal("x"),
            "'x' is not a CPU or a range of CPUs; allowed: a list such as 0-2,5 of the CPUs 0, 1, "
            "2, 3, 5, 8");
  for (const char* bad :
       {"", ",", "1,", "-1", "1-", "-", "3-1", "1.5", "0x1", "99999", "1-99999"}) {
    EXPECT_THAT(refusal(bad), HasSubstr("is not a CPU or a range")) << bad;
  }
  EXPECT_THAT(refusal("3-5"), HasSubstr("'3-5' has a CPU on which this process may not run"));
  EXPECT_THAT(refusal("0-2,1"), HasSubstr("'1' has a CPU that the list has already"));
}

TEST(ThreadCpuTime, GrowsWithTheThreadsWork) {
  const Duration before = thread_cpu_time();
  while (thread_cpu_time() - before < milliseconds(1)) {
  }
  EXPECT_GE(thread_cpu_time() - before, milliseconds(1));
}

/// Returns this thread's time slice in nanoseconds; 0: the kernel does not tell it.
uint64_t slice_ns() {
  std::array<uint64_t, 6> attributes{};  // struct sched_attr, 48 bytes.
  if (syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0) != 0) return 0;
  return attributes[3];  // sched_runtime
}

TEST(TakeShortSlices, ConcernsTheCallingThreadOnly) {
  const uint64_t before = slice_ns();
  if (before == 0) GTEST_SKIP() << "Linux has slices of threads from 6.12 on";
  uint64_t taken = 0;
  std::thread([&] {
    take_short_slices();
    taken = slice_ns();
  }).join();
  EXPECT_EQ(taken, 100'000U);
  EXPECT_EQ(slice_ns(), before);
}

TEST(PinToCpu, PinsOnlyTheCallingThread) {
  const std::vector<int> before = cpus_allowed();
  ASSERT_FALSE(before.empty());
  std::vector<int> pinned;
  std::thread([&] {
    pin_to_cpu(before.back());
    pinned = cpus_allowed();
  }).join();
  EXPECT_EQ(pinned, std::vector<int>{before.back()});
  EXPECT_EQ(cpus_allowed(), before);
}

}  // namespace
}  // namespace tributary
