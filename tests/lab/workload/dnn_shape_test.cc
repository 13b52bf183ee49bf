// SPDX-License-Identifier: Apache-2.0
// Method: the parameter counts and multiply-adds that the networks are known for.
#include "lab/workload/dnn_shape.h"

#include <gtest/gtest.h>

#include <set>

namespace tributary::lab {
namespace {

TEST(DnnShape, ParameterCountsAreTheKnownOnes) {
  // As torchvision counts them.
  EXPECT_EQ(find_dnn_shape("resnet18")->elements(), 11'689'512U);
  EXPECT_EQ(find_dnn_shape("resnet50")->elements(), 25'557'032U);
  EXPECT_EQ(find_dnn_shape("vgg11")->elements(), 132'863'336U);
  EXPECT_EQ(find_dnn_shape("densenet161")->elements(), 28'681'000U);
  EXPECT_EQ(find_dnn_shape("mobilenet_v2")->elements(), 3'504'872U);
}

TEST(DnnShape, MultiplyAddsAreTheKnownOnes) {
  // In 10^9, as the networks' papers and torchvision give them.
  const auto giga = [](const char* name) {
    return static_cast<double>(find_dnn_shape(name)->multiply_adds()) / 1e9;
  };
  EXPECT_NEAR(giga("resnet18"), 1.81, 0.02);
  EXPECT_NEAR(giga("resnet50"), 4.09, 0.02);
  EXPECT_NEAR(giga("vgg11"), 7.61, 0.02);
  EXPECT_NEAR(giga("densenet161"), 7.73, 0.02);
  EXPECT_NEAR(giga("mobilenet_v2"), 0.30, 0.01);
}

TEST(DnnShape, NamesAreUniqueAndOthersUnknown) {
  std::set<std::string> names;
  for (const DnnShape& shape : dnn_shapes()) EXPECT_TRUE(names.insert(shape.name).second);
  EXPECT_EQ(find_dnn_shape("resnet51"), nullptr);
}

}  // namespace
}  // namespace tributary::lab
