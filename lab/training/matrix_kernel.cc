// SPDX-License-Identifier: Apache-2.0
#include "lab/training/matrix_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"

namespace tributary::lab {
namespace {

/// Rows of B packed at once: 256 rows x 16 columns x 4 bytes = 16 KB, half of a
/// first-level cache.
constexpr uint32_t kPanelRows = 256;

/// C tile [4][16] (+)= A [4][depth] times panel [depth][16]. The tile stays in registers: 8 of them
/// with 8 lanes.
template <int kLanes>
[[gnu::always_inline]] inline void multiply_tile(const LeftMatrix& a, const float* panel, float* c,
                                                 uint32_t columns, uint32_t depth,
                                                 bool accumulate) {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr uint32_t kVectors = kTileColumns / kLanes;

  Vector sum[kTileRows][kVectors] = {};
  if (accumulate) {
    for (uint32_t row = 0; row < kTileRows; row++) {
      std::memcpy(sum[row], c + row * columns, sizeof(sum[row]));
    }
  }
  for (uint32_t k = 0; k < depth; k++) {
    Vector right[kVectors];
    std::memcpy(right, panel + k * kTileColumns, sizeof(right));
    const float* left = a.data + k * a.column_stride;
#pragma GCC unroll 4
    for (uint32_t row = 0; row < kTileRows; row++) {
      const float factor = left[row * a.row_stride];
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; v++) sum[row][v] += right[v] * factor;
    }
  }
  for (uint32_t row = 0; row < kTileRows; row++) {
    std::memcpy(c + row * columns, sum[row], sizeof(sum[row]));
  }
}

template <int kLanes>
[[gnu::always_inline]] inline void multiply_blocked(const LeftMatrix& a, const float* b, float* c,
                                                    uint32_t rows, uint32_t columns,
                                                    uint32_t inner) {
  alignas(64) std::array<float, kPanelRows * kTileColumns> panel;
  for (uint32_t k_first = 0; k_first < inner; k_first += kPanelRows) {
    const uint32_t depth = std::min(kPanelRows, inner - k_first);
    for (uint32_t column = 0; column < columns; column += kTileColumns) {
      // Packed, the panel's rows share cache lines; unpacked, a power-of-two stride maps all of
      // them to a few cache sets.
      for (uint32_t k = 0; k < depth; k++) {
        std::memcpy(panel.data() + k * kTileColumns, b + (k_first + k) * columns + column,
                    kTileColumns * sizeof(float));
      }
      for (uint32_t row = 0; row < rows; row += kTileRows) {
        const LeftMatrix block{a.data + row * a.row_stride + k_first * a.column_stride,
                               a.row_stride, a.column_stride};
        multiply_tile<kLanes>(block, panel.data(), c + row * columns + column, columns, depth,
                              k_first != 0);
      }
    }
  }
}

void multiply_portable(const LeftMatrix& a, const float* b, float* c, uint32_t rows,
                       uint32_t columns, uint32_t inner) {
  multiply_blocked<4>(a, b, c, rows, columns, inner);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void multiply_avx2(const LeftMatrix& a, const float* b, float* c,
                                           uint32_t rows, uint32_t columns, uint32_t inner) {
  multiply_blocked<8>(a, b, c, rows, columns, inner);
}
#endif

using Multiply = void (*)(const LeftMatrix&, const float*, float*, uint32_t, uint32_t, uint32_t);

Multiply best_multiply() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return multiply_avx2;
#endif
  return multiply_portable;
}

}  // namespace

void multiply(const LeftMatrix& a, const float* b, float* c, uint32_t rows, uint32_t columns,
              uint32_t inner) {
  TRIB_ASSERT(rows % kTileRows == 0 && columns % kTileColumns == 0);
  if (inner == 0) {  // The matrices may have no data then.
    std::fill_n(c, uint64_t{rows} * columns, 0.0F);
    return;
  }
  static const Multiply best = best_multiply();
  best(a, b, c, rows, columns, inner);
}

void transpose(const float* from, uint32_t rows, uint32_t columns, float* to) {
  // Squares of 16 x 16: both sides then use whole cache lines.
  constexpr uint32_t kSquare = 16;
  for (uint32_t row_first = 0; row_first < rows; row_first += kSquare) {
    const uint32_t row_end = std::min(row_first + kSquare, rows);
    for (uint32_t column_first = 0; column_first < columns; column_first += kSquare) {
      const uint32_t column_end = std::min(column_first + kSquare, columns);
      for (uint32_t row = row_first; row < row_end; row++) {
        for (uint32_t column = column_first; column < column_end; column++) {
          to[column * rows + row] = from[row * columns + column];
        }
      }
    }
  }
}

}  // namespace tributary::lab
