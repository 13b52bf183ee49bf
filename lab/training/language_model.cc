// SPDX-License-Identifier: Apache-2.0
#include "lab/training/language_model.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/prng.h"
#include "lab/training/float_functions.h"
#include "lab/training/matrix_kernel.h"

namespace tributary::lab {
namespace {

void fill_uniform(std::span<float> values, float magnitude, Prng& prng) {
  for (float& value : values) {
    value = magnitude * static_cast<float>(2.0 * prng.unit() - 1.0);
  }
}

/// matrix[row][column] += bias[column], shape [rows][bias.size()].
void add_bias(std::span<const float> bias, std::vector<float>& matrix) {
  const size_t columns = bias.size();
  for (size_t row = 0; row < matrix.size() / columns; row++) {
    for (size_t column = 0; column < columns; column++) {
      matrix[row * columns + column] += bias[column];
    }
  }
}

/// sums[column] = sum over rows of matrix[row][column].
void sum_columns(const std::vector<float>& matrix, std::span<float> sums) {
  const size_t columns = sums.size();
  std::fill(sums.begin(), sums.end(), 0.0F);
  for (size_t row = 0; row < matrix.size() / columns; row++) {
    for (size_t column = 0; column < columns; column++) {
      sums[column] += matrix[row * columns + column];
    }
  }
}

/// Returns the cross-entropy of one row of logits in nats. Replaces the row by the probabilities.
double softmax_loss(std::span<float> logits, uint8_t target) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  const double target_logit = logits[target];
  for (float& logit : logits) logit -= largest;
  exp_in_place(logits);  // At most 1 each, so the sum cannot overflow.
  float sum = 0.0F;
  for (const float each : logits) sum += each;
  for (float& logit : logits) logit /= sum;
  return std::log(static_cast<double>(sum)) + largest - target_logit;
}

}  // namespace

LanguageModel::Layout LanguageModel::layout_of(const LanguageModelShape& shape) {
  Layout layout{};
  layout.hidden_weights = kByteValues * shape.embedding;
  layout.hidden_bias = layout.hidden_weights + shape.input_count() * shape.hidden;
  layout.output_weights = layout.hidden_bias + shape.hidden;
  layout.output_bias = layout.output_weights + shape.hidden * kByteValues;
  TRIB_ASSERT(layout.output_bias + kByteValues == shape.parameter_count());
  return layout;
}

LanguageModel::LanguageModel(const LanguageModelShape& shape, uint64_t seed)
    : shape_(shape), layout_(layout_of(shape)), parameters_(shape.parameter_count()) {
  TRIB_ASSERT(shape.hidden % kTileColumns == 0 && shape.input_count() % kTileColumns == 0);
  Prng prng(seed);
  const std::span<float> all(parameters_);
  // Uniform in +-sqrt(3 / fan-in) has variance 1 / fan-in: activations keep their size. Biases
  // start at 0, and a tenth for the output layer makes all bytes almost equally likely at first.
  fill_uniform(all.subspan(0, kByteValues * shape.embedding), 1.0F, prng);
  fill_uniform(all.subspan(layout_.hidden_weights, shape.input_count() * shape.hidden),
               std::sqrt(3.0F / static_cast<float>(shape.input_count())), prng);
  fill_uniform(all.subspan(layout_.output_weights, shape.hidden * kByteValues),
               0.1F * std::sqrt(3.0F / static_cast<float>(shape.hidden)), prng);
}

void LanguageModel::compute_logits(const Batch& batch) {
  const auto size = static_cast<uint32_t>(batch.targets.size());
  TRIB_ASSERT(size != 0 && size % kTileRows == 0);
  TRIB_ASSERT(batch.contexts.size() == size_t{size} * shape_.context);
  const std::span<const float> all(parameters_);

  input_.resize(size_t{size} * shape_.input_count());
  for (size_t i = 0; i < batch.contexts.size(); i++) {
    std::copy_n(all.data() + layout_.embedding + batch.contexts[i] * shape_.embedding,
                shape_.embedding, input_.data() + i * shape_.embedding);
  }

  hidden_.resize(size_t{size} * shape_.hidden);
  multiply({input_.data(), shape_.input_count(), 1}, all.data() + layout_.hidden_weights,
           hidden_.data(), size, shape_.hidden, shape_.input_count());
  add_bias(all.subspan(layout_.hidden_bias, shape_.hidden), hidden_);
  tanh_in_place(hidden_);

  logits_.resize(size_t{size} * kByteValues);
  multiply({hidden_.data(), shape_.hidden, 1}, all.data() + layout_.output_weights, logits_.data(),
           size, kByteValues, shape_.hidden);
  add_bias(all.subspan(layout_.output_bias, kByteValues), logits_);
}

