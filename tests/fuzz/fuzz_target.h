// SPDX-License-Identifier: Apache-2.0
/// @file
/// A fuzz target: a function that runs arbitrary bytes through a part of the tree, with inputs from
/// which a fuzzer starts. Each target has a file of its own, which registers it.
///
/// Programs: fuzzer_main.cc links one target with libFuzzer. replay_test.cc links all targets with
///           GoogleTest and needs no fuzzer.
/// Checks:   run() uses EXPECT_… and ASSERT_…; the fuzzer stops at the first that fails.
/// Threads:  One. Registration happens before main().
/// Tests:    tests/fuzz/replay_test.cc
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tributary::fuzz {

using Bytes = std::vector<uint8_t>;

struct Target {
  const char* name;  ///< Names its file and its folder in regressions/.
  void (*run)(std::span<const uint8_t> input);
  std::vector<Bytes> (*seeds)();  ///< Returns inputs made of real messages, files and sessions.
};

/// Returns the targets that are linked into this program.
[[nodiscard]] std::span<const Target> targets();

/// Adds a target to targets().
struct Registration {
  explicit Registration(const Target& target);
};

}  // namespace tributary::fuzz

/// Registers the functions run() and seeds() of this file. @param name As Target::name.
#define TRIB_FUZZ_TARGET(name)                                         \
  static const ::tributary::fuzz::Registration k_registration_##name { \
    { #name, run, seeds }                                              \
  }
