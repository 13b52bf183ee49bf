// SPDX-License-Identifier: Apache-2.0
// Method: every figure at its quick size, from points to rows, against properties that every model
// has. Then rows from outcomes written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/figures/trained_run.h"
#include "lab/sweep/runner.h"
#include "tests/lab/figures/quick_figure.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

/// Returns one setting, or none if it is refused.
std::vector<Setting> settings_of(const char* key, const char* value) {
  const std::vector<WrittenKey> written{{.name = key, .text = value, .where = "--set"}};
  return read_settings(written).value_or(std::vector<Setting>());
}

TEST(Figures, FiguresAreListedByName) {
  std::set<std::string> names;
  for (const Figure& figure : figures()) {
    EXPECT_TRUE(names.insert(figure.name).second);
    EXPECT_FALSE(figure.description.empty());
  }
  EXPECT_EQ(names, (std::set<std::string>{"alternatives",      "async",
                                          "byteps-12",         "byteps-13",
                                          "byteps-14",         "byteps-15",
                                          "byteps-16",         "constants",
                                          "permanent",         "scheduling",
                                          "switchml-3",        "switchml-6",
                                          "switchml-7",        "switchml-9",
                                          "trio-12",           "trio-13",
                                          "trio-13-iteration", "trio-13-settings",
                                          "trio-14",           "trio-15",
                                          "trio-16",           "trio-generations"}));
}

TEST(Figures, PointsDependOnlyOnTheOptions) {
  for (const Figure& figure : figures()) {
    const auto points = figure.points({.seed = 9});
    ASSERT_TRUE(points) << figure.name << ": " << points.error().text;
    const auto again = figure.points({.seed = 9});
    std::set<std::string> keys;
    for (size_t i = 0; i < points->size(); i++) {
      EXPECT_GE((*points)[i].scenario.seed, 9);  // Repetitions have seeds from it on.
      EXPECT_EQ(point_key((*points)[i]), point_key((*again)[i]));
      keys.insert(point_key((*points)[i]));
    }
    // Some constants change nothing in some scenarios: half of zero is zero.
    if (figure.name == "constants") continue;
    EXPECT_EQ(keys.size(), points->size()) << figure.name;
  }
}

TEST(Figures, SettingsOverrideDefaultsAndBadOnesAreRefused) {
  FigureOptions options{.quick = true};
  options.settings = settings_of("workers", "3");
  EXPECT_EQ(trio_15().points(options)->front().scenario.workers, 3);
  options.settings = settings_of("workers", "0x");
  EXPECT_TRUE(options.settings.empty());
  options.settings = settings_of("straggler.worker", "9");
  EXPECT_THAT(trio_15().points(options).error().text, HasSubstr("--set: straggler.worker=9"));
  options.settings = settings_of("leaves", "5");
  EXPECT_THAT(trio_12().points(options).error().text, HasSubstr("--set: leaves=5"));
}

TEST(Trio13, RepeatsWhatInvolvesChance) {
  // 3 networks x (the ideal, 4 systems without stragglers, 4 systems x 2 probabilities and 3 with
  // the same sleeper x 20 seeds, one that resends), and 3 systems x 20 seeds in each of 4 settings.
  EXPECT_EQ(trio_13().points({})->size(), 3 * (1 + 4 + (4 * 2 + 3) * 20 + 1) + 4 * 3 * 20);
  EXPECT_EQ(trio_13().points({.seeds = 3})->size(), 3 * (1 + 4 + (4 * 2 + 3) * 3 + 1) + 4 * 3 * 3);
  EXPECT_EQ(trio_13().points({})->front().scenario.iterations, 100);
  EXPECT_EQ(trio_13().points({.iterations = 7})->front().scenario.iterations, 7);
}

