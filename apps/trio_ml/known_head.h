// SPDX-License-Identifier: Apache-2.0
/// @file
/// The head of a source's last accepted contribution. Contributions of one tensor differ only in
/// their block_id. A thread compares the next head with this one instead of decoding and checking
/// it; then it checks only the block.
///
/// Model:    Live machine only. The hardware has no such shortcut: on the modelled machine a thread
///           decodes and checks every header (Trio paper §4).
/// Contract: Valid for one job, source, configuration and session. Job::start_over() discards it
///           when another session is adopted. The caller checks the source's address.
/// Tests:   tests/apps/trio_ml/known_head_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "wire/trio_ml.h"

namespace tributary::trio_ml {

class KnownHead {
 public:
  /// The kind of the stored contribution; kNone: no contribution is stored.
  enum class Kind : uint8_t { kNone, kPlain, kExtended };

  /// Stores the head of a message that decode_head() has accepted.
  /// @param extended Whether the message has an extension.
  void remember(const std::byte* message, uint32_t size_bytes, bool extended) {
    header_ = header_of(message);
    if (extended) std::memcpy(extension_.data(), message + Header::kBytes, extension_.size());
    size_bytes_ = static_cast<uint16_t>(size_bytes);
    kind_ = extended ? Kind::kExtended : Kind::kPlain;
  }

  /// Returns the stored kind if the message has the same length and matches the stored head in
  /// everything except block_id; otherwise kNone.
  /// @pre The message has the same job and source, and at least the size of a header.
  [[nodiscard]] Kind match(const std::byte* message, uint32_t size_bytes) const {
    if (size_bytes != size_bytes_ || header_of(message) != header_) return Kind::kNone;
    if (kind_ == Kind::kExtended && !has_extension(message + Header::kBytes)) return Kind::kNone;
    return kind_;
  }

 private:
  using Header = wire::TrioMlHeader;
  /// The comparison covers the header's last eight bytes without the first, where block_id ends.
  /// Only the job id lies in front of block_id.
  static constexpr uint32_t kFirstByte = Header::kBytes - sizeof(uint64_t);
  static_assert(Header::BlockId::kLastByte == kFirstByte && Header::JobId::kLastByte == 0);

  [[nodiscard]] static uint64_t header_of(const std::byte* message) {
    return load_be<uint64_t>(message + kFirstByte) << 8;
  }
  [[nodiscard]] bool has_extension(const std::byte* at) const {
    return std::memcmp(at, extension_.data(), extension_.size()) == 0;
  }

  uint64_t header_ = 0;  ///< The bytes behind block_id.
  std::array<std::byte, wire::kExtensionBytes> extension_{};
  uint16_t size_bytes_ = 0;  ///< Size of the whole message; 0: none is stored.
  Kind kind_ = Kind::kNone;
};

static_assert(wire::kMessageHeadBytesMax + 4 * wire::TrioMlHeader::GradientCount::kMask <=
                  UINT16_MAX,
              "a message's length fits");

}  // namespace tributary::trio_ml
