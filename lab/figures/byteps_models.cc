// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/byteps_models.h"

#include <utility>

namespace tributary::lab {
namespace {

constexpr uint64_t kFloatBytes = 4;
constexpr uint64_t kHalfBytes = 2;

Duration scaled(Duration time, double factor) {
  return Duration::from_ticks(static_cast<int64_t>(static_cast<double>(time.ticks()) * factor));
}

BytepsModel split(BytepsModel model, Duration computation) {
  model.forward = computation / 3;
  model.backward = computation - model.forward;
  return model;
}

// --- UGATIT --------------------------------------------------------------------------------------
// Source: Kim et al. 2020 and the paper's evaluation code (github.com/byteps/examples at faae871,
// UGATIT.py, the full version). An iteration updates discriminators, then generators. It has 8
// passes of a generator forward, and 8 backward of twice their time: 2 + 4, then 6 + 12 steps. The
// discriminators' work, a tenth of the whole, is spread over the steps; in its own place it would
// make the connected layers ready after 21.4 and 23.2 steps.

/// Computation of 2 images. Source: SwitchML paper, Table 1: 1212 ms on a P100 at 100 Gbit/s, of
/// which communication that is not hidden takes 0.04 %.
constexpr Duration kUgatitP100 = milliseconds(1212);
constexpr int64_t kSteps = 24;
constexpr int64_t kForwardSteps = 2;  ///< Before the discriminators' backward pass.
/// Each generator has a fully connected layer from 256 channels of 64 x 64 pixels to 256 values.
constexpr uint64_t kConnectedBytes = kFloatBytes * 256 * 64 * 64 * 256;
static_assert(kConnectedBytes == uint64_t{1} << 30);
/// A generator's other layers, half of them on either side of the connected one. Rounded.
constexpr uint64_t kGeneratorBytes = kFloatBytes * 10'600'000;
/// Four discriminators: 53.1 million parameters for 7 layers, 3.3 million for 5, two of each.
constexpr uint64_t kDiscriminatorBytes = kFloatBytes * 112'800'000;
/// Bytes of steps without gradients. A bucket must have at least one byte.
constexpr uint64_t kNone = kFloatBytes;

/// Gradients by the step after which they are ready. A generator's gradients are sums over three
/// passes; the last backward pass of each takes two of the last four steps. Of a pass's work, 56 %
/// is behind the connected layer, so its gradient is ready after the first of the two.
std::vector<uint64_t> ugatit_buckets() {
  std::vector<uint64_t> by_step(kSteps + 1, kNone);
  by_step[kForwardSteps + 1] = kDiscriminatorBytes;
  by_step[kSteps - 3] = kConnectedBytes + kGeneratorBytes / 2;
  by_step[kSteps - 2] = kGeneratorBytes / 2;
  by_step[kSteps - 1] = kConnectedBytes + kGeneratorBytes / 2;
  by_step[kSteps] = kGeneratorBytes / 2;
  return {by_step.begin() + kForwardSteps + 1, by_step.end()};
}

// --- Image classification ------------------------------------------------------------------------
// Batches: defaults of the evaluation code (benchmark.py, 128; vgg-16/run.sh, 32, as in Figure 4).
// The labels of Figure 15 are not in the paper's text.

/// Computation of 64 images on a P100. Source: SwitchML paper, Table 1, without the communication
/// that is not hidden (270 ms less 0.2 %; 499 ms less 0.1 %, of VGG-19).
constexpr Duration kResnet50P100 = microseconds(269'500);
constexpr Duration kVgg19P100 = microseconds(498'500);
constexpr double kP100Images = 64;
constexpr double kResnet50Images = 128;
constexpr double kVgg16Images = 32;
/// Multiply-adds of an image, 15.47 and 19.63 thousand million (torchvision).
constexpr double kVgg16OverVgg19 = 15.47 / 19.63;
/// Of 138.4 million parameters, these are in the three connected layers, whose backward pass comes
/// first and has 0.8 % of the work. The convolutions' are spread evenly (assumed).
constexpr uint64_t kVgg16ConnectedBytes = kFloatBytes * 123'642'856;
constexpr uint64_t kVgg16ConvolutionBytes = kFloatBytes * 14'714'688;
constexpr uint64_t kVgg16Buckets = 16;

// --- BERT-large ----------------------------------------------------------------------------------
// Source: Devlin et al. 2018, and the evaluation code (run_bps.sh: 16-bit gradients, 16384
// sequences of 128 tokens over 256 GPUs).

/// Sequences a second of one V100 with 32 GB, 64 of 128 tokens at a time, mixed precision. Source:
/// NVIDIA DeepLearningExamples, PyTorch/LanguageModeling/BERT/README.md of 2020.
constexpr double kBertSequencesPerS = 171.52;
constexpr double kBertSequences = 64;
constexpr uint64_t kBertLayers = 24;
constexpr uint64_t kBertLayerBytes = kHalfBytes * 12'596'224;
/// Embeddings, which are also the output's weights: complete at the end of the backward pass. With
/// them, the small layers at the output.
constexpr uint64_t kBertOtherBytes = kHalfBytes * 33'900'000;

}  // namespace

BytepsModel ugatit_model() {
  const Duration computation = scaled(kUgatitP100, kV100OverP100);
  const Duration forward = computation * kForwardSteps / kSteps;
  return {.name = "UGATIT",
          .kind = Model::kCustom,
          .forward = forward,
          .backward = computation - forward,
          .bucket_bytes = ugatit_buckets(),
          .train = 16};
}

BytepsModel resnet50_model() {
  return split({.name = "ResNet-50",
                .kind = Model::kResnet50,
                .forward = {},
                .backward = {},
                .bucket_bytes = {},
                .train = 4},
               scaled(kResnet50P100, kV100OverP100 * kResnet50Images / kP100Images));
}

BytepsModel vgg16_model() {
  std::vector<uint64_t> buckets(kVgg16Buckets, kVgg16ConvolutionBytes / (kVgg16Buckets - 1));
  buckets.front() = kVgg16ConnectedBytes;
  return split({.name = "VGG-16",
                .kind = Model::kCustom,
                .forward = {},
                .backward = {},
                .bucket_bytes = std::move(buckets),
                .train = 8},
               scaled(kVgg19P100, kVgg16OverVgg19 * kV100OverP100 * kVgg16Images / kP100Images));
}

BytepsModel bert_large_model() {
  std::vector<uint64_t> buckets(kBertLayers + 1, kBertLayerBytes);
  buckets.back() = kBertOtherBytes;
  return split({.name = "BERT-large",
                .kind = Model::kCustom,
                .forward = {},
                .backward = {},
                .bucket_bytes = std::move(buckets),
                .train = 8},
               scaled(seconds(1), kBertSequences / kBertSequencesPerS));
}

void train_model(Scenario& scenario, const BytepsModel& model) {
  scenario.model.kind = model.kind;
  scenario.model.bucket_bytes = model.bucket_bytes;
  scenario.model.forward = model.forward;
  scenario.model.backward = model.backward;
  scenario.train = model.train;
}

}  // namespace tributary::lab
