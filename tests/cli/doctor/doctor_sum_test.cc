// SPDX-License-Identifier: Apache-2.0
// Method: a measurement, which must be possible and plausible on any machine; then its texts.
#include "cli/doctor/doctor_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/plan/plan_machines.h"

namespace tributary::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DoctorSum, MeasuresARateThatAPlanTakes) {
  const auto sum_gbit = measure_sum_gbit();
  ASSERT_TRUE(sum_gbit) << sum_gbit.error().text;
  EXPECT_GT(*sum_gbit, kGbitMin);
  EXPECT_LT(*sum_gbit, 1000);  // No core reads 125 GB/s.
}

TEST(DoctorSum, NamesTheFlagAndTheMachinesPart) {
  const Finding finding = describe_sum(8.1234);
  EXPECT_EQ(finding.verdict, Verdict::kOk);
  EXPECT_THAT(finding.found, AllOf(HasSubstr("8.12 Gbit/s"), HasSubstr("--sum-gbit 8.12,"),
                                   HasSubstr("@GBIT/8.12 ")));
}

TEST(DoctorSum, FailedMeasurementIsSaid) {
  const Finding finding = describe_sum(failure("no luck"));
  EXPECT_EQ(finding.verdict, Verdict::kWrong);
  EXPECT_THAT(finding.found, HasSubstr("no luck"));
}

}  // namespace
}  // namespace tributary::cli
