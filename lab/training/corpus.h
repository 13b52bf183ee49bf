// SPDX-License-Identifier: Apache-2.0
/// @file
/// A text in two parts, one for training and one for validation: from the files of a directory (the
/// demo reads the licences on every Debian machine), or from given texts (Figure 12 generates its
/// own, generated_text.h).
///
/// Shapes:  The first nine tenths of each file are for training, the last tenth for validation.
/// Exact:   Files are read in the order of their names, each once even if several links lead to it.
///          A batch depends only on (seed, rank, iteration).
/// Errors:  A directory that is missing or holds too little text is refused by name.
/// Memory:  At most kCorpusBytesMax of text; the rest is skipped.
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

/// Maximum bytes to read, so that a wrong directory cannot fill the memory.
inline constexpr uint64_t kCorpusBytesMax = 4u << 20;
/// Minimum bytes in each part, enough to draw a batch.
inline constexpr uint64_t kCorpusBytesMin = 1024;

class Corpus {
 public:
  /// Reads the regular files in `directory` (symbolic links followed, folders skipped).
  /// Refuses a directory that cannot be read and one with fewer than kCorpusBytesMin bytes per
  /// part.
  static Result<Corpus> load(const std::string& directory);

  /// Builds a corpus from texts in this order, with the same split and the same refusal.
  static Result<Corpus> from_texts(std::span<const std::string> texts);

  /// Fills `batch` with `size` random examples of the training part.
  void fill_training_batch(uint64_t seed, uint32_t rank, uint32_t iteration, uint32_t size,
                           uint32_t context, Batch& batch) const;

  /// Fills `batch` with `size` evenly spaced examples of the validation part.
  void fill_validation_batch(uint32_t size, uint32_t context, Batch& batch) const;

  [[nodiscard]] uint64_t training_bytes() const { return training_.size(); }
  [[nodiscard]] uint64_t validation_bytes() const { return validation_.size(); }

 private:
  Corpus() = default;
  std::vector<uint8_t> training_;
  std::vector<uint8_t> validation_;
};

}  // namespace tributary::lab
