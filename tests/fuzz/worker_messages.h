// SPDX-License-Identifier: Apache-2.0
/// @file
/// Valid messages of a Trio-ML aggregator to one worker, chosen by a fuzzer's input.
///
/// Shapes:  One byte for the type, one for the block, one for the reason, then the type's own.
/// Threads: One.
/// Tests:   tests/fuzz/replay_test.cc
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "wire/trio_ml.h"

namespace tributary::fuzz {

class AggregatorMessages {
 public:
  /// @param nonce The worker's.
  AggregatorMessages(uint8_t job_id, uint64_t nonce, uint32_t world)
      : job_id_(job_id), nonce_(nonce), world_(world) {}

  /// Remembers the worker's last contribution, whose result make() then makes.
  void note_sent(std::span<const std::byte> bytes);
  /// Reads which message to make, and makes it.
  [[nodiscard]] std::vector<std::byte> make(InputReader& in) const;

 private:
  const uint8_t job_id_;
  const uint64_t nonce_;
  const uint32_t world_;
  wire::Message sent_;
};

/// Write the choice of an undamaged message for AggregatorMessages::make(), and no damage.
void put_welcome(InputWriter& out);
void put_result(InputWriter& out, uint32_t block);
void put_have(InputWriter& out, uint32_t block);
void put_notice(InputWriter& out, wire::Reason reason, uint32_t block);

}  // namespace tributary::fuzz