TEST(Trio13, SystemsShareSeedsAndNetworksDoNot) {
  const auto points = trio_13().points({.seed = 5, .seeds = 2});
  std::map<std::string, std::set<uint64_t>> seeds;  // By network and system.
  for (const Point& point : *points) {
    if (point.scenario.straggler.probability == 0) continue;
    const std::string cell = point.label.substr(0, point.label.find(" p="));
    seeds[cell].insert(point.scenario.seed);
  }
  EXPECT_EQ(seeds["resnet50 switchml-256"], (std::set<uint64_t>{5, 6}));
  EXPECT_EQ(seeds["resnet50 trio-ml compute"], (std::set<uint64_t>{5, 6}));
  EXPECT_EQ(seeds["vgg11 trio-ml skip"], (std::set<uint64_t>{9, 10}));
}

PointOutcome outcome_of(double iteration_ms) {
  PointOutcome outcome;
  outcome.result.mean_iteration = from_ns(iteration_ms * 1e6);
  return outcome;
}

TEST(Figure, ExplainsRowsMoreThanATenthFromThePaper) {
  const auto explained = [](const FigureOptions& options, double here) {
    FigureRow row = figure_row(options, "trio-13", "speed-up", 16, here, "x");
    compare_with_paper(options, row, 2.0, "why");
    EXPECT_EQ(row.paper, 2.0);
    return row.explained;
  };
  EXPECT_EQ(explained({}, 1.79), "why");
  EXPECT_EQ(explained({}, 1.81), "");
  EXPECT_EQ(explained({}, 2.19), "");
  EXPECT_EQ(explained({}, 2.21), "why");
  EXPECT_EQ(explained(kQuick, 1.0), "");
  // The cause was measured with the figure's own settings.
  EXPECT_EQ(explained({.iterations = 3}, 1.0), "");
  EXPECT_EQ(explained({.settings = settings_of("workers", "4")}, 1.0), "");
}

// Each would make wrong rows: --set gradients=64 made a row of 1024 gradients
// six times as fast, and --set seed=5 a standard error of 0.
TEST(Figure, RefusesSettingsOfWhatItVaries) {
  const auto refusal = [](const Figure& figure, const char* key, const char* value) {
    const auto good = check_settings(figure, {.quick = true, .settings = settings_of(key, value)});
    return good ? std::string("accepted") : good.error().text;
  };
  EXPECT_EQ(refusal(trio_15(), "gradients", "64"),
            "--set: gradients is not allowed, because trio-15 varies it (1024, 128, 256, 512, 64); "
            "allowed: keys that it does not vary");
  EXPECT_THAT(refusal(trio_14(), "mitigation.timeout_ms", "5"), HasSubstr("trio-14 varies it"));
  EXPECT_THAT(refusal(trio_13(), "straggler.probability", "0.1"), HasSubstr("varies it (0, 0.16)"));
  EXPECT_THAT(refusal(trio_13(), "straggler.pattern", "pause"),
              HasSubstr("varies it (slow-worker, slow-worker-fixed)"));
  EXPECT_THAT(refusal(trio_13(), "mitigation.catch_up", "skip"), HasSubstr("(compute, skip)"));
  EXPECT_EQ(
      refusal(trio_13(), "seed", "5"),
      "--set: seed is not allowed, because every repetition has its own; allowed: --seed, that "
      "of the first");
  EXPECT_THAT(refusal(trio_15(), "capture", "worker-0.0>switch.0=w.pcap"),
              HasSubstr("capture is not allowed in a figure"));
  EXPECT_EQ(refusal(trio_13(), "train", "32"), "accepted");
  EXPECT_EQ(refusal(trio_13(), "mitigation.timeout_ms", "1"), "accepted");
  // Points without stragglers have no pattern, and a probability of 0.
  EXPECT_EQ(refusal(trio_13_iteration(), "straggler.pattern", "slow-worker-each"), "accepted");
  EXPECT_THAT(refusal(asynchronous(), "straggler.pattern", "pause"), HasSubstr("fail-slow"));
}