double LanguageModel::forward(const Batch& batch, bool with_derivatives) {
  compute_logits(batch);
  const auto size = static_cast<uint32_t>(batch.targets.size());
  double loss_sum = 0.0;
  for (uint32_t i = 0; i < size; i++) {
    const std::span<float> row(logits_.data() + size_t{i} * kByteValues, kByteValues);
    loss_sum += softmax_loss(row, batch.targets[i]);
    if (!with_derivatives) continue;
    // d loss / d logit = probability - (1 for the target), over the batch.
    row[batch.targets[i]] -= 1.0F;
    for (float& value : row) value /= static_cast<float>(size);
  }
  return loss_sum / size;
}

void LanguageModel::backward_output(uint32_t size, std::span<float> gradients) {
  multiply({hidden_.data(), 1, shape_.hidden}, logits_.data(),
           gradients.data() + layout_.output_weights, shape_.hidden, kByteValues, size);
  sum_columns(logits_, gradients.subspan(layout_.output_bias, kByteValues));

  transposed_.resize(std::max(shape_.input_count(), kByteValues) * size_t{shape_.hidden});
  transpose(parameters_.data() + layout_.output_weights, shape_.hidden, kByteValues,
            transposed_.data());
  d_hidden_.resize(hidden_.size());
  multiply({logits_.data(), kByteValues, 1}, transposed_.data(), d_hidden_.data(), size,
           shape_.hidden, kByteValues);
  for (size_t i = 0; i < hidden_.size(); i++) d_hidden_[i] *= 1.0F - hidden_[i] * hidden_[i];
}

void LanguageModel::backward_hidden(const Batch& batch, std::span<float> gradients) {
  const auto size = static_cast<uint32_t>(batch.targets.size());
  multiply({input_.data(), 1, shape_.input_count()}, d_hidden_.data(),
           gradients.data() + layout_.hidden_weights, shape_.input_count(), shape_.hidden, size);
  sum_columns(d_hidden_, gradients.subspan(layout_.hidden_bias, shape_.hidden));

  transpose(parameters_.data() + layout_.hidden_weights, shape_.input_count(), shape_.hidden,
            transposed_.data());
  d_input_.resize(input_.size());
  multiply({d_hidden_.data(), shape_.hidden, 1}, transposed_.data(), d_input_.data(), size,
           shape_.input_count(), shape_.hidden);

  // A byte's embedding was used at every position of the byte.
  float* table = gradients.data() + layout_.embedding;
  std::fill_n(table, kByteValues * shape_.embedding, 0.0F);
  for (size_t i = 0; i < batch.contexts.size(); i++) {
    float* row = table + batch.contexts[i] * shape_.embedding;
    const float* from = d_input_.data() + i * shape_.embedding;
    for (uint32_t j = 0; j < shape_.embedding; j++) row[j] += from[j];
  }
}

double LanguageModel::forward_backward(const Batch& batch, std::span<float> gradients) {
  TRIB_ASSERT(gradients.size() == shape_.parameter_count());
  const double mean_loss = forward(batch, true);
  backward_output(static_cast<uint32_t>(batch.targets.size()), gradients);
  backward_hidden(batch, gradients);
  return mean_loss;
}

double LanguageModel::loss(const Batch& batch) { return forward(batch, false); }

double LanguageModel::top_accuracy(const Batch& batch, uint32_t count) {
  compute_logits(batch);  // They rank as the probabilities do.
  uint32_t hits = 0;
  for (size_t i = 0; i < batch.targets.size(); i++) {
    const std::span<const float> row(logits_.data() + i * kByteValues, kByteValues);
    const float wanted = row[batch.targets[i]];
    uint32_t more_likely = 0;
    for (const float other : row) more_likely += other > wanted ? 1 : 0;
    hits += more_likely < count ? 1 : 0;
  }
  return static_cast<double>(hits) / static_cast<double>(batch.targets.size());
}

}  // namespace tributary::lab
