// SPDX-License-Identifier: Apache-2.0
// Method: the example of the C interface, compiled as C11, as two processes against a live
// aggregator.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/host/c_api/c_api_bed.h"
#include "tests/host/live_server.h"

namespace tributary::testing {
namespace {

TEST(CExample, TwoProcessesAverageTheirVectors) {
  const Server server(2);
  std::array<int, 2> status{-1, -1};
  std::array<std::thread, 2> threads;
  for (uint32_t rank = 0; rank < 2; rank++) {
    threads[rank] = std::thread([&, rank] {
      // 0.5, 1.5 and 2.5 are the means of the three steps.
      const std::string command = fmt::format("'{}' '{}' | grep -qx 'step 2: mean 2.5'",
                                              TRIBUTARY_C_EXAMPLE, url_of(server.local(), rank, 2));
      status[rank] = std::system(command.c_str());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(status[0], 0);
  EXPECT_EQ(status[1], 0);
}

}  // namespace
}  // namespace tributary::testing