// trio-15 and trio-16 wait for every worker.
TEST(Figure, RefusesSettingsWithoutEffect) {
  const auto refusal = [](const Figure& figure, const char* key, const char* value) {
    const auto good = check_settings(figure, {.quick = true, .settings = settings_of(key, value)});
    return good ? std::string("accepted") : good.error().text;
  };
  EXPECT_THAT(
      refusal(trio_15(), "mitigation.timeout_ms", "50"),
      HasSubstr("--set: mitigation.timeout_ms=50 has no effect in any run; allowed: 10, or"));
  EXPECT_THAT(refusal(trio_16(), "straggler.probability", "0.1"), HasSubstr("has no effect"));
  EXPECT_THAT(refusal(trio_16(), "straggler.worker", "9"), HasSubstr("straggler.worker=9"));
  // One of Figure 13's systems has timeouts.
  EXPECT_EQ(refusal(trio_13(), "mitigation.permanent_after_ms", "50"), "accepted");
  EXPECT_EQ(refusal(trio_16(), "link.queue_bytes", "100000"), "accepted");
}

/// Outcomes of Figure 13's quick points. By network: the ideal and the systems without stragglers.
/// Then, with two seeds each, waiting, SwitchML, Trio-ML that skips and that computes; the last
/// three with the same sleeper; SwitchML that resends.
std::vector<PointOutcome> trio_13_outcomes() {
  std::vector<PointOutcome> outcomes;
  for (int model = 0; model < 3; model++) {
    for (const double ms : {100.0, 101.0, 101.5, 102.0, 102.0,                       //
                            170.0, 170.0, 180.0, 240.0, 120.0, 120.0, 150.0, 120.0,  //
                            200.0, 210.0, 100.0, 105.0, 160.0, 140.0, 181.0}) {
      outcomes.push_back(outcome_of(ms));
    }
    for (const size_t of_end : {9, 8}) {  // Trio-ML that computes.
      RunResult& result = outcomes[outcomes.size() - of_end].result;
      result.blocks = 10;
      result.degraded_blocks = 4;
    }
  }
  return outcomes;
}

TEST(Trio13, SpeedUpIsTheMeanOverSeeds) {
  const auto points = trio_13().points(kQuick);
  const std::vector<PointOutcome> outcomes = trio_13_outcomes();
  ASSERT_EQ(outcomes.size(), points->size());
  const FigureOutcome figure = trio_13().finish(kQuick, *points, outcomes);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 ideal", 16), 100);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 waiting-switch", 16), 170);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 switchml-256", 16), 210);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 trio-ml compute", 16), 135);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 speed-up skip", 16), 1.75);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 speed-up compute", 16), (180.0 / 150 + 2) / 2);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 speed-up of free mitigation", 16), 2.1);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 waiting-switch, same sleeper", 16), 205);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 speed-up skip, same sleeper", 16), 2);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 speed-up compute, same sleeper", 16), 1.375);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 switchml-256 resending", 16), 181);
  const auto found = std::find_if(figure.rows.begin(), figure.rows.end(), [](const FigureRow& row) {
    return row.series == "vgg11 speed-up compute" && row.x == 16;
  });
  ASSERT_NE(found, figure.rows.end());
  const FigureRow& compute = *found;
  EXPECT_EQ(compute.paper, 1.80);
  EXPECT_DOUBLE_EQ(compute.sample->low, 1.2);
  EXPECT_DOUBLE_EQ(compute.sample->high, 2);
  EXPECT_DOUBLE_EQ(compute.shares->degraded, 0.4);
  EXPECT_EQ(compute.explained, "");   // The values that it would name are those of a full run.
  ASSERT_EQ(figure.plots.size(), 6);  // Times, then the shares of the same network.
  ASSERT_EQ(figure.plots.back().series.size(), 1);
  EXPECT_EQ(figure.plots.back().series[0].name, "trio-ml compute: degraded");
  EXPECT_DOUBLE_EQ(figure.plots.back().series[0].points.at(1).y, 40);
}

