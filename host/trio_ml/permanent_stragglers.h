// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ranks for which the aggregator's blocks do not wait, as a worker knows them.
///
/// Model:   The aggregator announces a permanent straggler and its return once (Trio paper §5,
///          "notify all other workers"). A notice may be lost, so a result that a rank is part of
///          also ends its absence.
/// Threads: One.
/// Errors:  None.
/// Tests:   tests/host/trio_ml/permanent_stragglers_test.cc
#pragma once

#include "host/all_reduce.h"
#include "wire/trio_ml.h"

namespace tributary::host {

class PermanentStragglers {
 public:
  /// @param rank_base  The rank of the aggregator's source 0, for a notice without a mask.
  void on_notice(const wire::ControlBody& notice, uint32_t rank_base) {
    const bool permanent = notice.reason == wire::Reason::kSourcePermanent;
    if (!permanent && notice.reason != wire::Reason::kSourceReturned) return;
    SourceSet subject = notice.mask;
    const uint32_t rank = rank_base + notice.source;
    if (subject == SourceSet{} && rank < wire::kSourcesMax) {
      subject[rank / 64] = uint64_t{1} << (rank % 64);
    }
    for (uint32_t i = 0; i < ranks_.size(); i++) {
      ranks_[i] = permanent ? ranks_[i] | subject[i] : ranks_[i] & ~subject[i];
    }
  }

  /// @param sources  The ranks in a degraded result; all ranks are in any other result.
  void on_result(bool degraded, const SourceSet& sources) {
    for (uint32_t i = 0; i < ranks_.size(); i++) ranks_[i] &= degraded ? ~sources[i] : 0;
  }

  [[nodiscard]] const SourceSet& ranks() const { return ranks_; }

 private:
  SourceSet ranks_{};
};

}  // namespace tributary::host
