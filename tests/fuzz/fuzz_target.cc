// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_target.h"

namespace tributary::fuzz {
namespace {

/// A function's static, so that it exists before the first Registration.
std::vector<Target>& registered() {
  static std::vector<Target> all;
  return all;
}

}  // namespace

std::span<const Target> targets() { return registered(); }

Registration::Registration(const Target& target) { registered().push_back(target); }

}  // namespace tributary::fuzz