TEST(Trio13, RowsOfStragglersHaveSpreadAndShares) {
  const auto points = trio_13().points(kQuick);
  const FigureOutcome figure = trio_13().finish(kQuick, *points, trio_13_outcomes());
  uint32_t same_sleeper = 0;
  for (const FigureRow& row : figure.rows) {
    EXPECT_TRUE(row.shares) << row.series;
    const bool is_single = row.series.ends_with("ideal") || row.series.ends_with("resending");
    EXPECT_EQ(row.sample.has_value(), row.x == 16 && !is_single) << row.series << " " << row.x;
    same_sleeper += row.series.ends_with("same sleeper") ? 1 : 0;
  }
  EXPECT_EQ(same_sleeper, 3 * 6);
}

/// The explanation has the values of the same figure's rows.
TEST(Trio13, ExplanationsFollowFromTheRows) {
  const FigureOptions options{.seeds = 1};
  const auto points = trio_13().points(options);
  std::vector<PointOutcome> outcomes;
  for (const Point& point : *points) {
    const bool is_waiting = point.scenario.backend != Backend::kTrioMl;
    const bool is_kind = point.scenario.mitigation.timeout == milliseconds(1);
    outcomes.push_back(outcome_of(is_waiting ? 160 : is_kind ? 100 : 150));
  }
  const FigureOutcome figure = trio_13().finish(options, *points, outcomes);
  uint32_t explained = 0;
  for (const FigureRow& row : figure.rows) {
    if (row.explained.empty()) continue;
    explained++;
    if (row.series.find("700 ms") != std::string::npos) {  // VGG11's: 1.6 beside 1.80.
      EXPECT_THAT(row.explained, HasSubstr("With the same sleeper always, p = 16 % allows 1.60"));
      continue;
    }
    EXPECT_THAT(row.explained, HasSubstr("of an iteration of 160 ms waits for a timeout of 10 ms"));
    EXPECT_THAT(row.explained, HasSubstr("700 ms of computation gives 1.6, 0."));
  }
  EXPECT_EQ(explained, 3 * 4 + 2);  // Both readings, both ways to catch up; VGG11's 700 ms.
  EXPECT_THAT(figure.rows.back().series, HasSubstr("p = 20 %"));
  EXPECT_FALSE(figure.rows.back().paper);  // The paper has p = 16 %.
}

/// A figure must show the points that ran, whichever failed.
TEST(Figures, EveryFigureTakesFailedPoints) {
  for (const Figure& figure : figures()) {
    const auto points = figure.points(kQuick);
    ASSERT_TRUE(points) << figure.name;
    const std::vector<PointOutcome> failed(points->size(),
                                           {.result = {}, .accuracy = {}, .failed = true});
    const FigureOutcome outcome = figure.finish(kQuick, *points, failed);
    for (const FigureRow& row : outcome.rows) {
      const bool by_hand = row.series.find("by hand") != std::string::npos ||
                           row.series == "optimum" || figure.name == "trio-generations";
      EXPECT_TRUE(by_hand || !std::isfinite(row.here)) << figure.name << ": " << row.series;
      EXPECT_TRUE(by_hand || row.explained.empty()) << figure.name << ": " << row.series;
    }
  }
}

TEST(Trio13Settings, FixedSleeperIsOneWorker) {
  const auto points = trio_13_settings().points({.seeds = 1});
  bool found = false;
  for (const Point& point : *points) {
    found |= point.scenario.straggler.pattern == Straggling::kSlowWorkerFixed;
  }
  EXPECT_TRUE(found);
}

