// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text for a small language model, generated from a seed. An experiment then needs no files and
/// learns the same text on every machine.
///
/// Model:   A source of kLetters letters. The previous letter, and the parity class of the one
///          before it, select four followers with 40, 30, 20 and 10 %. With probability kNoise any
///          letter follows. The optimum is therefore known: the five likeliest letters contain the
///          next one in at least 1 - kNoise + kNoise x 5 / kLetters of all cases.
/// Threads: None; a pure function.
/// Tests:   tests/lab/training/generated_text_test.cc
#pragma once

#include <cstdint>
#include <string>

namespace tributary::lab {

inline constexpr uint32_t kLetters = 64;
inline constexpr double kNoise = 0.03;

/// Returns `bytes` letters, numbered from byte 48 ('0').
[[nodiscard]] std::string generated_text(uint64_t seed, uint64_t bytes);

}  // namespace tributary::lab
