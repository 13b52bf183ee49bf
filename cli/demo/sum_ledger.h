// SPDX-License-Identifier: Apache-2.0
/// @file
/// The proof that sums are exact. Each worker records its contributions in shared memory. Every
/// worker adds them up there and compares the aggregator's result bit for bit.
///
/// Model:   A ring of `depth` iterations. A worker records its lanes before an all-reduce.
///          Afterwards it recomputes every element from the sources that the outcome names.
/// Shapes:  Shared file: one header, tags [world][depth], lanes [world][depth][elements] of int32.
/// Units:   Counts are elements (one sum each), not blocks.
/// Threads: One object per process and thread; several may map one file. A tag guards its lanes: 0
///          while they are written, else iteration + 1.
/// Errors:  Refuses a file of another shape. Missing or overwritten entries count as unchecked.
/// Tests:   tests/cli/demo/sum_ledger_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/communicator.h"

namespace tributary::demo {

struct LedgerShape {
  uint32_t world = 1;     ///< Ranks, 1 … 256.
  uint32_t depth = 16;    ///< Iterations kept; more than a straggler lags behind.
  uint32_t elements = 1;  ///< Parameters of the model.

  friend bool operator==(const LedgerShape&, const LedgerShape&) = default;
};

/// Counts of compared result elements.
struct SumCheck {
  uint64_t checked = 0;    ///< Compared, including wrong ones.
  uint64_t wrong = 0;      ///< Differ from the recomputed value in at least one bit.
  uint64_t unchecked = 0;  ///< Not compared: a source's lanes were overwritten.

  SumCheck& operator+=(const SumCheck& other);
  friend bool operator==(const SumCheck&, const SumCheck&) = default;
};

class SumLedger {
 public:
  /// Sizes the file at `path` and maps it. The file must exist; its content is lost.
  static Result<SumLedger> create(const std::string& path, const LedgerShape& shape);
  /// Maps a file that create() made with the same shape.
  static Result<SumLedger> open(const std::string& path, const LedgerShape& shape);

  SumLedger(SumLedger&& other) noexcept;
  SumLedger& operator=(SumLedger&&) = delete;
  ~SumLedger();

  /// Writes the lanes of `values` (shape [elements]) as host::pack_fixed() defines them:
  /// to_fixed(value, scale), clamped to +-host::lane_magnitude_max(world).
  /// @pre |value * scale| < 2^31 for all values, as for to_fixed().
  void record(uint32_t rank, uint32_t iteration, std::span<const float> values, float scale);

  /// Compares `result` (shape [elements]) with the mean over all ranks, or over the range's sources
  /// for elements in a `degraded` range. Elements of ranges that overlap, descend, reach past the
  /// end or name no source count as wrong.
  SumCheck check(uint32_t iteration, std::span<const float> result,
                 std::span<const host::DegradedRange> degraded, float scale);

 private:
  SumLedger(void* mapping, size_t size, const LedgerShape& shape);
  static Result<SumLedger> map(const std::string& path, const LedgerShape& shape, bool make);

  [[nodiscard]] uint64_t& tag_of(uint32_t rank, uint32_t iteration) const;
  [[nodiscard]] int32_t* lanes_of(uint32_t rank, uint32_t iteration) const;
  SumCheck check_range(uint32_t iteration, uint64_t first, std::span<const float> result,
                       const host::SourceSet& sources, float scale);
  bool add_lanes(uint32_t rank, uint32_t iteration, uint64_t first, std::span<uint32_t> sums) const;

  void* mapping_;
  size_t size_;
  LedgerShape shape_;
  std::vector<uint32_t> sums_;  ///< Shape [elements]; unsigned, so a wrap is defined.
};

}  // namespace tributary::demo
