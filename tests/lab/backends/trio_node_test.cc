// SPDX-License-Identifier: Apache-2.0
// Method: the limit of the headers in front of a message. 192 bytes of a packet are in its head,
// and a request to join has 12 + 20 + 80 bytes.
#include "lab/backends/trio_node.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using testing::run_well;

Scenario with_headers(double header_bytes) {
  Scenario scenario;
  scenario.backend = Backend::kTrioMlWait;
  scenario.workers = 2;
  scenario.iterations = 1;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {4096}};
  scenario.pfe.overrides = {{"header_bytes", header_bytes}};
  return scenario;
}

TEST(TrioNode, WorkersJoinBehindTheLongestHeaders) {
  EXPECT_EQ(run_well(with_headers(80)).blocks, 2U);
}

TEST(TrioNode, HeadersThatHideARequestToJoinAreRefused) {
  for (const double header_bytes : {81, 92, 128, 200}) {
    const Result<RunResult> run = run_scenario(with_headers(header_bytes));
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().text,
              fmt::format("pfe: header_bytes={} is not allowed; allowed: 0 to 80 B, with which a "
                          "packet's head holds a request to join",
                          header_bytes));
  }
}

}  // namespace
}  // namespace tributary::lab
