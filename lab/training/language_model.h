// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small byte-level language model: the last `context` bytes give the probabilities of the next.
/// It is what the demo and Figure 12 train, so that the sums which pass the aggregator are real
/// gradients.
///
/// Model:   embedding [256][embedding], joined over the context; one hidden tanh layer; softmax
/// over
///          256 bytes; mean cross-entropy. Backward pass written out by hand.
/// Shapes:  All parameters lie in one flat vector, in this order: embedding table [256][embedding],
///          hidden weights [context * embedding][hidden], hidden bias [hidden], output weights
///          [hidden][256], output bias [256]. Gradients have the same layout.
/// Units:   Loss in nats per byte.
/// Exact:   Same binary, same machine, same inputs: same bits. Every worker relies on that.
/// Threads: One object, one thread.
/// Errors:  None; shapes are the caller's contract.
/// Memory:  Activations are kept between calls; the first call with a larger batch allocates.
/// Tests:   tests/lab/training/language_model_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tributary::lab {

/// Values that a byte can take: inputs and outputs of the model.
inline constexpr uint32_t kByteValues = 256;

struct LanguageModelShape {
  uint32_t context = 16;    ///< Bytes that the model sees.
  uint32_t embedding = 32;  ///< Numbers that stand for a byte; context * embedding is % 16 == 0.
  uint32_t hidden = 256;    ///< Units of the hidden layer, a multiple of 16.

  [[nodiscard]] constexpr uint32_t input_count() const { return context * embedding; }
  [[nodiscard]] constexpr uint32_t parameter_count() const {
    return kByteValues * embedding + input_count() * hidden + hidden + hidden * kByteValues +
           kByteValues;
  }
};
// 256*32 + 512*256 + 256 + 256*256 + 256
static_assert(LanguageModelShape{}.parameter_count() == 205'312);

/// Examples for one step.
struct Batch {
  std::vector<uint8_t> contexts;  ///< Shape [size][context], oldest byte first.
  std::vector<uint8_t> targets;   ///< Shape [size]; size is a multiple of 4, not 0.
};

class LanguageModel {
 public:
  /// Parameters start uniformly random from `seed`, so all workers start with the same bits.
  LanguageModel(const LanguageModelShape& shape, uint64_t seed);

  /// Mean loss over the batch; fills `gradients`, shape [parameter_count()], with its derivatives.
  double forward_backward(const Batch& batch, std::span<float> gradients);

  /// Mean loss over the batch, without derivatives.
  double loss(const Batch& batch);

  /// The share of the batch whose target is among the `count` most likely bytes.
  double top_accuracy(const Batch& batch, uint32_t count);

  [[nodiscard]] const LanguageModelShape& shape() const { return shape_; }
  [[nodiscard]] std::span<float> parameters() { return parameters_; }
  [[nodiscard]] std::span<const float> parameters() const { return parameters_; }

 private:
  /// Where the five parts begin in a flat vector of shape [parameter_count()].
  struct Layout {
    uint32_t embedding, hidden_weights, hidden_bias, output_weights, output_bias;
  };
  static Layout layout_of(const LanguageModelShape& shape);

  double forward(const Batch& batch, bool with_derivatives);
  void backward_output(uint32_t size, std::span<float> gradients);
  void backward_hidden(const Batch& batch, std::span<float> gradients);

  const LanguageModelShape shape_;
  const Layout layout_;
  std::vector<float> parameters_;

  // Activations of the last forward pass; derivatives by the same names.
  std::vector<float> input_;       ///< Shape [size][input_count].
  std::vector<float> hidden_;      ///< Shape [size][hidden], after tanh.
  std::vector<float> logits_;      ///< Shape [size][256]; after forward() d loss / d logits.
  std::vector<float> d_hidden_;    ///< Shape [size][hidden], before tanh.
  std::vector<float> d_input_;     ///< Shape [size][input_count].
  std::vector<float> transposed_;  ///< Room for either weight matrix, transposed.
};

}  // namespace tributary::lab
