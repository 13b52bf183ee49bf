// SPDX-License-Identifier: Apache-2.0
#include "apps/guard/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/endpoint.h"

namespace tributary::guard {
namespace {

std::string text_of(const Address& address) {
  Endpoint endpoint;
  endpoint.address = address;
  return endpoint.host_text();
}

}  // namespace

std::string source_text(const Culprit& culprit) {
  if (culprit.level == Level::kDestination) return "anywhere";
  Endpoint endpoint;
  endpoint.address = culprit.source;
  const uint32_t bits = culprit.source_bits - (endpoint.is_ipv4() ? kMappedPrefixBits : 0);
  return fmt::format("{}/{}", text_of(culprit.source), bits);
}

std::string drops_text(const Culprit& culprit) {
  return fmt::format("{} packets {}", culprit.dropped,
                     culprit.dry_run ? "would be dropped" : "dropped");
}

std::string destination_text(const Culprit& culprit) { return text_of(culprit.destination); }

std::string to_text(const Culprit& culprit, Instant start) {
  std::string text = fmt::format(
      "{} from {} to {}: {} packets/s, allowed {}; above since {:.3f} s, detected at {:.3f} s, "
      "last above at {:.3f} s; action {}, {}",
      to_string(culprit.kind), source_text(culprit), destination_text(culprit), culprit.pps_max,
      culprit.pps_allowed, in_seconds(culprit.above_since - start),
      in_seconds(culprit.detected_at - start), in_seconds(culprit.above_last - start),
      to_string(culprit.action), drops_text(culprit));
  if (culprit.end == Change::kNone) return text;
  return text + fmt::format("; {} at {:.3f} s",
                            culprit.end == Change::kRecovered ? "recovered" : "timed out",
                            in_seconds(culprit.ended_at - start));
}

std::vector<Culprit> Report::culprits() const {
  std::vector<Culprit> all;
  for (uint64_t number = replaced(); number < added_; number++) {
    all.push_back(entries_[number % entries_.size()]);
  }
  // Timer threads run side by side on some machines, so the order of entries of one time is theirs.
  std::ranges::sort(all, {}, [](const Culprit& culprit) {
    const auto narrowness = kLevelCount - static_cast<uint32_t>(culprit.level);
    return std::tuple(culprit.detected_at, narrowness, culprit.kind, culprit.destination,
                      culprit.source);
  });
  return all;
}

}  // namespace tributary::guard
