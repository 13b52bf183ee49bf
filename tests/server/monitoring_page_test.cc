// SPDX-License-Identifier: Apache-2.0
// Method: reads docs/monitoring.md, and expects each name of a counter or of a reason in the log.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "apps/trio_ml/counters.h"
#include "server/snapshot.h"
#include "wire/trio_ml.h"

namespace tributary::server {
namespace {

using wire::Reason;

/// The reasons of a refused join: a kRefusal of this aggregator or its upper one, and a taken rank.
constexpr std::array<Reason, 15> kJoinRefusals{
    Reason::kUnknownJob,   Reason::kSourceOutsideJob, Reason::kWrongWorld,
    Reason::kRankTaken,    Reason::kTooManyGradients, Reason::kTooFewGradients,
    Reason::kPlainClients, Reason::kServerStopped,    Reason::kAuthentication,
    Reason::kListsDiffer,  Reason::kOtherTraining,    Reason::kJobRemoved,
    Reason::kEvicted,      Reason::kOtherVersion,     Reason::kRanksOverlap};

class MonitoringPage : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(TRIBUTARY_MONITORING_PAGE);
    page_.assign(std::istreambuf_iterator<char>(file), {});
    ASSERT_FALSE(page_.empty()) << TRIBUTARY_MONITORING_PAGE;
  }
  [[nodiscard]] bool has(const std::string& name, const std::string& text) const {
    return text.find("`" + name + "`") != std::string::npos;
  }
  std::string page_;
};

TEST_F(MonitoringPage, DescribesEachCounter) {
  const size_t from = page_.find("## Reading the counters");
  ASSERT_NE(from, std::string::npos);
  const std::string section = page_.substr(from);
  Snapshot snapshot;
  snapshot.add_all(trio_ml::Counters(), trio_ml::Outcome::kNotIp);
  EXPECT_EQ(snapshot.outcomes.size(), trio_ml::kOutcomeCount);
  for (const auto& outcome : snapshot.outcomes) {
    EXPECT_TRUE(has(outcome.name, section)) << outcome.name;
  }
}

TEST_F(MonitoringPage, DescribesEachReasonOfARefusedJoin) {
  const size_t from = page_.find("| `join_refused` |");
  ASSERT_NE(from, std::string::npos);
  const std::string row = page_.substr(from, page_.find('\n', from) - from);
  for (const Reason reason : kJoinRefusals) {
    const std::string name = wire::to_string(reason);
    EXPECT_TRUE(has(name, row)) << name;
  }
}

}  // namespace
}  // namespace tributary::server
