// SPDX-License-Identifier: Apache-2.0
/// @file
/// The hash that PPEs offer: the program selects the fields; the hash function itself is fixed
/// (Trio paper §2.2, "programmable field selection and hardwired hash function").
///
/// Model:   The paper does not name the function. This one is "assumed": the 64-bit finaliser of
///          SplitMix64 over the running state, because every input bit reaches every output bit.
/// Tests:   tests/microcode/hash_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "wire/bit_field.h"

namespace tributary::microcode {

/// Hashes a sequence of fields. The order of the fields matters.
class FieldHash {
 public:
  /// @param seed Different seeds give independent functions.
  explicit constexpr FieldHash(uint64_t seed = 0) : state_(seed ^ 0x9e3779b97f4a7c15ULL) {}

  constexpr FieldHash& include(uint32_t value) {
    state_ = mixed(state_ + 0x9e3779b97f4a7c15ULL + value);
    return *this;
  }
  /// Adds the selected field of a header.
  template <class F, class Header>
  FieldHash& include(const wire::View<Header>& header) {
    return include(header.template get<F>());
  }
  /// Adds whole bytes, such as an address.
  FieldHash& include_bytes(std::span<const uint8_t> bytes);

  [[nodiscard]] constexpr uint64_t value() const { return state_; }

 private:
  static constexpr uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

}  // namespace tributary::microcode
