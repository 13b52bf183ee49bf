// SPDX-License-Identifier: Apache-2.0
/// @file
/// The text that the demo and Figure 12 learn: the licences that every Debian machine carries.
///
/// Shapes:  Each file's first nine tenths are for training, its last tenth for validation.
/// Exact:   Files are read in the order of their names and each only once, however many links lead
///          to it; a batch depends on (seed, rank, iteration) alone.
/// Errors:  A directory that is missing or holds too little text is refused by name.
/// Memory:  At most kCorpusBytesMax of text; the rest is left out.
/// Tests:   tests/lab/training/corpus_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/training/language_model.h"

namespace tributary::lab {

/// Most text that is read. A bound, so that a wrong directory cannot fill the memory.
inline constexpr uint64_t kCorpusBytesMax = 4u << 20;
/// Least text per part that a batch can be drawn from.
inline constexpr uint64_t kCorpusBytesMin = 1024;

class Corpus {
 public:
  /// Reads the regular files in `directory` (symbolic links followed, folders skipped).
  /// Refuses a directory that cannot be read and one with fewer than kCorpusBytesMin bytes per
  /// part.
  static Result<Corpus> load(const std::string& directory);

  /// From texts, in this order; the same splitting and the same refusal.
  static Result<Corpus> from_texts(std::span<const std::string> texts);

  /// `size` examples drawn at random from the training part.
  void fill_training_batch(uint64_t seed, uint32_t rank, uint32_t iteration, uint32_t size,
                           uint32_t context, Batch& batch) const;

  /// `size` examples at even distances over the validation part.
  void fill_validation_batch(uint32_t size, uint32_t context, Batch& batch) const;

  [[nodiscard]] uint64_t training_bytes() const { return training_.size(); }
  [[nodiscard]] uint64_t validation_bytes() const { return validation_.size(); }

 private:
  Corpus() = default;
  std::vector<uint8_t> training_;
  std::vector<uint8_t> validation_;
};

}  // namespace tributary::lab
