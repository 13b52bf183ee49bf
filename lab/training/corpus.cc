// SPDX-License-Identifier: Apache-2.0
#include "lab/training/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/assert.h"
#include "base/prng.h"

namespace tributary::lab {
namespace {

/// Returns the regular files in `directory`, each once, sorted by its first name.
Result<std::vector<std::filesystem::path>> files_by_name(const std::string& directory) {
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error) {
    return failure(fmt::format("corpus '{}' cannot be read ({}); name a directory with text files",
                               directory, error.message()));
  }
  std::vector<std::filesystem::path> names;
  for (const auto& entry : entries) names.push_back(entry.path());
  std::sort(names.begin(), names.end());

  std::vector<std::filesystem::path> files;
  std::set<std::filesystem::path> seen;
  for (const auto& name : names) {
    const auto file = std::filesystem::canonical(name, error);
    if (error || !std::filesystem::is_regular_file(file, error)) continue;
    if (seen.insert(file).second) files.push_back(file);
  }
  return files;
}

/// Copies the example whose context begins at `position` to index `index` of the batch.
void copy_example(std::span<const uint8_t> text, size_t position, uint32_t context, uint32_t index,
                  Batch& batch) {
  std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(position), context,
              batch.contexts.begin() + static_cast<std::ptrdiff_t>(size_t{index} * context));
  batch.targets[index] = text[position + context];
}

void resize_batch(uint32_t size, uint32_t context, Batch& batch) {
  batch.contexts.resize(size_t{size} * context);
  batch.targets.resize(size);
}

}  // namespace

Result<Corpus> Corpus::load(const std::string& directory) {
  const auto files = files_by_name(directory);
  if (!files) return tl::unexpected(files.error());
  std::vector<std::string> texts;
  uint64_t bytes_left = kCorpusBytesMax;
  for (const auto& file : *files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) continue;
    std::string text(bytes_left, '\0');
    stream.read(text.data(), static_cast<std::streamsize>(bytes_left));
    text.resize(static_cast<size_t>(stream.gcount()));
    bytes_left -= text.size();
    texts.push_back(std::move(text));
    if (bytes_left == 0) break;
  }
  auto corpus = from_texts(texts);
  if (!corpus) return failure(fmt::format("corpus '{}': {}", directory, corpus.error().text));
  return corpus;
}

Result<Corpus> Corpus::from_texts(std::span<const std::string> texts) {
  Corpus corpus;
  for (const std::string& text : texts) {
    const auto split = text.begin() + static_cast<std::ptrdiff_t>(text.size() - text.size() / 10);
    corpus.training_.insert(corpus.training_.end(), text.begin(), split);
    corpus.validation_.insert(corpus.validation_.end(), split, text.end());
  }
  if (corpus.training_.size() < kCorpusBytesMin || corpus.validation_.size() < kCorpusBytesMin) {
    return failure(fmt::format(
        "{} bytes for training and {} for validation are too few; at least {} of each are needed",
        corpus.training_.size(), corpus.validation_.size(), kCorpusBytesMin));
  }
  return corpus;
}

void Corpus::fill_training_batch(uint64_t seed, uint32_t rank, uint32_t iteration, uint32_t size,
                                 uint32_t context, Batch& batch) const {
  TRIB_ASSERT(context < kCorpusBytesMin);
  resize_batch(size, context, batch);
  // One generator per (rank, iteration): a batch does not depend on previous batches.
  Prng mixer(seed ^ (static_cast<uint64_t>(rank) << 32 | iteration));
  Prng prng(mixer.any_u64());
  const auto positions = static_cast<uint32_t>(training_.size() - context);
  for (uint32_t i = 0; i < size; i++) {
    copy_example(training_, prng.below(positions), context, i, batch);
  }
}

void Corpus::fill_validation_batch(uint32_t size, uint32_t context, Batch& batch) const {
  TRIB_ASSERT(context < kCorpusBytesMin);
  resize_batch(size, context, batch);
  const uint64_t positions = validation_.size() - context;
  for (uint32_t i = 0; i < size; i++) {
    copy_example(validation_, i * positions / size, context, i, batch);
  }
}

}  // namespace tributary::lab
