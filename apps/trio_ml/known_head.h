// SPDX-License-Identifier: Apache-2.0
/// @file
/// The head of a source's last contribution that was in order. Contributions of one tensor differ
/// in their block_id alone: what has been checked of one need not be decoded and checked of the
/// next, as long as only the block's part is left to check.
///
/// Model:   Not the hardware's, and so not on the modelled machine: there a thread decodes and
///          checks every header (Trio paper §4).
/// Contract: Depends on the job's configuration and the adopted session, so it is forgotten when
///          another session is adopted (Job::start_over). Job and source are those in whose record
///          it stands; where the source sends from is not part of it.
/// Tests:   tests/apps/trio_ml/known_head_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "wire/trio_ml.h"

namespace tributary::trio_ml {

class KnownHead {
 public:
  /// Of which kind the contribution was, if one is known.
  enum class Kind : uint8_t { kNone, kPlain, kExtended };

  /// @param message Of `size_bytes` bytes, that decode_head() takes: with its extension if its
  /// header
  ///                says so.
  void remember(const std::byte* message, uint32_t size_bytes, bool extended) {
    header_ = header_of(message);
    if (extended) std::memcpy(extension_.data(), message + Header::kBytes, extension_.size());
    size_bytes_ = static_cast<uint16_t>(size_bytes);
    kind_ = extended ? Kind::kExtended : Kind::kPlain;
  }

  /// @return the known kind if the message has the same one but for the block_id, and the
  /// same
  ///         length; else kNone.
  /// @pre size_bytes is at least that of a header, and of the same job and source.
  [[nodiscard]] Kind match(const std::byte* message, uint32_t size_bytes) const {
    if (size_bytes != size_bytes_ || header_of(message) != header_) return Kind::kNone;
    if (kind_ == Kind::kExtended && !has_extension(message + Header::kBytes)) return Kind::kNone;
    return kind_;
  }

 private:
  using Header = wire::TrioMlHeader;
  /// The block_id ends in the first of the header's last eight bytes; in front of it is the job.
  static constexpr uint32_t kFirstByte = Header::kBytes - sizeof(uint64_t);
  static_assert(Header::BlockId::kLastByte == kFirstByte && Header::JobId::kLastByte == 0);

  [[nodiscard]] static uint64_t header_of(const std::byte* message) {
    return load_be<uint64_t>(message + kFirstByte) << 8;
  }
  [[nodiscard]] bool has_extension(const std::byte* at) const {
    return std::memcmp(at, extension_.data(), extension_.size()) == 0;
  }

  uint64_t header_ = 0;  ///< Behind the block_id.
  std::array<std::byte, wire::kExtensionBytes> extension_{};
  uint16_t size_bytes_ = 0;  ///< Of the whole message; 0: none is known.
  Kind kind_ = Kind::kNone;
};

static_assert(wire::kMessageHeadBytesMax + 4 * wire::TrioMlHeader::GradientCount::kMask <=
                  UINT16_MAX,
              "a message's length fits");

}  // namespace tributary::trio_ml
