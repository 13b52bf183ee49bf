// SPDX-License-Identifier: Apache-2.0
/// @file
/// AES-128-GMAC (NIST SP 800-38D) of a message in two pieces, by libipsec-mb.
///
/// Model:   One tag for each nonce: two messages with the same nonce under one key reveal the key.
/// Threads: tag() may run in several threads at once.
/// Memory:  About 2 KB of expanded key; tag() allocates nothing.
/// Source:  libipsec-mb (direct GMAC functions); Debian has it for amd64 only.
/// Tests:   tests/auth/gmac_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "auth/keys.h"
#include "auth/mode.h"

namespace tributary::auth {

inline constexpr uint32_t kGmacNonceBytes = 12;

class Gmac {
 public:
  /// Returns whether this build has libipsec-mb.
  [[nodiscard]] static bool is_available();

  /// @pre is_available().
  explicit Gmac(const Key128& key);
  ~Gmac();
  Gmac(Gmac&&) noexcept;
  Gmac& operator=(Gmac&&) noexcept;

  /// Writes the tag of `head` followed by `payload` to `tag` (kGmacTagBytes).
  void tag(const std::array<std::byte, kGmacNonceBytes>& nonce, std::span<const std::byte> head,
           std::span<const std::byte> payload, std::byte* tag) const;

 private:
  struct ExpandedKey;
  std::unique_ptr<ExpandedKey> key_;
};

}  // namespace tributary::auth
