// SPDX-License-Identifier: Apache-2.0
// Method: values by hand; then random factors, whose product has the bits of the simplest triple
// loop.
#include "lab/training/matrix_kernel.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

/// Returns values from -1 to 1. Their products and sums are rounded.
std::vector<float> random_values(size_t count, Prng& prng) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2.0 * prng.unit() - 1.0);
  return values;
}

std::vector<float> plain_product(const LeftMatrix& a, const std::vector<float>& b, uint32_t rows,
                                 uint32_t columns, uint32_t inner) {
  std::vector<float> c(size_t{rows} * columns);
  for (uint32_t i = 0; i < rows; i++) {
    for (uint32_t j = 0; j < columns; j++) {
      for (uint32_t k = 0; k < inner; k++) {
        c[i * columns + j] += a.data[i * a.row_stride + k * a.column_stride] * b[k * columns + j];
      }
    }
  }
  return c;
}

TEST(MatrixKernel, ProductMatchesHandWorkedValues) {
  // A has one column (1, 2, 3, 4), B one row (0 … 15): C[i][j] = (i + 1) * j.
  const std::vector<float> a{1, 2, 3, 4};
  std::vector<float> b(16);
  for (uint32_t j = 0; j < 16; j++) b[j] = static_cast<float>(j);
  std::vector<float> c(64, -1.0F);
  multiply({a.data(), 1, 1}, b.data(), c.data(), 4, 16, 1);
  for (uint32_t i = 0; i < 4; i++) {
    for (uint32_t j = 0; j < 16; j++) EXPECT_EQ(c[i * 16 + j], static_cast<float>((i + 1) * j));
  }
}

TEST(MatrixKernel, EmptySumGivesZeros) {
  std::vector<float> c(64, 7.0F);
  const float unused = 0.0F;
  multiply({&unused, 0, 0}, &unused, c.data(), 4, 16, 0);
  EXPECT_EQ(c, std::vector<float>(64, 0.0F));
}

TEST(MatrixKernel, TransposeSwapsIndices) {
  const uint32_t rows = 19, columns = 33;  // Neither is a multiple of the square.
  Prng prng(1);
  const auto from = random_values(rows * columns, prng);
  std::vector<float> to(from.size());
  transpose(from.data(), rows, columns, to.data());
  for (uint32_t i = 0; i < rows; i++) {
    for (uint32_t j = 0; j < columns; j++) EXPECT_EQ(to[j * rows + i], from[i * columns + j]);
  }
}

TEST(MatrixKernel, RandomShapesMatchTheTripleLoop) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 60; step++) {
    const uint32_t rows = 4 * (1 + prng.below(8));
    const uint32_t columns = 16 * (1 + prng.below(4));
    const uint32_t inner = prng.below(600);  // Up to three panels of B.
    const auto left = random_values(size_t{rows} * inner, prng);
    const auto b = random_values(size_t{inner} * columns, prng);
    const bool transposed = prng.chance(0.5);
    const LeftMatrix a{left.data(), transposed ? 1 : inner, transposed ? rows : 1};
    std::vector<float> c(size_t{rows} * columns, 99.0F);
    multiply(a, b.data(), c.data(), rows, columns, inner);
    ASSERT_EQ(c, plain_product(a, b, rows, columns, inner)) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::lab
