// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small byte-level language model: it predicts the next byte from the last `context` bytes. The
/// demo and Figure 12 train it, so that the aggregator sums real gradients.
///
/// Model:   Embedding [256][embedding], concatenated over the context; one hidden tanh layer;
///          softmax over 256 bytes; mean cross-entropy in nats per byte. The backward pass is
///          written by hand.
/// Shapes:  All parameters lie in one vector: embedding table [256][embedding], hidden weights
///          [context * embedding][hidden], hidden bias [hidden], output weights [hidden][256],
///          output bias [256]. Gradients have the same layout.
/// Exact:   Equal inputs give equal gradients on every machine, to the bit. Workers rely on it.
/// Tests:   tests/lab/training/language_model_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tributary::lab {

/// Number of byte values: inputs and outputs of the model.
inline constexpr uint32_t kByteValues = 256;

struct LanguageModelShape {
  uint32_t context = 16;    ///< Input bytes.
  uint32_t embedding = 32;  ///< Values per input byte; context * embedding is a multiple of 16.
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
  /// Draws the parameters uniformly from `seed`, so all workers start with the same bits.
  LanguageModel(const LanguageModelShape& shape, uint64_t seed);

  /// Returns the mean loss over the batch, which uses the C library's logarithm. Fills
  /// `gradients`, shape [parameter_count()].
  double forward_backward(const Batch& batch, std::span<float> gradients);

  /// Returns the mean loss over the batch, without derivatives.
  double loss(const Batch& batch);

  /// Returns the share of examples whose target is among the `count` likeliest bytes.
  double top_accuracy(const Batch& batch, uint32_t count);

  [[nodiscard]] const LanguageModelShape& shape() const { return shape_; }
  [[nodiscard]] std::span<float> parameters() { return parameters_; }
  [[nodiscard]] std::span<const float> parameters() const { return parameters_; }

 private:
  /// Offsets of the five parts in a vector of shape [parameter_count()].
  struct Layout {
    uint32_t embedding, hidden_weights, hidden_bias, output_weights, output_bias;
  };
  static Layout layout_of(const LanguageModelShape& shape);

  /// Fills logits_.
  void compute_logits(const Batch& batch);
  /// Returns the mean loss. Replaces logits_ by the probabilities, or by the derivatives.
  double forward(const Batch& batch, bool with_derivatives);
  void backward_output(uint32_t size, std::span<float> gradients);
  void backward_hidden(const Batch& batch, std::span<float> gradients);

  const LanguageModelShape shape_;
  const Layout layout_;
  std::vector<float> parameters_;

  // Activations of the last forward pass; derivatives by the same names.
  std::vector<float> input_;       ///< Shape [size][input_count].
  std::vector<float> hidden_;      ///< Shape [size][hidden], after tanh.
  std::vector<float> logits_;      ///< Shape [size][256]; after forward() as stated there.
  std::vector<float> d_hidden_;    ///< Shape [size][hidden], before tanh.
  std::vector<float> d_input_;     ///< Shape [size][input_count].
  std::vector<float> transposed_;  ///< Room for either weight matrix, transposed.
};

}  // namespace tributary::lab
