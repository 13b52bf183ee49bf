// SPDX-License-Identifier: Apache-2.0
// Method: a right run of three packets by hand, then the same run with one wrong number at a time.
#include "lab/program_faults/judges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory_file.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<WirePacket> three_packets() {
  ProgramFaultPlan plan;
  plan.traffic.packets = 3;
  plan.traffic.background.flows = 1;
  return faulty_traffic(plan)->packets;
}

MachineRun right_run(const std::vector<WirePacket>& packets) {
  auto capture = io::MemoryFile::create();
  auto records = io::MemoryFile::create();
  EXPECT_TRUE(write_capture(packets, capture->path()));
  const programs::Program& telemetry = *programs::find_program("telemetry");
  auto end = telemetry.run(*telemetry.settings().read({}, ""),
                           {.in = capture->path(), .records = records->path()});
  EXPECT_TRUE(end);
  return {.end = *std::move(end), .forwarded = {}, .records = *records->read()};
}

std::vector<std::string> judged(const MachineRun& run, const std::vector<WirePacket>& packets) {
  std::vector<std::string> breaches;
  judge_outcomes(run, packets.size(), breaches);
  judge_records(run, packets, breaches);
  return breaches;
}

TEST(Judges, AcceptARightRun) {
  const auto packets = three_packets();
  EXPECT_THAT(judged(right_run(packets), packets), IsEmpty());
}

TEST(Judges, MissAnOutcomeAndAForwardedPacket) {
  const auto packets = three_packets();
  MachineRun run = right_run(packets);
  run.end.report.outcomes[0].counter.packets--;
  EXPECT_THAT(judged(run, packets), SizeIs(2));  // The outcomes and the records disagree.
  run = right_run(packets);
  run.end.report.output.forwarded--;
  EXPECT_THAT(judged(run, packets), ::testing::ElementsAre(HasSubstr("2 forwarded and 0 dropped")));
}

TEST(Judges, MissARecordAndRefuseADoubleOne) {
  const auto packets = three_packets();
  MachineRun run = right_run(packets);
  run.records += run.records;
  EXPECT_THAT(judged(run, packets), Not(IsEmpty()));
  run.records.clear();
  EXPECT_THAT(judged(run, packets), Contains(HasSubstr("flows have records")));
}

}  // namespace
}  // namespace tributary::lab
