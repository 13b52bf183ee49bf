// SPDX-License-Identifier: Apache-2.0
// A scenario file: what is accepted, written as text, reads back as the same text.
#include "lab/scenario_file.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const InputFile file(input);
  const auto keys = lab::read_keys(file.path());
  if (!keys) return;
  const auto scenario = lab::make_scenario(std::span<const WrittenKey>(*keys));
  if (!scenario) {
    EXPECT_LE(scenario.error().text.size(), error_bytes_max(input.size()));
    return;
  }
  const std::string text = lab::scenario_text(*scenario);
  const InputFile again(input_of_text(text));
  const auto read_back = lab::read_keys(again.path());
  ASSERT_TRUE(read_back.has_value()) << read_back.error().text;
  const auto same = lab::make_scenario(std::span<const WrittenKey>(*read_back));
  ASSERT_TRUE(same.has_value()) << same.error().text << " in\n" << text;
  EXPECT_EQ(lab::scenario_text(*same), text);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all{input_of_text(lab::scenario_text({}))};
  // One short seed for each key, so that the fuzzer learns the names.
  for (const lab::ScenarioKey& key : lab::scenario_keys()) {
    std::string value = key.show({});
    const bool text = key.spec.type == KeyType::kText || key.spec.type == KeyType::kEndpoint;
    if (text) value = "\"" + (key.names.empty() ? value : key.names.back()) + "\"";
    all.push_back(input_of_text(std::string(key.spec.name) + " = " + value + "\n"));
  }
  return all;
}

TRIB_FUZZ_TARGET(scenario);

}  // namespace
}  // namespace tributary::fuzz
