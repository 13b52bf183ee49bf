// SPDX-License-Identifier: Apache-2.0
#include "lab/workload/dnn_shape.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "base/assert.h"

namespace tributary::lab {
namespace {

constexpr uint32_t kClasses = 1000;     // ImageNet.
constexpr uint32_t kImagePixels = 224;  // Width and height.

/// Collects tensors while it follows an image's size through the layers.
class Builder {
 public:
  struct Conv {
    uint32_t in;
    uint32_t out;
    uint32_t kernel;
    uint32_t stride = 1;
    uint32_t groups = 1;
    bool bias = false;
  };

  void conv(const Conv& c) {
    pixels_ = (pixels_ + c.stride - 1) / c.stride;
    conv_beside(c);
  }
  /// A convolution whose output has the size that the image has by now (a shortcut).
  void conv_beside(const Conv& c) {
    const uint64_t elements = uint64_t{c.out} * (c.in / c.groups) * c.kernel * c.kernel;
    tensors_.push_back({elements, elements * pixels_ * pixels_});
    if (c.bias) tensors_.push_back({c.out, 0});
  }
  void norm(uint32_t channels) {
    tensors_.push_back({channels, 0});
    tensors_.push_back({channels, 0});
  }
  void pool(uint32_t stride = 2) { pixels_ /= stride; }
  void linear(uint64_t in, uint64_t out) {
    tensors_.push_back({in * out, in * out});
    tensors_.push_back({out, 0});
  }
  std::vector<DnnTensor> take() { return std::move(tensors_); }

