// SPDX-License-Identifier: Apache-2.0
// Method: the known loss before training; then every part of the gradient against finite
// differences; then a falling loss along the gradient.
#include "lab/training/language_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lab/training/adam.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

constexpr LanguageModelShape kSmall{.context = 4, .embedding = 8, .hidden = 16};

Batch random_batch(uint32_t size, uint32_t context, Prng& prng) {
  Batch batch;
  for (uint32_t i = 0; i < size * context; i++) {
    batch.contexts.push_back(static_cast<uint8_t>('a' + prng.below(4)));
  }
  for (uint32_t i = 0; i < size; i++) {
    batch.targets.push_back(static_cast<uint8_t>('a' + prng.below(4)));
  }
  return batch;
}

TEST(LanguageModel, UntrainedModelPredictsUniformly) {
  LanguageModel model(LanguageModelShape{}, 1);
  Prng prng(2);
  // 256 bytes, almost equally likely: ln 256 = 5.545 nats.
  EXPECT_NEAR(model.loss(random_batch(64, 16, prng)), std::log(256.0), 0.05);
}

TEST(LanguageModel, ZeroParametersGiveTheUniformLossAndItsGradient) {
  LanguageModel model(kSmall, 1);
  for (float& parameter : model.parameters()) parameter = 0.0F;
  Batch batch{std::vector<uint8_t>(16, 'x'), {'a', 'a', 'a', 'b'}};
  std::vector<float> gradients(kSmall.parameter_count());
  EXPECT_NEAR(model.forward_backward(batch, gradients), std::log(256.0), 1e-6);
  // Only the output bias matters: 1/256 for each byte, minus its share of the targets.
  const float* bias = gradients.data() + gradients.size() - 256;
  EXPECT_NEAR(bias['a'], 1.0 / 256 - 0.75, 1e-6);
  EXPECT_NEAR(bias['b'], 1.0 / 256 - 0.25, 1e-6);
  EXPECT_NEAR(bias['c'], 1.0 / 256, 1e-6);
  EXPECT_EQ(gradients[0], 0.0F);
}

TEST(LanguageModel, GradientMatchesFiniteDifferences) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  LanguageModel model(kSmall, prng.any_u64());
  // Larger output weights than at the start, so that all layers matter.
  for (float& parameter : model.parameters()) {
    parameter = 0.8F * static_cast<float>(2.0 * prng.unit() - 1.0);
  }
  const Batch batch = random_batch(8, kSmall.context, prng);
  std::vector<float> gradients(kSmall.parameter_count());
  const double loss = model.forward_backward(batch, gradients);
  EXPECT_EQ(loss, model.loss(batch));

  const auto check = [&](uint32_t index) {
    constexpr float kStep = 1.0F / 64;  // A power of two, so x + step - x is the step.
    float& parameter = model.parameters()[index];
    const float before = parameter;
    parameter = before + kStep;
    const double high = model.loss(batch);
    parameter = before - kStep;
    const double low = model.loss(batch);
    parameter = before;
    // Float32 activations leave about 1e-6 / step; the cubic term about step^2.
    EXPECT_NEAR((high - low) / (2.0 * kStep), gradients[index], 5e-4) << "parameter " << index;
  };
  for (uint32_t i = 0; i < 8; i++) check('a' * 8 + i);  // A used embedding.
  check('z' * 8);                                       // An unused one.
  for (uint32_t step = 0; step < 300; step++) {
    check(256 * 8 + prng.below(kSmall.parameter_count() - 256 * 8));
  }
}

TEST(LanguageModel, SameSeedGivesTheSameBits) {
  Prng prng(3);
  const Batch batch = random_batch(8, kSmall.context, prng);
  LanguageModel one(kSmall, 5), other(kSmall, 5), third(kSmall, 6);
  std::vector<float> gradients(kSmall.parameter_count()), again(kSmall.parameter_count());
  EXPECT_EQ(one.forward_backward(batch, gradients), other.forward_backward(batch, again));
  EXPECT_EQ(gradients, again);
  third.forward_backward(batch, again);
  EXPECT_NE(gradients, again);
}

TEST(LanguageModel, LearnsASmallText) {
  const std::string text = "the cat sat on the mat and the rat sat on the cat; ";
  Batch batch;
  const uint32_t size = 48;
  for (uint32_t i = 0; i < size; i++) {
    for (uint32_t j = 0; j < kSmall.context; j++) {
      batch.contexts.push_back(static_cast<uint8_t>(text[(i + j) % text.size()]));
    }
    batch.targets.push_back(static_cast<uint8_t>(text[(i + kSmall.context) % text.size()]));
  }
  LanguageModel model(kSmall, 1);
  Adam adam({.rate = 0.02F}, kSmall.parameter_count());
  std::vector<float> gradients(kSmall.parameter_count());
  for (uint32_t i = 0; i < 150; i++) {
    model.forward_backward(batch, gradients);
    adam.update(gradients, model.parameters());
  }
  EXPECT_LT(model.loss(batch), 0.3);
}

TEST(LanguageModel, TopAccuracyCountsTheMostLikely) {
  LanguageModel model({.context = 4, .embedding = 4, .hidden = 16}, 1);
  // Without weights, the output biases alone decide, for every context.
  std::fill(model.parameters().begin(), model.parameters().end(), 0.0F);
  const std::span<float> bias = model.parameters().last(kByteValues);
  for (uint32_t i = 0; i < 3; i++) bias[i] = static_cast<float>(3 - i);
  const Batch batch{.contexts = std::vector<uint8_t>(16), .targets = {0, 1, 2, 200}};
  EXPECT_EQ(model.top_accuracy(batch, 1), 0.25);
  EXPECT_EQ(model.top_accuracy(batch, 2), 0.5);
  EXPECT_EQ(model.top_accuracy(batch, 3), 0.75);
  EXPECT_EQ(model.top_accuracy(batch, 4), 1.0);  // All others are equally likely.
}

}  // namespace
}  // namespace tributary::lab
