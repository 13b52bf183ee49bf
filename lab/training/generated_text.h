// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text for a small language model, generated from a seed, so that an experiment needs no files and
/// learns the same on every machine.
///
/// Model:   A source of kLetters letters. The letter before and the parity class of the one before
///          that choose four letters that may follow, with 40, 30, 20 and 10 %; with kNoise any
///          letter follows instead. So the best that a model can do is known: its five most likely
///          letters hold the next one in 1 - kNoise + kNoise x 5 / kLetters of all cases, at least.
/// Threads: None; a pure function.
/// Tests:   tests/lab/training/generated_text_test.cc
#pragma once

#include <cstdint>
#include <string>

namespace tributary::lab {

inline constexpr uint32_t kLetters = 64;
inline constexpr double kNoise = 0.03;

/// `bytes` letters, from byte 48 ('0') on.
[[nodiscard]] std::string generated_text(uint64_t seed, uint64_t bytes);

}  // namespace tributary::lab
