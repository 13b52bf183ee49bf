// SPDX-License-Identifier: Apache-2.0
// Method:  the children are short shell commands, and a shell plays the aggregator. run_launch()
//          sleeps in poll() until they print or end.
#include "cli/launch/launch_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/scratch_directory.h"

namespace tributary::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A temporary file and its content.
class Captured {
 public:
  ~Captured() { std::fclose(file_); }
  [[nodiscard]] std::FILE* file() const { return file_; }
  [[nodiscard]] std::string text() const {
    std::string all(4096, '\0');
    std::rewind(file_);
    all.resize(std::fread(all.data(), 1, all.size(), file_));
    return all;
  }

 private:
  std::FILE* const file_ = std::tmpfile();
};

ProgramPlan shell(const std::string& name, const std::string& command) {
  return {.name = name,
          .program = "/bin/sh",
          .arguments = {"-c", command},
          .environment = {"WHO=" + name}};
}

/// Makes each command a rank.
LaunchPlan plan_of(const std::vector<std::string>& commands) {
  LaunchPlan plan;
  for (const std::string& command : commands) {
    plan.ranks.push_back(shell("rank " + std::to_string(plan.ranks.size()), command));
  }
  return plan;
}

/// A command that never ends.
const std::string kForEver = "exec tail -f /dev/null";
/// An aggregator that ends when it is asked to.
const std::string kServed = "trap 'kill $!; exit 0' TERM; echo ready; tail -f /dev/null & wait";

class LaunchRun : public ::testing::Test {
 protected:
  int run(const LaunchPlan& plan, bool keep_going = false) {
    return run_launch(plan, keep_going, out_.file(), err_.file());
  }
  Captured out_;
  Captured err_;
};

TEST_F(LaunchRun, PrefixesLinesWithTheirRank) {
  EXPECT_EQ(run(plan_of({"echo one; echo two", "echo oh dear >&2; printf unfinished"})), 0);
  EXPECT_THAT(out_.text(),
              AllOf(HasSubstr("[0] one\n"), HasSubstr("[0] two\n"), HasSubstr("[1] unfinished\n")));
  EXPECT_EQ(err_.text(), "[1] oh dear\n");
}

// A progress bar overwrites its line until it is complete.
TEST_F(LaunchRun, StepsOfAProgressBarArePassedOn) {
  EXPECT_EQ(run(plan_of({R"(printf '\r 10 %%\r 20 %%' >&2; printf '\r100 %%\n' >&2)",
                         R"(printf 'one\r\ntwo\r')"})),
            0);
  EXPECT_EQ(err_.text(), "[0]  10 %\r[0]  20 %\r[0] 100 %\n");
  EXPECT_EQ(out_.text(), "[1] one\n[1] two\r");
}

TEST_F(LaunchRun, ChildrenInheritAndExtendTheEnvironment) {
  setenv("TRIB_TEST_KEPT", "kept", 1);
  EXPECT_EQ(run(plan_of({"echo $WHO, $TRIB_TEST_KEPT"})), 0);
  EXPECT_EQ(out_.text(), "[0] rank 0, kept\n");
}

TEST_F(LaunchRun, FailingRankEndsAllAndIsNamed) {
  EXPECT_EQ(run(plan_of({kForEver, "exit 3", kForEver})), 3);
  EXPECT_EQ(err_.text(),
            "tributary launch: rank 1 ended with exit status 3; ending the other ranks\n");
}

TEST_F(LaunchRun, RankAtFaultIsNamedAlthoughItsVictimsEndFirst) {
  // Rank 1 ends when rank 0 has: its end closes the pipe that rank 1 reads.
  testing::ScratchDirectory folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(run(plan_of({"exec 3>" + pipe + "; exit 75", "read line <" + pipe + "; exit 3"})), 3);
  EXPECT_THAT(err_.text(), StartsWith("tributary launch: rank 1 ended with exit status 3"));
}

TEST_F(LaunchRun, VictimIsNamedIfNoRankIsAtFault) {
  EXPECT_EQ(run(plan_of({"exit 75"})), 75);
  EXPECT_EQ(err_.text(),
            "tributary launch: rank 0 ended with exit status 75, because of another rank or the "
            "aggregator\n");
}

