// SPDX-License-Identifier: Apache-2.0
// Method: the cells of small lists by hand, then refusals and the places that they name.
#include "lab/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/backends/backend.h"

namespace tributary::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CompareLists two_by_two() {
  return {.backends = {Backend::kIdeal, Backend::kRing},
          .models = {Model::kResnet50},
          .workers = {4, 8},
          .loss = {0},
          .straggling = {0, 0.08},
          .baseline = Backend::kRing};
}

std::string refusal_of(const CompareLists& lists, const std::vector<WrittenKey>& settings = {}) {
  const auto comparison = make_comparison(lists, settings);
  EXPECT_FALSE(comparison);
  return comparison ? "" : comparison.error().text;
}

TEST(Comparison, RunsEveryBackEndInEveryCase) {
  const auto comparison = make_comparison(two_by_two(), {});
  ASSERT_TRUE(comparison) << comparison.error().text;
  ASSERT_EQ(comparison->cases.size(), 4U);
  EXPECT_EQ(comparison->cases[1].workers, 4U);
  EXPECT_EQ(comparison->cases[1].straggling, 0.08);
  EXPECT_EQ(comparison->cases[2].workers, 8U);
  ASSERT_EQ(comparison->cells.size(), 8U);
  ASSERT_EQ(comparison->points.size(), 8U);
  const CompareCell& cell = comparison->cells[3];
  EXPECT_EQ(cell.case_index, 1U);
  EXPECT_EQ(cell.backend, Backend::kRing);
  EXPECT_EQ(cell.point, 3U);
  EXPECT_EQ(cell.scenario.straggler.pattern, Straggling::kSlowWorker);
  EXPECT_EQ(cell.scenario.straggler.probability, 0.08);
  EXPECT_EQ(comparison->cells[0].scenario.straggler.pattern, Straggling::kNone);
  EXPECT_EQ(comparison->points[3].label, "ring resnet50 workers=4 loss=0 straggling=0.08");
  EXPECT_EQ(comparison->baseline, Backend::kRing);
}

TEST(Comparison, LossEnablesRepairAndSettingsOverrideDefaults) {
  CompareLists lists = two_by_two();
  lists.loss = {0.001};
  const std::vector<WrittenKey> settings{{.name = "iterations", .text = "3", .where = "--set"},
                                         {.name = "train", .text = "8", .where = "--set"}};
  const auto comparison = make_comparison(lists, settings);
  ASSERT_TRUE(comparison) << comparison.error().text;
  EXPECT_TRUE(comparison->cells[0].scenario.host.retransmission);
  EXPECT_EQ(comparison->cells[0].scenario.link.faults.loss, 0.001);
  EXPECT_EQ(comparison->cells[0].scenario.iterations, 3U);
  EXPECT_EQ(comparison->cells[0].scenario.train, 8U);
}

TEST(Comparison, RefusesValuesThatStandTwice) {
  CompareLists lists = default_compare_lists();
  const auto refusal = [&lists](const char* name, const char* text) {
    const auto set = set_compare_list(lists, name, text, "--" + std::string(name));
    return set ? std::string("accepted") : set.error().text;
  };
  EXPECT_EQ(refusal("backends", "ideal,ring,ideal"),
            "--backends: backends=ideal stands twice; allowed: each value once");
  EXPECT_EQ(refusal("loss", "0.1,0.10"),
            "--loss: loss=0.10 stands twice; allowed: each value once");
  EXPECT_EQ(refusal("workers", "2,4"), "accepted");
}

TEST(Comparison, SeedsRepeatWhatChanceDecides) {
  CompareLists lists = two_by_two();
  lists.workers = {4};
  const auto comparison = make_comparison(lists, {}, 3);
  ASSERT_TRUE(comparison) << comparison.error().text;
  // Both back ends once without stragglers, and three times with them.
  ASSERT_EQ(comparison->points.size(), 8U);
  EXPECT_EQ(comparison->cells[3].point, 5U);
  EXPECT_EQ(comparison->cells[3].seeds, 3U);
  EXPECT_EQ(comparison->points[7].scenario.seed, 3U);
  Scenario scenario;
  EXPECT_FALSE(involves_chance(scenario));
  scenario.fabric.faults.jitter = microseconds(1);
  EXPECT_TRUE(involves_chance(scenario));
}

