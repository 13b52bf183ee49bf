// SPDX-License-Identifier: Apache-2.0
/// @file
/// Seals messages with a sequence number and a keyed MAC, and opens sealed messages.
///
/// Shapes:  A head ends with its seal: sequence number (8), then the tag: SipHash-2-4 (8) of the
///          head in mode `header`, AES-128-GMAC (16) of head and gradients in mode `full`.
/// Model:   The nonce of GMAC is (sender, sequence number). A sequence number is (lane, count), and
///          each core of a sender has a lane. Each direction of a session has a key. So no nonce
///          repeats, cores share no counter, and an end has two keys for any number of peers.
/// Threads: Owned by one thread.
/// Errors:  open() returns the reason to refuse a message.
/// Memory:  An Opener has 144 bytes for each sender and lane, taken in its constructor.
/// Tests:   tests/auth/session_seal_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "auth/gmac.h"
#include "auth/keys.h"
#include "auth/mode.h"
#include "auth/replay_window.h"

namespace tributary::auth {

/// Most lanes of a sender: one for each core of an aggregator.
inline constexpr uint32_t kLanesMax = 64;

/// A MAC key in one mode.
class Tagger {
 public:
  /// @param mode kHeader or kFull.
  Tagger(Mode mode, const Key256& key);

  [[nodiscard]] uint32_t tag_bytes() const { return seal_bytes(mode_) - kSequenceBytes; }
  /// Writes the tag of a head without its tag, and of the payload in mode `full`.
  void tag(uint8_t sender, std::span<const std::byte> head, std::span<const std::byte> payload,
           std::byte* tag) const;
  /// Tells whether a head ends with its tag. Takes the same time wherever two tags differ.
  [[nodiscard]] bool matches(uint8_t sender, std::span<const std::byte> head,
                             std::span<const std::byte> payload) const;

 private:
  Mode mode_;
  Key128 sip_key_;
  std::optional<Gmac> gmac_;
};

class Sealer {
 public:
  /// @param mode kHeader or kFull.
  /// @param lane Below kLanesMax; each thread of a sender has its own.
  Sealer(Mode mode, const Key256& key, uint32_t lane);

  /// Writes the seal at the end of the head.
  /// @param sender The src_id of the sender; 0 for an aggregator.
  void seal(uint8_t sender, std::span<std::byte> head, std::span<const std::byte> payload);

 private:
  Tagger tagger_;
  uint64_t sequence_;
};

enum class OpenStatus : uint8_t {
  kOpened,
  kForged,    ///< The tag is not that of the message under this key.
  kReplayed,  ///< A message with this sequence number was opened before, or it is too old.
};

class Opener {
 public:
  /// @param mode    kHeader or kFull.
  /// @param senders Their numbers are 0 to senders - 1.
  /// @param lanes   Lanes of each sender, at most kLanesMax.
  Opener(Mode mode, const Key256& key, uint32_t senders, uint32_t lanes);

  /// Checks the seal at the end of the head. @pre sender < senders.
  [[nodiscard]] OpenStatus open(uint8_t sender, std::span<const std::byte> head,
                                std::span<const std::byte> payload);

 private:
  Tagger tagger_;
  uint32_t lanes_;
  std::vector<ReplayWindow> windows_;  ///< Shape [senders][lanes].
};

}  // namespace tributary::auth
