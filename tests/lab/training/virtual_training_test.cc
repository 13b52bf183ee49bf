// SPDX-License-Identifier: Apache-2.0
// Method: the test plays the aggregator and returns the mean of all tensors; then a late worker,
// one whose all-reduce failed, and workers that exchange parameters.
#include "lab/training/virtual_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace tributary::lab {
namespace {

constexpr TrainingConfig kSmall{.workers = 3, .seed = 1, .text_bytes = 40'000};

/// One iteration in which every worker receives the mean of the `sources`' tensors.
void play(VirtualTraining& training, uint32_t iteration, std::span<const uint32_t> sources) {
  std::array<std::span<float>, 3> tensors;
  for (uint32_t w = 0; w < 3; w++) {
    const bool computes = std::find(sources.begin(), sources.end(), w) != sources.end();
    tensors[w] = training.tensor(w, iteration, computes);
  }
  std::vector<float> mean(tensors[0].size());
  for (const uint32_t w : sources) {
    for (size_t i = 0; i < mean.size(); i++) {
      mean[i] += tensors[w][i] / static_cast<float>(sources.size());
    }
  }
  for (uint32_t w = 0; w < 3; w++) {
    std::copy(mean.begin(), mean.end(), tensors[w].begin());
    training.reduced(w, iteration, host::Outcome{});
    training.iteration_ended(w, iteration, Instant(seconds(iteration + 1)));
  }
}

TEST(VirtualTraining, WorkersLearnTheSameParameters) {
  VirtualTraining training(kSmall);
  const std::array<uint32_t, 3> all{0, 1, 2};
  const std::array<uint32_t, 2> partial{0, 2};
  for (uint32_t i = 0; i < 30; i++) {
    play(training, i, i % 5 == 4 ? std::span<const uint32_t>(partial) : all);
  }
  ASSERT_EQ(training.progress().size(), 30);
  EXPECT_EQ(training.progress()[29].at, Instant(seconds(30)));
  EXPECT_LT(training.progress()[0].accuracy, 0.25);
  EXPECT_GT(training.progress()[29].accuracy, 0.35);
  EXPECT_TRUE(training.parameters_identical());
  EXPECT_EQ(training.failed(), 0);
}

// The three workers end each iteration together, so the foremost one is where the median one is.
TEST(VirtualTraining, EndsSoonAfterItsTarget) {
  TrainingConfig config = kSmall;
  config.target = 0.3;
  VirtualTraining training(config);
  const std::array<uint32_t, 3> all{0, 1, 2};
  uint32_t reached = 0;
  while (time_to_accuracy(training.progress(), 0.3) == Instant::never()) {
    ASSERT_LT(reached, 40U);
    EXPECT_FALSE(training.is_last(reached));
    play(training, reached++, all);
  }
  const uint32_t last = reached - 1 + kAfterTarget;
  for (uint32_t i = reached; i < last; i++) {
    play(training, i, all);
    EXPECT_FALSE(training.is_last(i));
  }
  play(training, last, all);
  EXPECT_TRUE(training.is_last(last));
}

TEST(VirtualTraining, WorkerThatSkipsComputesNothing) {
  VirtualTraining training(kSmall);
  const std::span<float> first = training.tensor(1, 0, true);
  EXPECT_TRUE(std::any_of(first.begin(), first.end(), [](float g) { return g != 0.0F; }));
  std::fill(first.begin(), first.end(), 5.0F);  // The average replaces the gradients.
  const std::span<float> second = training.tensor(1, 1, false);
  EXPECT_EQ(second.data(), first.data());
  EXPECT_TRUE(std::all_of(second.begin(), second.end(), [](float g) { return g == 5.0F; }));
}

/// The test plays the aggregator: it adds each push to the parameters.
TEST(VirtualTraining, AsynchronousWorkersLearnFromEachPush) {
  TrainingConfig config = kSmall;
  config.asynchronous = true;
  VirtualTraining training(config);
  std::vector<float> parameters(training.tensor(0, 0, true).size());
  for (uint32_t i = 0; i < 60; i++) {
    for (uint32_t w = 0; w < 3; w++) {
      if (w == 2 && i % 2 == 1) continue;  // Half as fast as the others.
      const std::span<float> push = training.tensor(w, i, true);
      for (size_t j = 0; j < push.size(); j++) parameters[j] += push[j];
      std::copy(parameters.begin(), parameters.end(), push.begin());
      training.reduced(w, i, host::Outcome{});
      training.iteration_ended(w, i, Instant(seconds(i + 1)));
    }
  }
  EXPECT_EQ(training.op(), host::ReduceOp::kSum);
  EXPECT_LT(training.progress().front().accuracy, 0.25);
  EXPECT_GT(training.progress().back().accuracy, 0.35);
}

TEST(VirtualTraining, AveragingWorkersTakeTheMeanOfTheirParameters) {
  TrainingConfig config = kSmall;
  config.averages_parameters = true;
  config.adam.rate = 0;  // Steps change nothing, so a tensor shows the parameters.
  VirtualTraining training(config);
  for (uint32_t w = 0; w < 3; w++) {
    training.apply_alone(w, 0);
    const std::span<float> parameters = training.tensor(w, 1, true);
    // The workers' values would be 0.5, 1.5 and 2.5 times the index: the mean is 1.5.
    for (size_t i = 0; i < parameters.size(); i++) parameters[i] = 1.5F * static_cast<float>(i);
    training.reduced(w, 1, host::Outcome{});
  }
  EXPECT_EQ(training.op(), host::ReduceOp::kMean);
  for (uint32_t w = 0; w < 3; w++) {
    const std::span<float> parameters = training.tensor(w, 2, true);
    for (size_t i = 0; i < parameters.size(); i++) {
      ASSERT_EQ(parameters[i], 1.5F * static_cast<float>(i));
    }
  }
}

TEST(VirtualTraining, AveragingWorkersLearnBetweenExchanges) {
  TrainingConfig config = kSmall;
  config.averages_parameters = true;
  VirtualTraining training(config);
  const std::array<uint32_t, 3> all{0, 1, 2};
  for (uint32_t i = 0; i < 30; i++) {
    if (i % 3 == 2) {
      play(training, i, all);
      EXPECT_TRUE(training.parameters_identical());
      continue;
    }
    for (uint32_t w = 0; w < 3; w++) {
      training.apply_alone(w, i);
      training.iteration_ended(w, i, Instant(seconds(i + 1)));
    }
    EXPECT_FALSE(training.parameters_identical());
    if (i < 3) continue;
    const std::span<const VirtualTraining::Progress> progress = training.progress();
    EXPECT_EQ(progress[i].accuracy, progress[i - 1].accuracy) << "of the last mean";
  }
  EXPECT_LT(training.progress().front().accuracy, 0.25);
  EXPECT_GT(training.progress().back().accuracy, 0.35);
}

TEST(VirtualTraining, FailedAllReduceIsCountedAndNotApplied) {
  VirtualTraining training(kSmall);
  for (uint32_t w = 0; w < 3; w++) {
    const std::span<float> tensor = training.tensor(w, 0, true);
    std::fill(tensor.begin(), tensor.end(), 1.0F);
  }
  host::Outcome bad;
  bad.status = host::Status::kPeerMissing;
  training.reduced(0, 0, bad);
  training.reduced(1, 0, host::Outcome{});
  EXPECT_EQ(training.failed(), 1);
  EXPECT_TRUE(training.parameters_identical());  // Worker 1 alone applied the most averages.
  training.reduced(2, 0, host::Outcome{});
  EXPECT_TRUE(training.parameters_identical());
}

TEST(VirtualTraining, DetectsDifferentAverages) {
  VirtualTraining training(kSmall);
  for (uint32_t w = 0; w < 3; w++) {
    const std::span<float> tensor = training.tensor(w, 0, true);
    std::fill(tensor.begin(), tensor.end(), w == 1 ? -1.0F : 1.0F);
    training.reduced(w, 0, host::Outcome{});
  }
  EXPECT_FALSE(training.parameters_identical());
}

TEST(TimeToAccuracy, NeedsTheMeanOfSeveralIterations) {
  std::vector<VirtualTraining::Progress> progress;
  const std::array<double, 9> accuracies{0.1, 0.95, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9};
  for (uint32_t i = 0; i < accuracies.size(); i++) {
    progress.push_back({.iteration = i, .at = Instant(seconds(i)), .accuracy = accuracies[i]});
  }
  // Means over five: at 5 (0.1 .. 0.9) 0.74 - below; at 7 all five are 0.9.
  EXPECT_EQ(time_to_accuracy(progress, 0.9 - 1e-9), Instant(seconds(7)));
  EXPECT_EQ(time_to_accuracy(progress, 0.95), Instant::never());
  EXPECT_EQ(time_to_accuracy({}, 0.5), Instant::never());
}

}  // namespace
}  // namespace tributary::lab
