// SPDX-License-Identifier: Apache-2.0
// Method: commands that succeed or fail as the test says; the lines of the log are compared.
#include "server/log/logged_jobs.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "io/file_descriptor.h"

namespace tributary::server {
namespace {

class Answering final : public JobControl {
 public:
  JobResult answer = {};

  [[nodiscard]] std::optional<RunningJob> find_job(uint32_t) const override { return {}; }
  JobResult add_job(const trio_ml::JobConfig&) override { return answer; }
  JobResult remove_job(uint32_t, bool) override { return answer; }
  JobResult drain_job(uint32_t) override { return answer; }
  JobResult change_job(uint32_t, const JobChange&) override { return answer; }
  JobResult evict_source(uint32_t, uint32_t) override { return answer; }
};

class LoggedJobsTest : public ::testing::Test {
 protected:
  /// Returns the newest line without its time.
  nlohmann::ordered_json last_line() const {
    nlohmann::ordered_json line = log_.recent().back();
    line.erase("time");
    return line;
  }

  const io::FileDescriptor nowhere_{open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Log log_{{.file = nowhere_.get()}};
  Answering commands_;
  LoggedJobs jobs_{commands_, log_};
};

TEST_F(LoggedJobsTest, EachCommandHasALine) {
  EXPECT_TRUE(jobs_.add_job({.id = 7, .sources = 4}).has_value());
  EXPECT_EQ(last_line().dump(), R"({"level":"info","event":"job_added","job":7,"sources":4})");
  EXPECT_TRUE(jobs_.remove_job(7, true).has_value());
  EXPECT_EQ(last_line().dump(), R"({"level":"info","event":"job_removed","job":7,"force":true})");
  EXPECT_TRUE(jobs_.drain_job(7).has_value());
  EXPECT_EQ(last_line().dump(), R"({"level":"info","event":"job_draining","job":7})");
  EXPECT_TRUE(jobs_.change_job(7, {.timeout = milliseconds(30)}).has_value());
  EXPECT_EQ(last_line().dump(),
            R"({"level":"info","event":"job_timeout_changed","job":7,"timeout_ms":30})");
  EXPECT_TRUE(jobs_.change_job(7, {.silence = trio_ml::Silence::kExclude}).has_value());
  EXPECT_EQ(last_line().dump(),
            R"({"level":"info","event":"job_silence_changed","job":7,"silence":"exclude"})");
  EXPECT_TRUE(jobs_.evict_source(7, 2).has_value());
  EXPECT_EQ(last_line().dump(), R"({"level":"info","event":"source_evicted","job":7,"source":2})");
}

TEST_F(LoggedJobsTest, RefusedCommandHasItsReason) {
  commands_.answer = tl::unexpected<JobError>(JobError{JobFault::kInUse, "job 7 is in use"});
  const JobResult result = jobs_.remove_job(7, false);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().fault, JobFault::kInUse);
  EXPECT_EQ(last_line().dump(),
            R"({"level":"warn","event":"command_refused","job":7,"force":false,)"
            R"("command":"job_removed","error":"job 7 is in use"})");
}

}  // namespace
}  // namespace tributary::server