TEST(Comparison, NamesItsSettingsAndRefusesThoseWithoutEffect) {
  std::vector<WrittenKey> settings{{.name = "iterations", .text = "3", .where = "c.toml:1"},
                                   {.name = "window", .text = "256", .where = "--set"}};
  EXPECT_EQ(make_comparison(two_by_two(), settings)->settings, "iterations=3 window=256");
  EXPECT_EQ(make_comparison(two_by_two(), {})->settings, "");
  settings.push_back({.name = "mitigation.timeout_ms", .text = "5", .where = "--set"});
  EXPECT_THAT(refusal_of(two_by_two(), settings),
              HasSubstr("--set: mitigation.timeout_ms=5 has no effect in any run"));
  CompareLists lists = two_by_two();
  lists.backends.push_back(Backend::kTrioMl);
  EXPECT_TRUE(make_comparison(lists, settings));
}

TEST(Comparison, FirstBackEndIsTheBaselineUnlessNamed) {
  CompareLists lists = two_by_two();
  lists.baseline.reset();
  EXPECT_EQ(make_comparison(lists, {})->baseline, Backend::kIdeal);
  lists.baseline = Backend::kTrioMl;
  EXPECT_EQ(refusal_of(lists), "baseline='trio-ml' is not allowed; allowed: ideal, ring");
}

TEST(Comparison, UnsupportedBackEndStatesWhyAndOthersRun) {
  CompareLists lists = two_by_two();
  lists.backends = {Backend::kLive, Backend::kRing};
  // The live engine's core takes neither trains nor elided payload, so it gets neither …
  auto comparison = make_comparison(lists, {});
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->points.size(), 8U);
  EXPECT_EQ(comparison->cells[0].scenario.train, 1U);
  EXPECT_EQ(comparison->cells[0].scenario.payload, Payload::kReal);
  EXPECT_EQ(comparison->cells[1].scenario.train, 64U);
  // … unless a setting demands it.
  const std::vector<WrittenKey> settings{{.name = "train", .text = "4", .where = "--set"}};
  comparison = make_comparison(lists, settings);
  ASSERT_TRUE(comparison);
  EXPECT_EQ(comparison->points.size(), 4U);
  EXPECT_FALSE(comparison->cells[0].point);
  EXPECT_THAT(comparison->cells[0].refusal, HasSubstr("with backend=live"));
  EXPECT_EQ(comparison->cells[1].point, 0U);
  lists.backends = {Backend::kLive};
  lists.baseline = Backend::kLive;
  EXPECT_THAT(refusal_of(lists, settings), HasSubstr("with backend=live"));
}

TEST(Comparison, BackEndThatCannotRunOnTheTopologyIsRefused) {
  CompareLists lists = two_by_two();
  lists.backends = {Backend::kTrioMl, Backend::kRing};
  lists.workers = {4};
  lists.straggling = {0};
  const auto comparison = make_comparison(
      lists, std::vector<WrittenKey>{{.name = "topology", .text = "two-level", .where = "--set"}});
  ASSERT_TRUE(comparison) << comparison.error().text;
  EXPECT_EQ(comparison->points.size(), 1U);
  EXPECT_EQ(comparison->cells[0].point, 0U);
  EXPECT_EQ(comparison->cells[1].refusal,
            "--set: topology=two-level is not allowed; allowed: star, leaf-spine or file with "
            "backend=ring; chassis and two-level with trio-ml, trio-ml-wait, live");
}

/// Returns the train of a back end with four workers and the settings.
uint32_t train_of(Backend backend, const std::vector<WrittenKey>& settings) {
  const CompareLists lists{.backends = {backend},
                           .models = {Model::kCustom},
                           .workers = {4},
                           .loss = {0},
                           .straggling = {0}};
  const auto comparison = make_comparison(lists, settings);
  EXPECT_TRUE(comparison) << comparison.error().text;
  return comparison ? comparison->cells[0].scenario.train : 0;
}

TEST(Comparison, ShortTensorsHaveShortTrains) {
  const auto of_packets = [](uint64_t packets) {
    return WrittenKey{
        .name = "model.bucket_bytes", .text = std::to_string(packets * 4096), .where = "--set"};
  };
  // A switch adds the whole tensor: 24 trains of 64 are 1,536 packets.
  EXPECT_EQ(train_of(Backend::kIdeal, {of_packets(24 * 64)}), 64U);
  EXPECT_EQ(train_of(Backend::kIdeal, {of_packets(24 * 64 - 1)}), 32U);
  EXPECT_EQ(train_of(Backend::kIdeal, {of_packets(30)}), 1U);
  // Four servers, or four steps of a ring, have a quarter each.
  EXPECT_EQ(train_of(Backend::kPsDedicated, {of_packets(24 * 64)}), 16U);
  EXPECT_EQ(train_of(Backend::kRing, {of_packets(24 * 64)}), 16U);
  // SwitchML's packets have a quarter of the elements.
  EXPECT_EQ(train_of(Backend::kSwitchml256, {of_packets(24 * 16)}), 64U);
  // Other limits of trains count, too, and a setting wins.
  EXPECT_EQ(train_of(Backend::kIdeal,
                     {of_packets(24 * 64), {.name = "window", .text = "16", .where = "--set"}}),
            16U);
  EXPECT_EQ(
      train_of(Backend::kIdeal, {of_packets(30), {.name = "train", .text = "8", .where = "--set"}}),
      8U);
}

