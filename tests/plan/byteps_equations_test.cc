// SPDX-License-Identifier: Apache-2.0
// Method: the paper's own sums: shares that add up to the tensor (equation 5), link times that are
//         equal (equations 3 and 4), its example of n = 32, and the bounds at k = 0 and k = n.
#include "plan/byteps_equations.h"

#include <gtest/gtest.h>

namespace tributary::plan {
namespace {

TEST(BytepsEquations, SharesAddUpAndLinksAreBusyAlike) {
  for (uint32_t n = 2; n <= 64; n++) {
    for (uint32_t k = 0; k <= n; k++) {
      const double spare = byteps_spare_share(n, k);
      const double worker = byteps_worker_share(n, k);
      ASSERT_NEAR(k * spare + n * worker, 1, 1e-12) << n << " workers, " << k << " spares";
      ASSERT_NEAR(1 + (n - 2.0) * worker, byteps_optimum(n, k), 1e-12);
      // A spare machine serves n workers. Equation 4 as printed lacks this factor.
      if (k > 0) {
        ASSERT_NEAR(n * spare, byteps_optimum(n, k), 1e-12);
      }
    }
  }
}

TEST(BytepsEquations, BoundsAreTheRingAndOneTensor) {
  for (uint32_t n = 2; n <= 64; n++) {
    EXPECT_DOUBLE_EQ(byteps_optimum(n, 0), best_ring(n));
    EXPECT_DOUBLE_EQ(byteps_optimum(n, n), 1);
    EXPECT_DOUBLE_EQ(byteps_optimum(n, n + 5), 1);
    EXPECT_DOUBLE_EQ(byteps_worker_share(n, n), 0);
  }
}

TEST(BytepsEquations, PapersExample) {
  // §4.1.1: "when n = 32 and k = 16, we have γa = 1.46 and γp = 1.52".
  EXPECT_NEAR(best_ring(32) / byteps_optimum(32, 16), 1.46, 0.01);
  const double servers_alone = 32.0 / 16;  // nM / kB
  EXPECT_NEAR(servers_alone / byteps_optimum(32, 16), 1.52, 0.01);
}

}  // namespace
}  // namespace tributary::plan
