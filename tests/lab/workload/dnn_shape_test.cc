// SPDX-License-Identifier: Apache-2.0
// Method: the known parameter counts and multiply-adds of the networks.
#include "lab/workload/dnn_shape.h"

#include <gtest/gtest.h>

#include <set>

namespace tributary::lab {
namespace {

TEST(DnnShape, ParameterCountsMatchThePublishedOnes) {
  // As torchvision counts them.
  EXPECT_EQ(dnn_shape(Model::kResnet18).elements(), 11'689'512U);
  EXPECT_EQ(dnn_shape(Model::kResnet50).elements(), 25'557'032U);
  EXPECT_EQ(dnn_shape(Model::kVgg11).elements(), 132'863'336U);
  EXPECT_EQ(dnn_shape(Model::kDensenet161).elements(), 28'681'000U);
  EXPECT_EQ(dnn_shape(Model::kMobilenetV2).elements(), 3'504'872U);
  EXPECT_EQ(dnn_shape(Model::kVgg16).elements(), 138'357'544U);
}

TEST(DnnShape, MultiplyAddsMatchThePublishedOnes) {
  // In 10^9, as the networks' papers and torchvision give them.
  const auto giga = [](Model model) {
    return static_cast<double>(dnn_shape(model).multiply_adds()) / 1e9;
  };
  EXPECT_NEAR(giga(Model::kResnet18), 1.81, 0.02);
  EXPECT_NEAR(giga(Model::kResnet50), 4.09, 0.02);
  EXPECT_NEAR(giga(Model::kVgg11), 7.61, 0.02);
  EXPECT_NEAR(giga(Model::kDensenet161), 7.73, 0.02);
  EXPECT_NEAR(giga(Model::kMobilenetV2), 0.30, 0.01);
  EXPECT_NEAR(giga(Model::kVgg16), 15.47, 0.02);
}

TEST(DnnShape, NamesAreUniqueAndEveryModelHasAShape) {
  std::set<std::string> names;
  for (const DnnShape& shape : dnn_shapes()) EXPECT_TRUE(names.insert(shape.name).second);
  EXPECT_EQ(dnn_shapes().size(), static_cast<size_t>(Model::kCustom));
}

}  // namespace
}  // namespace tributary::lab
