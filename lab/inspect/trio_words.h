// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML's messages, records and counters in words, for traces.
///
/// Threads: One, the shard's.
/// Tests:   tests/lab/inspect/trio_words_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "apps/trio_ml/shard.h"
#include "engine/model/trace_words.h"

namespace tributary::lab {

/// Returns a Trio-ML message in words: "contribution", "probe", …, with job, block, source and the
/// other fields; "malformed" for other bytes.
[[nodiscard]] engine::TraceWord trio_message(std::span<const std::byte> stored,
                                             uint32_t size_bytes);

/// Returns "aggregating", …
[[nodiscard]] const char* to_string(trio_ml::BlockPhase phase);

class TrioWords final : public engine::TraceWords {
 public:
  /// @param shard Is only read.
  explicit TrioWords(trio_ml::Shard& shard) : shard_(shard) {}

  /// Returns trio_message(), with the block's place in its job's window as "slot".
  [[nodiscard]] engine::TraceWord message(std::span<const std::byte> stored,
                                          uint32_t size_bytes) const override;
  [[nodiscard]] engine::TraceWord target(const void* target) const override;
  [[nodiscard]] std::string drop_reason(uint32_t reason) const override;

 private:
  trio_ml::Shard& shard_;
};

}  // namespace tributary::lab