TEST_F(LaunchRun, RanksThatEndedWellBeforeTheVictimAreNamed) {
  // Rank 1 fails when ranks 0 and 2 have ended: each end closes a pipe that it reads. A pipe opens
  // only when both ends do.
  testing::ScratchDirectory folder;
  const std::string first = folder.path() / "first";
  const std::string second = folder.path() / "second";
  for (const std::string& pipe : {first, second}) ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto holds = [](const std::string& pipe) { return "exec 3>" + pipe + "; exit 0"; };
  const std::string reads = "read line <" + first + "; read line <" + second + "; exit 75";
  EXPECT_EQ(run(plan_of({holds(first), reads, holds(second)})), 75);
  EXPECT_EQ(err_.text(),
            "tributary launch: rank 1 ended with exit status 75, because of another rank or the "
            "aggregator; ended with exit status 0: rank 0, rank 2\n");
}

TEST_F(LaunchRun, FailingCheckIsQuotedAndNothingStarts) {
  LaunchPlan plan = plan_of({"echo working"});
  plan.check = shell("the check", "echo no torch >&2; exit 2");
  plan.aggregators.push_back(shell("the aggregator", "echo served >&2; echo ready; " + kForEver));
  EXPECT_EQ(run(plan), 2);
  EXPECT_EQ(out_.text(), "");
  EXPECT_EQ(err_.text(), "tributary launch: no torch\n");
}

TEST_F(LaunchRun, RanksStartAfterACheckThatPasses) {
  LaunchPlan plan = plan_of({"echo working"});
  plan.check = shell("the check", "exit 0");
  EXPECT_EQ(run(plan), 0);
  EXPECT_EQ(out_.text(), "[0] working\n");
}

TEST_F(LaunchRun, KilledRankGivesTheShellsStatus) {
  EXPECT_EQ(run(plan_of({"kill -9 $$", kForEver})), 128 + SIGKILL);
  EXPECT_THAT(err_.text(), HasSubstr("rank 0 ended with signal 9"));
}

TEST_F(LaunchRun, KeepGoingKeepsTheOtherRanksRunning) {
  EXPECT_EQ(run(plan_of({"exit 4", "echo still here"}), true), 4);
  EXPECT_EQ(out_.text(), "[1] still here\n");
  EXPECT_EQ(err_.text(), "tributary launch: rank 0 ended with exit status 4\n");
}

TEST_F(LaunchRun, RanksWaitForTheAggregator) {
  LaunchPlan plan = plan_of({"echo working"});
  plan.aggregators.push_back(shell("the aggregator", "echo ready; " + kForEver));
  // `tail` dies of SIGTERM, but an aggregator must exit after it.
  EXPECT_EQ(run(plan), 1);
  EXPECT_EQ(out_.text(), "[0] working\n");
  EXPECT_THAT(err_.text(), HasSubstr("the aggregator ended with signal 15"));
}

TEST_F(LaunchRun, RanksStartWhenAllAggregatorsAreReady) {
  LaunchPlan plan = plan_of({"echo working"});
  plan.aggregators.push_back(shell("aggregator 0", kServed));
  plan.aggregators.push_back(shell("aggregator 1", kServed));
  EXPECT_EQ(run(plan), 0) << err_.text();
  EXPECT_EQ(out_.text(), "[0] working\n");
}

TEST_F(LaunchRun, OneOfSeveralAggregatorsThatRefusesIsNamed) {
  LaunchPlan plan = plan_of({"echo working"});
  plan.aggregators.push_back(shell("aggregator 0", "echo ready; " + kForEver));
  plan.aggregators.push_back(shell("aggregator 1", "exit 2"));
  EXPECT_EQ(run(plan), 1);
  EXPECT_EQ(out_.text(), "");
  EXPECT_THAT(err_.text(), HasSubstr("aggregator 1 ended with exit status 2"));
}

TEST_F(LaunchRun, RefusingAggregatorIsQuotedAndNoRankStarts) {
  LaunchPlan plan = plan_of({"echo working"});
  plan.aggregators.push_back(shell("the aggregator", "echo no such window >&2; exit 2"));
  EXPECT_EQ(run(plan), 1);
  EXPECT_EQ(out_.text(), "");
  EXPECT_THAT(err_.text(), AllOf(HasSubstr("[aggregator] no such window"),
                                 HasSubstr("the aggregator ended with exit status 2")));
}

