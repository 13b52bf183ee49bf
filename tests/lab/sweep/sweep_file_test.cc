// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/sweep_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Sweep> sweep_of(const std::string& text, const std::vector<WrittenKey>& overrides = {}) {
  const testing::ScratchDirectory scratch;
  return load_sweep(scratch.file("w.toml", text), overrides);
}

std::string refusal(const std::string& text, const std::vector<WrittenKey>& overrides = {}) {
  const auto sweep = sweep_of(text, overrides);
  return sweep ? "accepted" : sweep.error().text;
}

TEST(SweepFile, FirstListVariesSlowestAndSeedsFastest) {
  const auto sweep = sweep_of(R"(
workers = 3
seed = 10
[sweep]
window = [16, 32]
backend = ["trio-ml", "ideal"]
repeat = 2
)");
  ASSERT_TRUE(sweep) << sweep.error().text;
  EXPECT_THAT(sweep->keys, ElementsAre("window", "backend"));
  EXPECT_EQ(sweep->repeats, 2);
  ASSERT_EQ(sweep->points.size(), 8);
  EXPECT_EQ(sweep->points[0].label, "window=16 backend=trio-ml seed=10");
  EXPECT_EQ(sweep->points[1].label, "window=16 backend=trio-ml seed=11");
  EXPECT_EQ(sweep->points[2].label, "window=16 backend=ideal seed=10");
  EXPECT_EQ(sweep->points[7].label, "window=32 backend=ideal seed=11");
  EXPECT_EQ(sweep->points[7].scenario.window, 32);
  EXPECT_EQ(sweep->points[7].scenario.seed, 11);
  EXPECT_EQ(sweep->points[7].scenario.workers, 3);
  EXPECT_EQ(sweep->values[7].dump(), R"({"window":32,"backend":"ideal","seed":11})");
}

TEST(SweepFile, SingleValueIsAListOfOne) {
  const auto sweep = sweep_of("[sweep]\nwindow = 64\n");
  ASSERT_TRUE(sweep) << sweep.error().text;
  ASSERT_EQ(sweep->points.size(), 1);
  EXPECT_EQ(sweep->points[0].scenario.window, 64);
}

TEST(SweepFile, OverridesFollowTheFile) {
  const std::vector<WrittenKey> overrides{{.name = "workers", .text = "2", .where = "--set"}};
  const auto sweep = sweep_of("workers = 5\n[sweep]\nwindow = [16]\n", overrides);
  ASSERT_TRUE(sweep) << sweep.error().text;
  EXPECT_EQ(sweep->points[0].scenario.workers, 2);
}

TEST(SweepFile, RefusalsNamePlaceAndKey) {
  EXPECT_THAT(refusal("workers = 3\n"), HasSubstr("[sweep] is missing or empty"));
  EXPECT_THAT(refusal("[sweep]\nwindo = [1]\n"),
              HasSubstr("w.toml:2: unknown key 'windo' (did you mean 'window'?)"));
  EXPECT_THAT(refusal("[sweep]\nworkers = [2, 3000]\n"),
              HasSubstr("w.toml:2: workers=3000 is out of range"));
  EXPECT_THAT(refusal("capture = \"worker-0.0>switch.0=a.pcap\"\n[sweep]\nwindow = [1, 2]\n"),
              HasSubstr("w.toml: capture is not allowed in a sweep"));
  EXPECT_THAT(refusal("[sweep]\nrepeat = 0\n"), HasSubstr("repeat=0 is out of range"));
  EXPECT_THAT(refusal("[sweep]\nrepeat = 1000000\nwindow = [1, 2]\n"),
              HasSubstr("[sweep] has more than 1000000 points"));
  EXPECT_THAT(
      refusal("[sweep]\nwindow = [1]\n", {{.name = "window", .text = "2", .where = "--set"}}),
      HasSubstr("--set: window=2 is swept in the file"));
}

// Each would count the runs of one point as seeds of another, or lose the seed of a row.
TEST(SweepFile, RefusesSeedsAndValuesThatStandTwice) {
  EXPECT_THAT(refusal("[sweep]\nseed = [1, 2, 3]\n"),
              HasSubstr("w.toml:2: seed=1,2,3 cannot be swept; allowed: repeat = 3, for as many "
                        "seeds of each point, from the key seed on"));
  EXPECT_THAT(refusal("[sweep]\nmitigation.timeout_ms = [5, 10, 10.0]\nrepeat = 2\n"),
              HasSubstr("w.toml:2: mitigation.timeout_ms=10 stands twice in the list; allowed: "
                        "each value once; for more seeds of each point set repeat"));
  EXPECT_THAT(refusal("[sweep]\nbackend = [\"ring\", \"ring\"]\n"),
              HasSubstr("backend=ring stands twice"));
}

TEST(SweepFile, RefusesKeysWhoseValuesAreLists) {
  for (const char* key : {"model.bucket_bytes", "pfe.override", "straggler.workers",
                          "straggler.racks", "link.slow_workers", "fabric.slow_racks", "capture"}) {
    EXPECT_THAT(refusal(std::string("[sweep]\n") + key + " = [\"1\"]\n"),
                HasSubstr(std::string(key) + " cannot be swept, because its values are lists"));
  }
}

// Their lines would be flat.
TEST(SweepFile, RefusesKeysWithoutEffectInAnyPoint) {
  const std::string timeouts = "[sweep]\nmitigation.timeout_ms = [10, 20]\nbackend = ";
  EXPECT_THAT(refusal(timeouts + "[\"ring\", \"ideal\"]\n"),
              HasSubstr("w.toml:2: mitigation.timeout_ms=20 has no effect in any run; allowed: 10, "
                        "or any with backend=trio-ml"));
  EXPECT_EQ(refusal(timeouts + "[\"ring\", \"trio-ml\"]\n"), "accepted");
  EXPECT_THAT(refusal("straggler.probability = 0.1\n[sweep]\nworkers = [2, 3]\n"),
              HasSubstr("w.toml:1: straggler.probability=0.1 has no effect in any run"));
  EXPECT_EQ(refusal("straggler.probability = 0.1\n[sweep]\nstraggler.pattern = [\"none\", "
                    "\"slow-worker\"]\n"),
            "accepted");
  EXPECT_THAT(
      refusal("[sweep]\nworkers = [2, 3]\n", {{.name = "leaves", .text = "3", .where = "--set"}}),
      HasSubstr("--set: leaves=3 has no effect in any run"));
}

TEST(SweepFile, ImpossibleCombinationsAreKeptWithTheirReasons) {
  const auto sweep = sweep_of(
      "straggler.worker = 3\nstraggler.pattern = \"pause\"\n[sweep]\nworkers = [2, 4, 3]\n"
      "window = [16, 32]\nrepeat = 2\n");
  ASSERT_TRUE(sweep) << sweep.error().text;
  EXPECT_EQ(sweep->points.size(), 4);
  EXPECT_EQ(sweep->points.front().label, "workers=4 window=16 seed=1");
  ASSERT_EQ(sweep->refused.size(), 4);  // Each combination once.
  EXPECT_EQ(sweep->refused[3].label, "workers=3 window=32");
  EXPECT_EQ(sweep->refused[3].values.dump(), R"({"workers":3,"window":32})");
  EXPECT_THAT(sweep->refused[3].reason, HasSubstr("straggler.worker=3"));
  // A sweep without a valid combination is refused.
  EXPECT_THAT(refusal("straggler.worker = 3\n[sweep]\nworkers = [2, 3]\n"),
              HasSubstr("straggler.worker=3"));
}

}  // namespace
}  // namespace tributary::lab
