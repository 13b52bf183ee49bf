// SPDX-License-Identifier: Apache-2.0
// Method:  a small run of all modes. Asserts only results that do not depend on the machine's
//          speed.
#include "bench/auth_bench.h"

#include <gtest/gtest.h>

#include "auth/gmac.h"

namespace tributary::bench {
namespace {

TEST(AuthBench, EveryModeAndSizeHasARowInWhichAllSumsAreComplete) {
  const AuthBenchConfig config{.packet_bytes = {64, 1472}, .repetitions = 2, .bytes_each = 100'000};
  const auto rows = run_auth_bench(config, [](const std::string&) {});
  ASSERT_EQ(rows.size(), auth::Gmac::is_available() ? 6U : 4U);
  for (const AuthBenchRow& row : rows) {
    SCOPED_TRACE(auth::to_string(row.mode));
    EXPECT_TRUE(row.all_in_place);
    EXPECT_GT(row.goodput_ratio, 0);
    const bool has_mac = row.mode != auth::Mode::kNone;
    EXPECT_EQ(row.ns_per_packet > 0, has_mac);
    EXPECT_EQ(row.library_ns > 0, has_mac);
    EXPECT_EQ(row.ratio_to_sum > 0, has_mac);
  }
  const auto json = as_json(rows);
  EXPECT_EQ(json["bench"], "auth");
  ASSERT_EQ(json["rows"].size(), rows.size());
  for (const char* key :
       {"mode", "packet_bytes", "ns_per_packet", "library_ns", "ratio_to_sum", "goodput_ratio"}) {
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  }
}

}  // namespace
}  // namespace tributary::bench
