// SPDX-License-Identifier: Apache-2.0
/// @file
/// AES-128-GMAC by the library's own functions, as a baseline for auth::Gmac.
///
/// Source:  libipsec-mb (direct GMAC functions). library_gmac_none.cc is for machines without it.
/// Tests:   tests/bench/auth_bench_test.cc
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "auth/keys.h"
#include "auth/mode.h"

namespace tributary::bench {

class LibraryGmac {
 public:
  /// @pre auth::Gmac::is_available().
  explicit LibraryGmac(const auth::Key128& key);
  ~LibraryGmac();

  /// Writes the tag (auth::kGmacTagBytes) of `bytes` under a nonce that counts up.
  void tag(std::span<const std::byte> bytes, std::byte* tag);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tributary::bench
