// SPDX-License-Identifier: Apache-2.0
#include "host/trio_ml/permanent_stragglers.h"

#include <gtest/gtest.h>

namespace tributary::host {
namespace {

wire::ControlBody notice(wire::Reason reason, uint8_t source, const SourceSet& mask = {}) {
  wire::ControlBody body;
  body.reason = reason;
  body.source = source;
  body.mask = mask;
  return body;
}

TEST(PermanentStragglers, NoticesAddAndRemoveTheirRanks) {
  PermanentStragglers stragglers;
  stragglers.on_notice(notice(wire::Reason::kSourcePermanent, 1, {0b1100, 0, 0, 1}), 0);
  stragglers.on_notice(notice(wire::Reason::kSourcePermanent, 3), 64);
  EXPECT_EQ(stragglers.ranks(), (SourceSet{0b1100, 0b1000, 0, 1}));
  stragglers.on_notice(notice(wire::Reason::kSourceReturned, 1, {0b1000, 0, 0, 1}), 0);
  EXPECT_EQ(stragglers.ranks(), (SourceSet{0b0100, 0b1000, 0, 0}));
  stragglers.on_notice(notice(wire::Reason::kPeerSilent, 0, {1, 0, 0, 0}), 0);
  EXPECT_EQ(stragglers.ranks(), (SourceSet{0b0100, 0b1000, 0, 0}));
}

TEST(PermanentStragglers, ResultsEndTheAbsenceOfTheirRanks) {
  PermanentStragglers stragglers;
  stragglers.on_notice(notice(wire::Reason::kSourcePermanent, 0, {0b110, 0, 0, 0}), 0);
  stragglers.on_result(true, {0b1001, 0, 0, 0});
  EXPECT_EQ(stragglers.ranks(), (SourceSet{0b110, 0, 0, 0}));
  stragglers.on_result(true, {0b1011, 0, 0, 0});
  EXPECT_EQ(stragglers.ranks(), (SourceSet{0b100, 0, 0, 0}));
  stragglers.on_result(false, {});
  EXPECT_EQ(stragglers.ranks(), SourceSet{});
}

TEST(PermanentStragglers, RankBeyondTheLargestIsIgnored) {
  PermanentStragglers stragglers;
  stragglers.on_notice(notice(wire::Reason::kSourcePermanent, 255), 1);
  EXPECT_EQ(stragglers.ranks(), SourceSet{});
}

}  // namespace
}  // namespace tributary::host
