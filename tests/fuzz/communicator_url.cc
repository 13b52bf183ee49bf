// SPDX-License-Identifier: Apache-2.0
// A communicator's URL, with the input in the environment as well. Accepted values lie in the
// ranges that a protocol relies on.
#include "host/communicator_url.h"

#include "tests/fuzz/input_file.h"
#include "wire/trio_ml.h"

namespace tributary::fuzz {
namespace {

void check_url(std::string_view url, const host::Environment& environment) {
  const auto parsed = host::parse_communicator_url(url, environment);
  if (!parsed) {
    EXPECT_LE(parsed.error().text.size(), error_bytes_max(url.size()));
    return;
  }
  const host::CommunicatorConfig& config = parsed->config;
  ASSERT_FALSE(parsed->config.aggregators.empty());
  EXPECT_LE(parsed->config.aggregators.size(), host::kAggregatorsMax);
  EXPECT_GE(config.world, 1U);
  EXPECT_LE(config.world, wire::kSourcesMax);
  EXPECT_LT(config.rank, config.world);
  EXPECT_LE(config.gradients, wire::kGradientsMax);
  EXPECT_GE(config.threads, 1U);
  EXPECT_LE(config.threads, wire::kChannelsMax);
  EXPECT_GT(config.deadline, Duration());
  EXPECT_GE(parsed->loss, 0.0);
  EXPECT_LE(parsed->loss, 1.0);
}

void run(std::span<const uint8_t> input) {
  const std::string text(text_of_input(input));
  check_url(text, [](const char*) { return std::string(); });
  check_url("tributary://h?rank=0&world=2&" + text, [](const char*) { return std::string(); });
  check_url("tributary://h", [&text](const char*) { return text; });
}

std::vector<Bytes> seeds() {
  return {input_of_text("tributary://aggregator:12000/job/7?rank=1&world=4"),
          input_of_text("tributary://[fd00::1]?rank=0&world=1&gradients=352&window=64&threads=2"),
          input_of_text("deadline_s=1.5&format=fixed&scale=1e6&op=mean&loss=0.01"),
          input_of_text("3"), input_of_text("tributary://10.0.0.1/job/0?source=3")};
}

TRIB_FUZZ_TARGET(communicator_url);

}  // namespace
}  // namespace tributary::fuzz
