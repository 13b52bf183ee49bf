// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts the blocks of a tensor to the lanes of a packet, and back.
///
/// Shapes:  Block b holds the elements from b * gradients on; a tensor's last block holds the rest.
///          Lanes are big-endian int32, or int16 with kBlockExponent16, one for each element.
/// Threads: Owned by one thread.
/// Errors:  write() reports values that do not fit (Fit).
/// Memory:  Buffers for a block's widened halves and its 32-bit lanes, allocated by open().
/// Source:  ATP §3.8 (fixed scale), SwitchML §4.6 (block exponent); host/formats/number_format.h.
/// Tests:   tests/host/trio_ml/block_codec_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host/formats/number_format.h"
#include "host/tensor_protocol.h"

namespace tributary::host {

class BlockCodec {
 public:
  /// @param world  All ranks of the job, 1 … 256.
  explicit BlockCodec(uint32_t world) : world_(world) {}
  /// @param gradients  Elements of a block, not 0.
  /// @param narrow_gradients  Elements of a block with kBlockExponent16; 0: no transfer has
  ///                          that format.
  void open(uint32_t gradients, uint32_t narrow_gradients = 0);

  /// Returns the exponent of this rank's part of a block (block exponents).
  [[nodiscard]] int8_t exponent_of(const Transfer& transfer, uint64_t block);

  /// Writes a block's elements as lanes. @param agreed  With block exponents.
  /// @param underflow  Not null: adds the block's counts, if it has floats.
  /// @return kImprecise if `agreed` comes from a round that a rank missed, and an element would be
  /// more precise with the largest exponent of this rank and of the ranks in the round.
  [[nodiscard]] Fit write(const Transfer& transfer, uint64_t block, AgreedExponent agreed,
                          std::byte* lanes, Underflow* underflow = nullptr);

  /// Replaces a block's elements by their sum or mean.
  /// @param sources  The number of ranks in the sum, for the mean.
  void read(const Transfer& transfer, uint64_t block, int8_t exponent, uint32_t sources,
            const std::byte* lanes);

  /// Makes all elements of a block NaN, because its sum has lost an infinity or a NaN.
  void spoil(const Transfer& transfer, uint64_t block) const;

 private:
  [[nodiscard]] std::span<const float> floats_of(const Transfer& transfer, uint64_t block);
  template <class T>
  [[nodiscard]] std::span<T> slice(std::span<T> tensor, const Transfer& transfer,
                                   uint64_t block) const;
  [[nodiscard]] double scale_of(const Transfer& transfer, int8_t exponent) const;
  [[nodiscard]] bool is_coarse(const Transfer& transfer, std::span<const float> floats,
                               AgreedExponent agreed) const;

  const uint32_t world_;
  uint32_t gradients_ = 1;
  uint32_t narrow_gradients_ = 1;
  std::vector<float> wide_;       ///< Shape [elements of the larger block].
  std::vector<std::byte> words_;  ///< Likewise, 4 bytes each: 32-bit lanes of a 16-bit block.
};

}  // namespace tributary::host