TEST(Trio13Iteration, TimeOutsCostLessOfLongIterations) {
  const FigureOutcome figure = quick_outcome(trio_13_iteration());
  std::vector<double> compute;
  for (const FigureRow& row : figure.rows) {
    if (row.series == "speed-up compute") compute.push_back(row.here);
    EXPECT_LE(row.shares->skipped, row.shares->degraded);
  }
  ASSERT_EQ(compute.size(), 2);
  EXPECT_GT(compute[1], compute[0]);
}

TEST(Trio15, LatencyMatchesCalibrationAndGrows) {
  const FigureOutcome figure = quick_outcome(trio_15());
  ASSERT_EQ(figure.rows.size(), 10);
  // The model's calibration points (Trio paper §6.3), within 10 %.
  EXPECT_NEAR(value_at(figure, "latency", 64), 30, 3);
  EXPECT_NEAR(value_at(figure, "latency", 1024), 200, 20);
  for (size_t i = 2; i < figure.rows.size(); i++) {
    EXPECT_GT(figure.rows[i].here, figure.rows[i - 2].here);  // Latency and rate both grow.
  }
  EXPECT_EQ(figure.rows[0].paper, 30);
  EXPECT_FALSE(figure.rows[2].paper);
}

TEST(Trio16, ThroughputNeverPassesTheAdders) {
  const FigureOutcome figure = quick_outcome(trio_16());
  for (const FigureRow& row : figure.rows) {
    EXPECT_GT(row.here, 0) << row.series;
    // 12 engines, 2 cycles an add, 1 GHz (Trio paper §6.3).
    EXPECT_TRUE(row.unit != "Gadd/s" || row.here <= 6.0) << row.series << " " << row.x;
  }
  EXPECT_GT(value_at(figure, "Trio-ML-1024 throughput", 256),
            value_at(figure, "Trio-ML-1024 throughput", 1));
  EXPECT_GT(value_at(figure, "Trio-ML-1024 latency", 256),
            value_at(figure, "Trio-ML-1024 latency", 1));
}

TEST(TrioGenerations, LaterOnesAreFasterForAggregation) {
  const FigureOutcome figure = quick_outcome(trio_generations());
  ASSERT_EQ(figure.rows.size(), 18U);
  for (double generation = 2; generation <= 6; generation++) {
    const auto rate = [&](double x) { return value_at(figure, "Trio-ML, 1024 gradients", x); };
    EXPECT_GT(rate(generation), rate(generation - 1)) << generation;
  }
  for (const FigureRow& row : figure.rows) {
    EXPECT_FALSE(row.paper) << row.series;
    EXPECT_FALSE(row.explained.empty()) << row.series;  // The resource that limits it.
  }
}

TEST(Trio14, RecoveryTakesOneToTwoTimeouts) {
  const FigureOutcome figure = quick_outcome(trio_14());
  for (const FigureRow& row : figure.rows) {
    EXPECT_GE(row.here, row.x) << row.series;
    EXPECT_LE(row.here, 2 * row.x) << row.series;
  }
}

TEST(Trio12, TrainsAndComparesTimes) {
  const auto points = trio_12().points(kQuick);
  // Reaches 40 % in steps of 2 %: 30 % on average over five at the 17th iteration. By network and
  // reading, with two seeds each: one system that waits, and two that mitigate.
  std::vector<PointOutcome> outcomes;
  for (size_t i = 0; i < points->size(); i++) {
    PointOutcome& outcome = outcomes.emplace_back();
    for (int step = 0; step < 20; step++) {
      outcome.accuracy.push_back(
          {.at = milliseconds(i % 6 >= 2 ? 100 : 150) * (step + 1), .accuracy = 0.02 * step});
    }
  }
  const FigureOutcome figure = trio_12().finish(kQuick, *points, outcomes);
  EXPECT_NEAR(value_at(figure, "resnet50 switchml-256", 30), 18 * 0.15, 1e-9);
  EXPECT_NEAR(value_at(figure, "resnet50 trio-ml skip", 30), 18 * 0.1, 1e-9);
  EXPECT_NEAR(value_at(figure, "resnet50 speed-up compute", 30), 1.5, 1e-9);
  EXPECT_NEAR(value_at(figure, "vgg11 speed-up skip, same sleeper", 30), 1.5, 1e-9);
  EXPECT_EQ(figure.rows.back().paper, 1.60);
  for (const FigureRow& row : figure.rows) {
    EXPECT_TRUE(row.shares && row.sample) << row.series;
  }
}

