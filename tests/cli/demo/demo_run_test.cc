// SPDX-License-Identifier: Apache-2.0
// Method:  a shell script replaces the program, so that a child can behave in every possible way.
//          It is called as `PROGRAM serve …` and `PROGRAM demo-worker …`.
#include "cli/demo/demo_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/demo/demo.h"
#include "tests/support/scratch_directory.h"

namespace tributary::demo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// An aggregator that is ready at once and writes its file when asked to end.
constexpr const char* kGoodServe = R"(
  while [ $# -gt 0 ]; do [ "$1" = --json ] && file=$2; [ "$1" = --job ] && job=$2; shift; done
  trap 'echo "{\"job\": \"$job\"}" > $file; exit 0' TERM
  echo ready
  while :; do sleep 0.01; done)";

/// A worker with one iteration and correct sums. It needs the ledger.
std::string good_worker() {
  const std::string record = encode(IterationRecord{.iteration = 0, .seconds = 0.5, .loss = 3.0});
  const std::string report =
      encode(WorkerReport{.parameter_checksum = 1, .sums = {.checked = 10}, .counters = {}});
  return fmt::format(R"(
  while [ $# -gt 0 ]; do [ "$1" = --ledger ] && ledger=$2; shift; done
  [ -s $ledger ] || {{ echo no ledger >&2; exit 1; }}
  echo '{}'; echo '{}')",
                     record, report);
}

class DemoRunTest : public ::testing::Test {
 protected:
  /// Writes the stand-in program from the bodies of its two commands.
  DemoConfig with_program(const std::string& serve, const std::string& worker) {
    const std::string path =
        scratch_.file("program", "#!/bin/sh\nverb=$1; shift\ncase $verb in\nserve) " + serve +
                                     "\n;;\ndemo-worker) " + worker + "\n;;\nesac\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return {.output_directory = scratch_.path(), .program = path, .iterations = 1};
  }
  Result<RunResult> execute(const DemoConfig& config) {
    return execute_run(config, plan_,
                       {.progress = [this](const RunProgress&) { progress_++; },
                        .interrupted = [this] { return interrupted_; }});
  }

  const testing::ScratchDirectory scratch_;
  RunPlan plan_{.key = "key", .title = "title", .mitigation_ms = 17};
  bool interrupted_ = false;
  uint32_t progress_ = 0;
};

TEST_F(DemoRunTest, GoodRunCollectsAllReports) {
  const auto run = execute(with_program(kGoodServe, good_worker()));
  ASSERT_TRUE(run) << run.error().text;
  ASSERT_EQ(run->reports.size(), 4);
  for (uint32_t rank = 0; rank < 4; rank++) {
    EXPECT_EQ(run->reports[rank].sums.checked, 10);
    ASSERT_EQ(run->records[rank].size(), 1);
    EXPECT_EQ(run->records[rank][0].loss, 3.0);
  }
  EXPECT_THAT(run->aggregator_json,
              AllOf(HasSubstr("sources=4"), HasSubstr("mitigation=on,timeout_ms=17")));
  EXPECT_GE(progress_, 1);
}

TEST_F(DemoRunTest, ErrorNamesADyingWorkerAndItsOutput) {
  const auto run = execute(with_program(
      kGoodServe, "case \"$*\" in *'--rank 2'*) echo out of paper >&2; exit 5;; esac; sleep 100"));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().text, AllOf(HasSubstr("worker 2 ended too early (exit status 5)"),
                                      HasSubstr("out of paper"), HasSubstr("'title'")));
}

TEST_F(DemoRunTest, WorkerWithoutReportIsAnError) {
  const auto run = execute(with_program(kGoodServe, "exit 0"));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().text, HasSubstr("ended too early (exit status 0)"));
}

TEST_F(DemoRunTest, ErrorNamesARefusingAggregator) {
  const auto run = execute(with_program("echo bad job >&2; exit 2", good_worker()));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().text, AllOf(HasSubstr("the aggregator ended too early (exit status 2)"),
                                      HasSubstr("bad job")));
}

TEST_F(DemoRunTest, ErrorNamesADyingAggregator) {
  const auto run = execute(with_program("echo ready; exec kill -9 $$", "exec sleep 100"));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().text, HasSubstr("the aggregator ended too early"));
}

TEST_F(DemoRunTest, ErrorQuotesAMalformedWorkerMessage) {
  const auto run = execute(with_program(kGoodServe, "echo hello there; exec sleep 100"));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().text, HasSubstr("not a worker's message: 'hello there'"));
}

TEST_F(DemoRunTest, InterruptEndsTheRun) {
  interrupted_ = true;
  const auto run = execute(with_program(kGoodServe, "exec sleep 100"));
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().text, "interrupted");
}

TEST_F(DemoRunTest, ReportNamesALateWorker) {
  DemoConfig config = with_program(kGoodServe, "exec sleep 100");
  config.run_timeout_s = 1;
  const auto run = execute(config);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().text, HasSubstr("worker 0 has not finished within 1 s"));
}

TEST_F(DemoRunTest, WholeDemoWritesItsFiles) {
  DemoConfig config = with_program(kGoodServe, good_worker());
  config.corpus = scratch_.path() / "corpus";
  std::filesystem::create_directory(config.corpus);
  ASSERT_FALSE(scratch_.file("corpus/text", std::string(20'000, 'x')).empty());
  EXPECT_EQ(run_demo(config), 0);
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "demo.json"));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "demo.svg"));
}

TEST_F(DemoRunTest, WholeDemoFailsOnOneWrongSum) {
  const std::string report = encode(
      WorkerReport{.parameter_checksum = 1, .sums = {.checked = 10, .wrong = 1}, .counters = {}});
  DemoConfig config = with_program(kGoodServe, "echo '" + report + "'");
  config.corpus = scratch_.path() / "corpus";
  std::filesystem::create_directory(config.corpus);
  ASSERT_FALSE(scratch_.file("corpus/text", std::string(20'000, 'x')).empty());
  EXPECT_EQ(run_demo(config), 1);
}

TEST_F(DemoRunTest, MissingTextIsReportedBeforeTheStart) {
  DemoConfig config = with_program("exit 9", "exit 9");
  config.corpus = "/nowhere/at/all";
  EXPECT_EQ(run_demo(config), 1);
}

}  // namespace
}  // namespace tributary::demo
