// SPDX-License-Identifier: Apache-2.0
/// @file
/// A client written from the Trio paper alone (Figure 8; §4, §5), byte by byte and without this
/// project's wire code. It sends each block of a generation until its result arrives.
///
/// Shapes:  A generation has `blocks` blocks of `gradients` int32, all functions of
///          (source, generation, element).
/// Threads: One.
/// Errors:  None. It ignores packets that it cannot decode.
/// Tests:   tests/lab/faults/plain_client_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"

namespace tributary::lab {

/// Figure 8, most significant byte first.
struct PaperHeader {
  static constexpr size_t kBytes = 12;
  uint8_t job_id = 0;
  uint32_t block_id = 0;
  bool degraded = false;
  uint8_t src_id = 0;
  uint8_t src_cnt = 0;
  uint16_t gen_id = 0;
  uint16_t grad_cnt = 0;
};

class PlainClient {
 public:
  struct Config {
    uint8_t job_id = 1;
    uint8_t source = 0;
    uint32_t gradients = 3;
    uint32_t blocks = 20;
    uint32_t window = 8;
    uint32_t generations = 1;
    Duration retry_after = milliseconds(5);
  };
  /// Sends a datagram to the aggregator.
  using Send = std::function<void(std::span<const std::byte> bytes)>;
  /// Calls `action` after a time.
  using Later = std::function<void(Duration after, std::function<void()> action)>;

  /// A result as it arrived: header, sums, and the generation counted without wrapping.
  struct Result {
    PaperHeader header;
    uint32_t generation = 0;
    std::vector<int32_t> sums;
  };

  PlainClient(const Config& config, Send send, Later later)
      : config_(config), send_(std::move(send)), later_(std::move(later)) {}

  /// Sends its window, and repeats it until there is progress.
  void run();
  void receive(std::span<const std::byte> payload);
  /// Starts over with another generation, and runs at least this one.
  void start_over(uint32_t generation);

  [[nodiscard]] bool done() const { return generation_ >= generations(); }
  [[nodiscard]] uint32_t generation() const { return generation_; }
  [[nodiscard]] uint32_t generations() const { return config_.generations; }
  [[nodiscard]] const std::vector<Result>& results() const { return results_; }

  [[nodiscard]] static int32_t gradient(uint32_t source, uint32_t generation, uint32_t element);
  /// Returns the error of a result that must be the sum of the sources in `mask` (0 to 63); empty
  /// if there is none.
  [[nodiscard]] std::string check(const Result& result, uint64_t mask, bool degraded) const;

 private:
  /// Starts near the end of the 16 bits, so that it wraps.
  [[nodiscard]] uint16_t gen_id() const { return static_cast<uint16_t>(65'534 + generation_); }

  Config config_;
  const Send send_;
  const Later later_;
  uint32_t generation_ = 0;
  uint32_t first_ = 0;         ///< First block without a result.
  std::set<uint32_t> blocks_;  ///< Blocks of this generation with a result.
  std::vector<Result> results_;
  uint64_t round_ = 0;
};

}  // namespace tributary::lab