 private:
  uint32_t pixels_ = kImagePixels;
  std::vector<DnnTensor> tensors_;
};

void resnet_stem(Builder& net) {
  net.conv({.in = 3, .out = 64, .kernel = 7, .stride = 2});
  net.norm(64);
  net.pool();
}

std::vector<DnnTensor> resnet18() {
  Builder net;
  resnet_stem(net);
  uint32_t channels = 64;
  for (uint32_t stage = 0; stage < 4; stage++) {
    const uint32_t out = 64U << stage;
    for (uint32_t block = 0; block < 2; block++) {
      const uint32_t stride = stage > 0 && block == 0 ? 2 : 1;
      net.conv({.in = channels, .out = out, .kernel = 3, .stride = stride});
      net.norm(out);
      net.conv({.in = out, .out = out, .kernel = 3});
      net.norm(out);
      if (channels != out) {
        net.conv_beside({.in = channels, .out = out, .kernel = 1});
        net.norm(out);
      }
      channels = out;
    }
  }
  net.linear(channels, kClasses);
  return net.take();
}

std::vector<DnnTensor> resnet50() {
  constexpr std::array<uint32_t, 4> kBlocks{3, 4, 6, 3};
  constexpr uint32_t kExpansion = 4;
  Builder net;
  resnet_stem(net);
  uint32_t channels = 64;
  for (uint32_t stage = 0; stage < kBlocks.size(); stage++) {
    const uint32_t width = 64U << stage;
    const uint32_t out = width * kExpansion;
    for (uint32_t block = 0; block < kBlocks[stage]; block++) {
      const uint32_t stride = stage > 0 && block == 0 ? 2 : 1;
      net.conv({.in = channels, .out = width, .kernel = 1});
      net.norm(width);
      net.conv({.in = width, .out = width, .kernel = 3, .stride = stride});
      net.norm(width);
      net.conv({.in = width, .out = out, .kernel = 1});
      net.norm(out);
      if (block == 0) {
        net.conv_beside({.in = channels, .out = out, .kernel = 1});
        net.norm(out);
      }
      channels = out;
    }
  }
  net.linear(channels, kClasses);
  return net.take();
}

/// @param convolutions Of each stage.
std::vector<DnnTensor> vgg(const std::array<uint32_t, 5>& convolutions) {
  constexpr std::array<uint32_t, 5> kStageChannels{64, 128, 256, 512, 512};
  Builder net;
  uint32_t channels = 3;
  for (size_t stage = 0; stage < convolutions.size(); stage++) {
    for (uint32_t i = 0; i < convolutions[stage]; i++) {
      net.conv({.in = channels, .out = kStageChannels[stage], .kernel = 3, .bias = true});
      channels = kStageChannels[stage];
    }
    net.pool();
  }
  constexpr uint32_t kHidden = 4096;
  constexpr uint32_t kLastPixels = 7;
  net.linear(uint64_t{channels} * kLastPixels * kLastPixels, kHidden);
  net.linear(kHidden, kHidden);
  net.linear(kHidden, kClasses);
  return net.take();
}

std::vector<DnnTensor> densenet161() {
  constexpr std::array<uint32_t, 4> kBlocks{6, 12, 36, 24};
  constexpr uint32_t kGrowth = 48;
  constexpr uint32_t kBottleneck = 4 * kGrowth;
  Builder net;
  uint32_t channels = 2 * kGrowth;
  net.conv({.in = 3, .out = channels, .kernel = 7, .stride = 2});
  net.norm(channels);
  net.pool();
  for (uint32_t stage = 0; stage < kBlocks.size(); stage++) {
    for (uint32_t layer = 0; layer < kBlocks[stage]; layer++) {
      net.norm(channels);
      net.conv({.in = channels, .out = kBottleneck, .kernel = 1});
      net.norm(kBottleneck);
      net.conv({.in = kBottleneck, .out = kGrowth, .kernel = 3});
      channels += kGrowth;
    }
    net.norm(channels);
    if (stage + 1 == kBlocks.size()) break;
    net.conv({.in = channels, .out = channels / 2, .kernel = 1});
    channels /= 2;
    net.pool();
  }
  net.linear(channels, kClasses);
  return net.take();
}

std::vector<DnnTensor> mobilenet_v2() {
  struct Stage {
    uint32_t expansion;
    uint32_t out;
    uint32_t blocks;
    uint32_t stride;
  };
  Builder net;
  uint32_t channels = 32;
  net.conv({.in = 3, .out = channels, .kernel = 3, .stride = 2});
  net.norm(channels);
  for (const Stage stage : {Stage{1, 16, 1, 1},
                            {6, 24, 2, 2},
                            {6, 32, 3, 2},
                            {6, 64, 4, 2},
                            {6, 96, 3, 1},
                            {6, 160, 3, 2},
                            {6, 320, 1, 1}}) {
    for (uint32_t block = 0; block < stage.blocks; block++) {
      const uint32_t hidden = channels * stage.expansion;
      if (stage.expansion > 1) {
        net.conv({.in = channels, .out = hidden, .kernel = 1});
        net.norm(hidden);
      }
      net.conv({.in = hidden,
                .out = hidden,
                .kernel = 3,
                .stride = block == 0 ? stage.stride : 1,
                .groups = hidden});
      net.norm(hidden);
      net.conv({.in = hidden, .out = stage.out, .kernel = 1});
      net.norm(stage.out);
      channels = stage.out;
    }
  }
  constexpr uint32_t kLast = 1280;
  net.conv({.in = channels, .out = kLast, .kernel = 1});
  net.norm(kLast);
  net.linear(kLast, kClasses);
  return net.take();
}

/// Batch sizes of the first three: Trio paper Table 1; of VGG16: BytePS paper §3.1, Figure 4; of
/// the others: assumed as ResNet50's.
std::vector<DnnShape> build_all() {
  return {
      {Model::kResnet50, "resnet50", "98 MB, batch 64 (Trio paper Table 1)", 64, resnet50()},
      {Model::kVgg11, "vgg11", "507 MB, batch 128 (Trio paper Table 1)", 128, vgg({1, 1, 2, 2, 2})},
      {Model::kDensenet161, "densenet161", "109 MB, batch 64 (Trio paper Table 1)", 64,
       densenet161()},
      {Model::kResnet18, "resnet18", "45 MB, batch 64", 64, resnet18()},
      {Model::kMobilenetV2, "mobilenet_v2", "13 MB, batch 64", 64, mobilenet_v2()},
      {Model::kVgg16, "vgg16", "553 MB, batch 32 (BytePS paper Figure 4)", 32,
       vgg({2, 2, 3, 3, 3})},
  };
}

}  // namespace

uint64_t DnnShape::elements() const {
  uint64_t sum = 0;
  for (const DnnTensor& tensor : tensors) sum += tensor.elements;
  return sum;
}

uint64_t DnnShape::multiply_adds() const {
  uint64_t sum = 0;
  for (const DnnTensor& tensor : tensors) sum += tensor.multiply_adds;
  return sum;
}

const std::vector<DnnShape>& dnn_shapes() {
  static const std::vector<DnnShape> shapes = build_all();
  return shapes;
}

const DnnShape& dnn_shape(Model model) {
  const DnnShape& shape = dnn_shapes().at(static_cast<size_t>(model));
  TRIB_ASSERT(shape.id == model);
  return shape;
}

}  // namespace tributary::lab
