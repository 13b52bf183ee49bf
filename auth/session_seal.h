// SPDX-License-Identifier: Apache-2.0
/// @file
/// The keys of the two ends of a session, and the seals they make and open (docs/security.md).
///
/// Model:   All keys derive from the job's key; those of a session also from its salt, which the
///          aggregator draws and the welcome carries. Joins, the replies to them and resets carry a
///          header seal in every mode but `none`: their keys outlive sessions and servers.
/// Threads: Owned by one thread. Several threads of one end have objects with different lanes.
/// Errors:  See OpenStatus.
/// Tests:   tests/auth/session_seal_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "auth/seal.h"
#include "auth/secret.h"

namespace tributary::auth {

/// Makes the keys of a session; drawn by its aggregator.
struct Salt {
  uint64_t high = 0;
  uint64_t low = 0;
};

/// The end of a source: a worker, or a lower aggregator.
class MemberEnd {
 public:
  MemberEnd(const JobAuth& auth, uint8_t job_id, uint32_t lane);

  [[nodiscard]] Mode mode() const { return auth_.mode; }
  [[nodiscard]] bool is_sealed() const { return auth_.mode != Mode::kNone; }

  // All heads end with a seal. @pre is_sealed().
  void seal_join(std::span<std::byte> head);
  [[nodiscard]] bool opens_join_reply(std::span<const std::byte> head) const;
  [[nodiscard]] bool opens_reset(std::span<const std::byte> head) const;

  /// Begins a session.
  void start(const Salt& salt);
  /// @param source This end's src_id. @pre start().
  void seal(uint8_t source, std::span<std::byte> head, std::span<const std::byte> payload);
  /// @return kForged before start().
  [[nodiscard]] OpenStatus open(std::span<const std::byte> head,
                                std::span<const std::byte> payload);

 private:
  struct JoinKeys {
    Sealer joins;
    Tagger replies;
    Tagger resets;
  };

  const JobAuth auth_;
  const uint8_t job_id_;
  const uint32_t lane_;
  std::optional<JoinKeys> join_;
  std::optional<Sealer> out_;
  std::optional<Opener> in_;
};

/// The aggregator's end.
class AggregatorEnd {
 public:
  /// @param sources      Its sources are 0 to sources - 1.
  /// @param source_lanes Lanes of each source: 1 for workers.
  AggregatorEnd(const JobAuth& auth, uint8_t job_id, uint32_t lane, uint32_t sources,
                uint32_t source_lanes);

  [[nodiscard]] Mode mode() const { return auth_.mode; }
  [[nodiscard]] bool is_sealed() const { return auth_.mode != Mode::kNone; }

  // All heads end with a seal. @pre is_sealed().
  [[nodiscard]] bool opens_join(std::span<const std::byte> head) const;
  void seal_join_reply(std::span<std::byte> head);
  void seal_reset(std::span<std::byte> head);

  /// Begins a session.
  void start(const Salt& salt);
  /// @pre start().
  void seal(std::span<std::byte> head, std::span<const std::byte> payload);
  /// @return kForged before start(). @pre source < sources.
  [[nodiscard]] OpenStatus open(uint8_t source, std::span<const std::byte> head,
                                std::span<const std::byte> payload);

 private:
  struct JoinKeys {
    Tagger joins;
    Sealer replies;
    Sealer resets;
  };

  const JobAuth auth_;
  const uint8_t job_id_;
  const uint32_t lane_;
  const uint32_t sources_;
  const uint32_t source_lanes_;
  std::optional<JoinKeys> join_;
  std::optional<Sealer> out_;
  std::optional<Opener> in_;
};

}  // namespace tributary::auth
