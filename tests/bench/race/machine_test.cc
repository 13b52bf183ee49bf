// SPDX-License-Identifier: Apache-2.0
#include "bench/race/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace tributary::race {
namespace {

TEST(Machine, ProcessorIsTheModelName) {
  EXPECT_EQ(processor_in("processor\t: 0\nmodel name\t: A Fast One @ 3 GHz\nmodel name\t: B\n"),
            "A Fast One @ 3 GHz");
  EXPECT_EQ(processor_in("processor\t: 0\n"), "");
  EXPECT_EQ(processor_in(""), "");
}

TEST(Machine, ReportsCoresAndKernelOfThisMachine) {
  const Machine machine = observe_machine();
  EXPECT_GE(machine.cores, 1U);
  EXPECT_FALSE(machine.kernel.empty());
}

TEST(Machine, MeasuresAHandOffBetweenTwoCoresOnly) {
  const double handoff_ns = measure_handoff();
  EXPECT_EQ(handoff_ns > 0, observe_machine().cores > 1);
}

TEST(Machine, ReadsCpuTimeOfExistingProcessesOnly) {
  const double before_s = cpu_seconds_of(getpid());
  EXPECT_GT(before_s, 0);
  EXPECT_GE(cpu_seconds_of(getpid()), before_s);
  EXPECT_EQ(cpu_seconds_of(999'999'999), 0);
  EXPECT_GE(PacketThreads().cpu_seconds(), 0);
}

}  // namespace
}  // namespace tributary::race
