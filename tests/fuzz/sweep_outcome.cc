// SPDX-License-Identifier: Apache-2.0
// The outcome of a sweep's point, as a line of JSON in its store. What is accepted, written as
// JSON, reads back as the same JSON.
#include "lab/sweep/outcome.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const auto json = lab::Json::parse(text_of_input(input), nullptr, /*allow_exceptions=*/false);
  const auto outcome = lab::read_outcome(json);
  if (!outcome) return;
  const lab::Json written = lab::outcome_json(*outcome);
  const auto again = lab::read_outcome(written);
  ASSERT_TRUE(again.has_value()) << written.dump();
  EXPECT_EQ(lab::outcome_json(*again).dump(), written.dump());
}

std::vector<Bytes> seeds() {
  lab::PointOutcome plain;
  lab::PointOutcome trained;
  trained.result.iterations.resize(1);
  trained.accuracy = {{.at = milliseconds(3), .accuracy = 0.5}};
  return {input_of_text(lab::outcome_json(plain).dump()),
          input_of_text(lab::outcome_json(trained).dump()),
          input_of_text("{\"accuracy\":[[1,2]]}")};
}

TRIB_FUZZ_TARGET(sweep_outcome);

}  // namespace
}  // namespace tributary::fuzz