TEST(Trio12, ExplanationsFollowFromTheRows) {
  const FigureOptions options{.seeds = 1};
  const auto points = trio_12().points(options);
  std::vector<PointOutcome> outcomes;
  for (const Point& point : *points) {
    // Iterations take 150, 100 and, in the favourable setting, 60 ms. The accuracy of 100 % is
    // there from the first; sums that lack a worker have it four iterations later.
    const bool is_trio = point.scenario.backend == Backend::kTrioMl;
    const bool is_kind = point.scenario.model.forward != Duration();
    const int ms = !is_trio ? 150 : is_kind ? 60 : 100;
    PointOutcome& outcome = outcomes.emplace_back(outcome_of(ms));
    for (int step = 0; step < 20; step++) {
      const double accuracy = is_trio && !is_kind && step < 4 ? 0 : 1;
      outcome.accuracy.push_back({.at = milliseconds(ms) * (step + 1), .accuracy = accuracy});
    }
  }
  const FigureOutcome figure = trio_12().finish(options, *points, outcomes);
  // 5 iterations of 150 ms over 9 of 100 ms, and over 5 of 60 ms.
  EXPECT_NEAR(value_at(figure, "resnet50 speed-up skip", 90), 750.0 / 900, 1e-9);
  uint32_t explained = 0;
  for (const FigureRow& row : figure.rows) {
    if (row.explained.empty()) continue;
    explained++;
    if (row.series.find("700 ms") != std::string::npos) {
      EXPECT_THAT(row.explained, HasSubstr("Iterations are 2.50 times as fast as when all wait"));
      EXPECT_THAT(row.explained, HasSubstr("training needs 1.00 times as many iterations"));
      continue;
    }
    EXPECT_THAT(row.explained, HasSubstr("Iterations are 1.50 times as fast as when all wait"));
    EXPECT_THAT(row.explained, HasSubstr("training needs 1.80 times as many iterations"));
    const bool is_vgg11 = row.series.starts_with("vgg11");
    EXPECT_THAT(row.explained, HasSubstr(is_vgg11 ? "700 ms of computation, p = 20 % gives 2.5."
                                                  : "700 ms of computation gives 2.5, 1."));
  }
  EXPECT_EQ(explained, 3 * 4 + 2 * 2);  // No paper's value stands beside VGG11's p = 20 %.
}

TEST(TrainedRun, AccuracyByATimeIsTheMeanOfFiveIterations) {
  PointOutcome outcome;
  for (int i = 0; i < 8; i++) {
    outcome.accuracy.push_back({.at = seconds(i + 1), .accuracy = 0.1 * i});
  }
  EXPECT_NEAR(accuracy_by(outcome, seconds(7)), 40, 1e-9);  // 20, 30, 40, 50, 60.
  EXPECT_NEAR(accuracy_by(outcome, milliseconds(6999)), 30, 1e-9);
  EXPECT_NEAR(accuracy_by(outcome, seconds(100)), 50, 1e-9);
  EXPECT_NEAR(accuracy_by(outcome, seconds(2)), 5, 1e-9);  // Only two have ended.
  EXPECT_TRUE(std::isnan(accuracy_by(outcome, milliseconds(999))));
}

