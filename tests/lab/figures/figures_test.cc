// SPDX-License-Identifier: Apache-2.0
// Method: every figure at its quick size, from points to rows, against properties that every model
// has. Then rows from outcomes written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lab/figures/figure.h"
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
  EXPECT_EQ(names,
            (std::set<std::string>{"byteps-12", "byteps-13", "byteps-14", "byteps-15", "byteps-16",
                                   "switchml-3", "switchml-6", "switchml-7", "switchml-9",
                                   "trio-12", "trio-13", "trio-14", "trio-15", "trio-16"}));
}

TEST(Figures, PointsDependOnlyOnTheOptions) {
  for (const Figure& figure : figures()) {
    const auto points = figure.points({.seed = 9});
    ASSERT_TRUE(points) << figure.name << ": " << points.error().text;
    const auto again = figure.points({.seed = 9});
    std::set<std::string> keys;
    for (size_t i = 0; i < points->size(); i++) {
      EXPECT_EQ((*points)[i].scenario.seed, 9);
      EXPECT_EQ(point_key((*points)[i]), point_key((*again)[i]));
      keys.insert(point_key((*points)[i]));
    }
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

TEST(Trio13, HasThreeModelsSixProbabilitiesAndABaselineEach) {
  // 3 x (1 ideal + 6 x 4 systems).
  EXPECT_EQ(trio_13().points({})->size(), 75);
  EXPECT_EQ(trio_13().points({})->front().scenario.iterations, 100);
  EXPECT_EQ(trio_13().points({.iterations = 7})->front().scenario.iterations, 7);
}

TEST(Trio13, SpeedUpIsSwitchmlOverTrio) {
  const auto points = trio_13().points(kQuick);
  // By model: ideal, then at 0 % and 16 %: waiting, SwitchML without and with retransmission, Trio.
  std::vector<PointOutcome> outcomes;
  for (int model = 0; model < 3; model++) {
    for (const double ms : {100.0, 101.0, 101.5, 101.5, 102.0, 170.0, 180.0, 240.0, 120.0}) {
      outcomes.emplace_back().result.mean_iteration = from_ns(ms * 1e6);
    }
  }
  const FigureOutcome figure = trio_13().finish(kQuick, *points, outcomes);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 ideal", 16), 100);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 waiting-switch", 16), 170);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 switchml-256", 16), 180);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 trio-ml", 16), 120);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 speed-up", 16), 1.5);
  EXPECT_DOUBLE_EQ(value_at(figure, "vgg11 speed-up resending", 16), 2);
  EXPECT_EQ(figure.rows.back().paper, 1.80);
  EXPECT_EQ(figure.plots.size(), 3);
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

TEST(Trio14, RecoveryTakesOneToTwoTimeouts) {
  const FigureOutcome figure = quick_outcome(trio_14());
  for (const FigureRow& row : figure.rows) {
    EXPECT_GE(row.here, row.x) << row.series;
    EXPECT_LE(row.here, 2 * row.x) << row.series;
  }
}

TEST(Trio12, TrainsAndComparesTimes) {
  const auto points = trio_12().points(kQuick);
  // Reaches 40 % in steps of 2 %: 30 % on average over five at the 17th iteration.
  std::vector<PointOutcome> outcomes;
  for (size_t i = 0; i < points->size(); i++) {
    PointOutcome& outcome = outcomes.emplace_back();
    for (int step = 0; step < 20; step++) {
      outcome.accuracy.push_back(
          {.at = milliseconds(i % 4 == 3 ? 100 : 150) * (step + 1), .accuracy = 0.02 * step});
    }
  }
  const FigureOutcome figure = trio_12().finish(kQuick, *points, outcomes);
  EXPECT_NEAR(value_at(figure, "resnet50 waiting-switch", 30), 18 * 0.15, 1e-9);
  EXPECT_NEAR(value_at(figure, "resnet50 trio-ml", 30), 18 * 0.1, 1e-9);
  EXPECT_NEAR(value_at(figure, "resnet50 speed-up", 30), 1.5, 1e-9);
  EXPECT_EQ(figure.rows.back().paper, 1.60);
}

}  // namespace
}  // namespace tributary::lab
