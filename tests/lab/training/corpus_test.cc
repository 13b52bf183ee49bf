// SPDX-License-Identifier: Apache-2.0
#include "lab/training/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

/// 20,000 bytes in which byte i is i mod 251, so neighbouring bytes identify the position.
std::string counting_text() {
  std::string text(20'000, '\0');
  for (size_t i = 0; i < text.size(); i++) text[i] = static_cast<char>(i % 251);
  return text;
}

TEST(Corpus, SplitsEachTextNineToOne) {
  const std::vector<std::string> texts{counting_text(), counting_text()};
  const auto corpus = Corpus::from_texts(texts);
  ASSERT_TRUE(corpus);
  EXPECT_EQ(corpus->training_bytes(), 36'000);
  EXPECT_EQ(corpus->validation_bytes(), 4'000);
}

TEST(Corpus, ReadsLinkedFilesOnceAndSkipsFolders) {
  const testing::ScratchDirectory scratch;
  const std::string file = scratch.file("long-name", counting_text());
  std::filesystem::create_symlink(file, scratch.path() / "link");
  std::filesystem::create_symlink(scratch.path() / "nowhere", scratch.path() / "broken");
  std::filesystem::create_directory(scratch.path() / "folder");
  const auto corpus = Corpus::load(scratch.path());
  ASSERT_TRUE(corpus);
  EXPECT_EQ(corpus->training_bytes() + corpus->validation_bytes(), 20'000);
}

TEST(Corpus, RefusalNamesThePath) {
  const auto missing = Corpus::load("/nowhere/at/all");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().text, HasSubstr("'/nowhere/at/all' cannot be read"));

  const testing::ScratchDirectory scratch;
  EXPECT_FALSE(scratch.file("short", "too short").empty());
  const auto little = Corpus::load(scratch.path());
  ASSERT_FALSE(little);
  EXPECT_THAT(little.error().text, HasSubstr("too few"));
}

TEST(Corpus, BatchesDependOnlyOnSeedRankAndIteration) {
  const std::vector<std::string> texts{counting_text()};
  const auto corpus = Corpus::from_texts(texts);
  ASSERT_TRUE(corpus);
  Batch first, second;
  corpus->fill_training_batch(1, 2, 3, 32, 16, first);
  corpus->fill_training_batch(9, 9, 9, 64, 8, second);
  corpus->fill_training_batch(1, 2, 3, 32, 16, second);
  EXPECT_EQ(first.contexts, second.contexts);
  EXPECT_EQ(first.targets, second.targets);
  for (const auto& [seed, rank, iteration] : {std::array{2U, 2U, 3U}, {1U, 3U, 3U}, {1U, 2U, 4U}}) {
    corpus->fill_training_batch(seed, rank, iteration, 32, 16, second);
    EXPECT_NE(first.contexts, second.contexts);
  }
}

TEST(Corpus, TargetIsTheByteAfterItsContext) {
  const std::vector<std::string> texts{counting_text()};
  const auto corpus = Corpus::from_texts(texts);
  ASSERT_TRUE(corpus);
  const auto expect_in_sequence = [](const Batch& batch) {
    for (size_t i = 0; i < batch.targets.size(); i++) {
      for (size_t j = 0; j < 16; j++) {
        const uint8_t next = j == 15 ? batch.targets[i] : batch.contexts[i * 16 + j + 1];
        EXPECT_EQ(next, (batch.contexts[i * 16 + j] + 1) % 251);
      }
    }
  };
  Batch batch;
  corpus->fill_training_batch(1, 0, 0, 64, 16, batch);
  expect_in_sequence(batch);
  corpus->fill_validation_batch(64, 16, batch);
  expect_in_sequence(batch);
}

}  // namespace
}  // namespace tributary::lab