TEST(Comparison, RecordedComparisonsHaveTrainsOf64) {
  // The largest of docs/results/compare-network.json: 100 MiB, 16 workers.
  CompareLists lists = default_compare_lists();
  lists.models = {Model::kCustom};
  lists.workers = {16};
  const std::vector<WrittenKey> tensor{
      {.name = "model.bucket_bytes", .text = "104857600", .where = "--set"}};
  for (const auto& comparison :
       {make_comparison(default_compare_lists(), {}), make_comparison(lists, tensor)}) {
    ASSERT_TRUE(comparison) << comparison.error().text;
    for (const CompareCell& cell : comparison->cells) {
      if (!cell.refusal.empty()) continue;
      EXPECT_EQ(cell.scenario.train, 64U) << name_of(cell.backend);
    }
  }
}

TEST(Comparison, RefusesWrongNamesAndValues) {
  CompareLists lists = two_by_two();
  const auto list_refusal = [&lists](const char* name, const char* text) {
    const auto set = set_compare_list(lists, name, text, std::string("--") + name);
    EXPECT_FALSE(set);
    return set ? "" : set.error().text;
  };
  EXPECT_THAT(list_refusal("backends", "ideal,rings"), HasSubstr("did you mean 'ring'?"));
  EXPECT_THAT(list_refusal("models", "resnet5"), HasSubstr("did you mean 'resnet50'?"));
  EXPECT_THAT(list_refusal("workers", "four"), HasSubstr("--workers: workers=four"));
  EXPECT_THAT(list_refusal("loss", "2"), HasSubstr("--loss: link.loss=2 is out of range"));
  EXPECT_THAT(list_refusal("baseline", "rings"), HasSubstr("did you mean 'ring'?"));
  lists = two_by_two();
  EXPECT_THAT(refusal_of(lists, {{.name = "capture", .text = "a=b", .where = "--set"}}),
              HasSubstr("capture is not allowed in a comparison"));
  EXPECT_THAT(refusal_of(lists, {{.name = "worker", .text = "3", .where = "--set"}}),
              HasSubstr("--set: unknown key 'worker'"));
  EXPECT_THAT(refusal_of(lists, {{.name = "workers", .text = "3", .where = "c.toml:4"}}),
              HasSubstr("c.toml:4: workers=3 is compared; allowed: a list of its own"));
}

TEST(Comparison, ExtractsCompareKeysFromAFile) {
  std::vector<WrittenKey> keys{
      {.name = "iterations", .text = "5", .where = "c.toml:1"},
      {.name = "compare.backends", .text = "ring,ideal", .where = "c.toml:3"},
      {.name = "compare.straggling", .text = "0.16", .where = "c.toml:4"},
      {.name = "compare.baseline", .text = "ideal", .where = "c.toml:5"}};
  CompareLists lists = default_compare_lists();
  ASSERT_TRUE(take_compare_keys(keys, lists));
  EXPECT_EQ(keys.size(), 1U);
  EXPECT_THAT(lists.backends, ElementsAre(Backend::kRing, Backend::kIdeal));
  EXPECT_THAT(lists.straggling, ElementsAre(0.16));
  EXPECT_EQ(lists.baseline, Backend::kIdeal);
  keys.push_back({.name = "compare.model", .text = "vgg11", .where = "c.toml:6"});
  const auto refused = take_compare_keys(keys, lists);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text, HasSubstr("c.toml:6: unknown list 'model'"));
  EXPECT_THAT(refused.error().text, HasSubstr("did you mean 'models'?"));
  const auto empty = set_compare_list(lists, "workers", ",", "--workers");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().text, "--workers: workers='' is not allowed; allowed: a list of values");
}

TEST(Comparison, AllDefaultsRun) {
  const auto comparison = make_comparison(default_compare_lists(), {});
  ASSERT_TRUE(comparison) << comparison.error().text;
  EXPECT_EQ(comparison->points.size(), comparison->cells.size());
}

}  // namespace
}  // namespace tributary::lab