TEST_F(LaunchRun, DyingAggregatorEndsTheRanks) {
  LaunchPlan plan = plan_of({kForEver});
  plan.aggregators.push_back(shell("the aggregator", "echo ready; kill -9 $$"));
  EXPECT_EQ(run(plan), 1);
  EXPECT_THAT(err_.text(), HasSubstr("the aggregator ended with signal 9"));
}

/// Two aggregators and a rank. Aggregator 1 kills itself when the rank has started.
class LaunchWithALoss : public LaunchRun {
 protected:
  LaunchWithALoss() { EXPECT_EQ(mkfifo(pipe_.c_str(), 0600), 0); }
  /// @param rank What the rank does when the launcher knows of the loss: it has reaped aggregator
  ///             1.
  LaunchPlan plan_of_loss(const std::string& other, const std::string& rank) {
    LaunchPlan plan = plan_of({"echo >" + pipe_ + "; " + until_lost() + "; " + rank});
    plan.shares = 2;
    plan.aggregators.push_back(shell("aggregator 0", other));
    plan.aggregators.push_back(shell(
        "aggregator 1", "echo $$ >" + pid_ + "; echo ready; read line <" + pipe_ + "; kill -9 $$"));
    plan.aggregators[0].share = "10.0.0.1:12000";
    plan.aggregators[1].share = "10.0.0.2:12000";
    return plan;
  }
  [[nodiscard]] std::string until_lost() const {
    return "while test ! -s " + pid_ + " || kill -0 $(cat " + pid_ + "); do :; done 2>/dev/null";
  }

  testing::ScratchDirectory folder_;
  const std::string pipe_ = folder_.path() / "pipe";
  const std::string pid_ = folder_.path() / "pid";
};

TEST_F(LaunchWithALoss, RanksOfAnotherAggregatorGoOn) {
  EXPECT_EQ(run(plan_of_loss(kServed, "echo still here")), 0);
  EXPECT_EQ(out_.text(), "[0] still here\n");
  EXPECT_EQ(err_.text(),
            "tributary launch: aggregator 1 ended with signal 9 (Killed); it had the share of "
            "10.0.0.2:12000; 1 of 2 shares are left to ranks that join again, as with "
            "tributary.torch.rejoin()\n");
}

TEST_F(LaunchWithALoss, RankThatDoesNotGoOnNamesTheLoss) {
  EXPECT_EQ(run(plan_of_loss(kServed, "exit 75")), 75);
  EXPECT_THAT(err_.text(), HasSubstr("rank 0 ended with exit status 75, because aggregator 1 ended "
                                     "with signal 9 (Killed)"));
}

TEST_F(LaunchWithALoss, LossOfTheLastAggregatorEndsTheRanks) {
  EXPECT_EQ(run(plan_of_loss("echo ready; " + until_lost() + "; kill -9 $$", kForEver)), 1);
  EXPECT_THAT(err_.text(), AllOf(HasSubstr("aggregator 1 ended with signal 9 (Killed); it had"),
                                 HasSubstr("aggregator 0 ended with signal 9 (Killed); ending the "
                                           "other ranks")));
}

// Two aggregators of one share: a lower one and the one above it.
TEST_F(LaunchWithALoss, AggregatorsOfOneShareCountOnce) {
  LaunchPlan plan =
      plan_of_loss("echo ready; " + until_lost() + "; kill -9 $$", until_lost() + "; " + kForEver);
  plan.aggregators.push_back(plan.aggregators[0]);
  plan.aggregators[0].share = plan.aggregators[1].share;
  EXPECT_EQ(run(plan), 1);
  EXPECT_THAT(err_.text(), HasSubstr("ending the other ranks"));
}

TEST_F(LaunchRun, ForwardsSignals) {
  // The child sends the signal to its parent, this process.
  EXPECT_EQ(run(plan_of({"trap 'echo told; exit 0' INT; kill -INT $PPID; while :; do :; done"})),
            128 + SIGINT);
  EXPECT_EQ(out_.text(), "[0] told\n");
  EXPECT_THAT(err_.text(), HasSubstr("passed on to the ranks"));
}

TEST_F(LaunchRun, ErrorNamesAMissingProgram) {
  LaunchPlan plan = plan_of({"true"});
  plan.ranks[0].program = "/no/such/program";
  EXPECT_EQ(run(plan), 127);
  EXPECT_THAT(err_.text(), AllOf(HasSubstr("[0] /no/such/program: No such file"),
                                 HasSubstr("rank 0 ended with")));
}

}  // namespace
}  // namespace tributary::cli
