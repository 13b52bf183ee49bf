// SPDX-License-Identifier: Apache-2.0
// A sweep file: an accepted one has as many points as its lists give.
#include "lab/sweep/sweep_file.h"

#include <algorithm>
#include <charconv>

#include "lab/scenario_file.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

/// Larger sweeps are allowed, but say nothing new and take long.
constexpr uint64_t kPointsMax = 200;

/// Returns an upper bound on the number of points.
uint64_t points_of(std::span<const WrittenKey> keys) {
  uint64_t points = 1;
  for (const WrittenKey& key : keys) {
    if (!key.name.starts_with("sweep.")) continue;
    uint64_t factor = 1 + static_cast<uint64_t>(std::ranges::count(key.text, ','));
    if (key.name == "sweep.repeat") {
      std::from_chars(key.text.data(), key.text.data() + key.text.size(), factor);
    }
    points = std::min<uint64_t>(points * std::min<uint64_t>(factor, UINT32_MAX), UINT32_MAX);
  }
  return points;
}

void run(std::span<const uint8_t> input) {
  const InputFile file(input);
  const auto keys = lab::read_keys(file.path());
  if (!keys || points_of(*keys) > kPointsMax) return;
  const auto sweep = lab::make_sweep(*keys, {}, file.path());
  if (!sweep) {
    EXPECT_LE(sweep.error().text.size(), error_bytes_max(input.size()));
    return;
  }
  EXPECT_LE(sweep->points.size(), kPointsMax);
  EXPECT_EQ(sweep->points.size(), sweep->values.size());
  EXPECT_TRUE(!sweep->keys.empty() || sweep->repeats > 1);
}

std::vector<Bytes> seeds() {
  return {input_of_text("backend = \"trio-ml\"\n[sweep]\nworkers = [2, 4]\nrepeat = 3\n"),
          input_of_text("[sweep]\nmodel.name = [\"resnet50\", \"vgg11\"]\n"
                        "straggler.probability = [0, 0.08, 0.16]\n"),
          input_of_text("seed = 7\n[sweep]\nrepeat = 2\n")};
}

TRIB_FUZZ_TARGET(sweep_file);

}  // namespace
}  // namespace tributary::fuzz
