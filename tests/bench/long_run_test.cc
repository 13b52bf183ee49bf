// SPDX-License-Identifier: Apache-2.0
#include "bench/long_run.h"

#include <gtest/gtest.h>

#include <array>

namespace tributary::bench {
namespace {

TEST(Verdicts, OneMissedVerdictIsSeenEverywhere) {
  std::array<Verdict, 2> verdicts{{{"sums", true, "none wrong"}, {"waits", true, "none"}}};
  EXPECT_TRUE(all_hold(verdicts));
  verdicts[1].holds = false;
  EXPECT_FALSE(all_hold(verdicts));
  EXPECT_EQ(as_text(verdicts), "holds   sums: none wrong\nMISSED  waits: none\n");
  EXPECT_EQ(as_json(verdicts).dump(), R"([{"what":"sums","holds":true,"why":"none wrong"},)"
                                      R"({"what":"waits","holds":false,"why":"none"}])");
}

}  // namespace
}  // namespace tributary::bench
