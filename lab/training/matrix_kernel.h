// SPDX-License-Identifier: Apache-2.0
/// @file
/// One matrix product, fast enough to train a small model on one core without a framework.
///
/// Model:   Register tiles of 4 x 16 over a packed panel of B. The widest vectors of the processor
///          are chosen once at run time.
/// Shapes:  See multiply(). All matrices are float32 and must not overlap.
/// Exact:   Equal factors give equal bits on every machine: the order of additions depends on the
///          shape alone, and no multiplication is fused with an addition.
/// Threads: None; pure functions.
/// Memory:  16 KB of stack.
/// Tests:   tests/lab/training/matrix_kernel_test.cc
#pragma once

#include <cstdint>

namespace tributary::lab {

/// Rows and columns of one register tile; shapes are multiples of them.
inline constexpr uint32_t kTileRows = 4;
inline constexpr uint32_t kTileColumns = 16;

/// The left factor: element (i, k) is data[i * row_stride + k * column_stride], so a transposed
/// matrix costs nothing.
struct LeftMatrix {
  const float* data;
  uint32_t row_stride;
  uint32_t column_stride;
};

/// Computes C = A B with the shapes [rows][columns] = [rows][inner] [inner][columns]. B and C are
/// dense and row-major.
/// @pre rows is a multiple of kTileRows, columns of kTileColumns; inner may be 0 (C becomes 0).
void multiply(const LeftMatrix& a, const float* b, float* c, uint32_t rows, uint32_t columns,
              uint32_t inner);

/// Computes to[column][row] = from[row][column]; both are dense.
void transpose(const float* from, uint32_t rows, uint32_t columns, float* to);

}  // namespace tributary::lab