TEST(Alternatives, SystemsMeetTheSameStragglers) {
  const auto points = alternatives().points({.seed = 5, .seeds = 2});
  ASSERT_TRUE(points) << points.error().text;
  ASSERT_EQ(points->size(), 2 * 8 * 2);
  std::map<std::string, std::set<uint64_t>> seeds;  // By cell.
  for (const Point& point : *points) {
    seeds[point.label.substr(0, point.label.rfind(", "))].insert(point.scenario.seed);
    EXPECT_EQ(point.scenario.straggler.typical_iteration, milliseconds(53));
  }
  for (const auto& [cell, of_cell] : seeds) EXPECT_EQ(of_cell, (std::set<uint64_t>{5, 6})) << cell;
}

TEST(Alternatives, ReportsTimeAndAccuracy) {
  const auto points = alternatives().points(kQuick);
  // 30 iterations of 100 ms, which reach 58 % in steps of 2 %.
  std::vector<PointOutcome> outcomes(points->size());
  for (PointOutcome& outcome : outcomes) {
    outcome = outcome_of(100);
    outcome.result.blocks = 10;
    outcome.result.degraded_blocks = 4;
    outcome.result.workers.resize(2);
    outcome.result.workers[0].contributions = 5;
    outcome.result.workers[1].contributions = 4;
    outcome.result.workers[1].contributions_lost = 1;
    for (int step = 0; step < 30; step++) {
      outcome.accuracy.push_back({.at = milliseconds(100) * (step + 1), .accuracy = 0.02 * step});
    }
  }
  const FigureOutcome figure = alternatives().finish(kQuick, *points, outcomes);
  EXPECT_EQ(figure.rows.size(), 2 * 8 * 4);
  EXPECT_NEAR(value_at(figure, "majority: iteration", 16), 100, 1e-9);
  EXPECT_NEAR(value_at(figure, "majority: time to accuracy", 0), 1.8, 1e-9);  // See Trio12.
  // The 15th iteration ends at 1.5 s: the mean of 20, 22, 24, 26 and 28.
  EXPECT_NEAR(value_at(figure, "majority: accuracy at equal time", 16), 24, 1e-9);
  EXPECT_NEAR(value_at(figure, "majority: contributions counted", 16), 80, 1e-9);  // 8 of 10.
  EXPECT_DOUBLE_EQ(figure.rows.back().shares->degraded, 0.4);
  ASSERT_EQ(figure.plots.size(), 3);  // Accuracy without and with stragglers, then the shares.
  EXPECT_EQ(figure.plots[2].series.size(), 8);  // Skipped and missed are zero everywhere.
  EXPECT_EQ(figure.plots[2].series[0].name, "waiting: degraded");
  EXPECT_DOUBLE_EQ(figure.plots[2].series[0].points.at(1).y, 40);
}

TEST(Asynchronous, RowsAndAPlotHaveTheShares) {
  const auto points = asynchronous().points(kQuick);
  std::vector<PointOutcome> outcomes(points->size());
  for (size_t i = 0; i < outcomes.size(); i++) {
    if ((*points)[i].scenario.backend != Backend::kTrioMl) continue;
    outcomes[i].result.blocks = 10;
    outcomes[i].result.degraded_blocks = 3;
  }
  const FigureOutcome figure = asynchronous().finish(kQuick, *points, outcomes);
  for (const FigureRow& row : figure.rows) {
    ASSERT_TRUE(row.shares) << row.series;
    EXPECT_DOUBLE_EQ(row.shares->degraded,
                     row.series.find("trio-ml") == std::string::npos ? 0 : 0.3);
  }
  ASSERT_EQ(figure.plots.size(), 4);  // Accuracy by pattern, then the shares.
  ASSERT_EQ(figure.plots[3].series.size(), 1);
  EXPECT_EQ(figure.plots[3].series[0].name, "trio-ml: degraded");
  EXPECT_DOUBLE_EQ(figure.plots[3].series[0].points.at(2).y, 30);
  EXPECT_TRUE(figure.plots[3].series[0].marks_only);
}

}  // namespace
}  // namespace tributary::lab
