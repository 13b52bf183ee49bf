// SPDX-License-Identifier: Apache-2.0
#include "host/worker_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "host/formats/number_format.h"
#include "host/trio_ml/tensor_terms.h"

namespace tributary::host {

using wire::ElementFormat;
using wire::Reason;

namespace {

std::string type_text(const wire::TensorTerms& terms) {
  uint32_t bits = terms.scale_bits & ~wire::kScaleBitMean;
  if (terms.format != ElementFormat::kFixedScale) bits &= ~wire::kScaleOwnerMask;
  switch (terms.format) {
    case ElementFormat::kInt32:
      return "int32";
    case ElementFormat::kFixedScale:
      return fmt::format("float32 at scale {}", std::bit_cast<float>(bits));
    case ElementFormat::kBlockExponent:
    case ElementFormat::kBlockExponent16:
      break;
  }
  std::string text = "float32";
  if (bits == kTypeFloat16) text = "float16";
  if (bits == kTypeBfloat16) text = "bfloat16";
  if (terms.format == ElementFormat::kBlockExponent16) text += " in 16 bits each";
  return text;
}

/// Returns a tensor's description, as in "the mean of 1000 float32" or "the sum of 10 int32 for
/// rank 3".
std::string tensor_text(const wire::TensorTerms& terms) {
  const auto owner = wire::result_owner(terms.format, terms.scale_bits);
  return fmt::format(
      "the {} of {} {}{}", (terms.scale_bits & wire::kScaleBitMean) != 0 ? "mean" : "sum",
      terms.tensor_elements, type_text(terms), owner ? fmt::format(" for rank {}", *owner) : "");
}

std::string authentication_text(const CommunicatorConfig& config, uint32_t mode_of_job) {
  const std::string where = fmt::format("job {} at {}", config.job_id, config.server.to_string());
  if (mode_of_job >= auth::kModeCount || mode_of_job == static_cast<uint32_t>(config.auth.mode)) {
    return fmt::format("{} has another secret than this worker", where);
  }
  return fmt::format("{} has auth={}; this worker has auth={}", where,
                     auth::to_string(static_cast<auth::Mode>(mode_of_job)),
                     auth::to_string(config.auth.mode));
}

/// Returns the aggregator that an error is about, as the subject of a sentence.
std::string aggregator_text(const Endpoint& server, const Endpoint& upper) {
  if (!upper.is_set()) return fmt::format("aggregator {}", server.to_string());
  return fmt::format("upper aggregator {} (above {})", upper.to_string(), server.to_string());
}

/// Returns the reason of a refusal. @param server The aggregator that refuses.
std::string refusal_text(const CommunicatorConfig& config, const std::string& server,
                         uint32_t gradients, const wire::ControlBody& refusal) {
  switch (refusal.reason) {
    case Reason::kUnknownJob:
      return fmt::format("aggregator {} has no job {}", server, config.job_id);
    case Reason::kSourceOutsideJob:
      return fmt::format("rank {} is outside job {} at {}: its sources are 0 to {}", config.rank,
                         config.job_id, server, std::max(refusal.value, 1U) - 1);
    case Reason::kWrongWorld:
      return fmt::format("job {} at {} has {} ranks, not {}", config.job_id, server, refusal.value,
                         config.world);
    case Reason::kTooManyGradients:
      return fmt::format("job {} at {} takes at most {} gradients a packet, not {}", config.job_id,
                         server, refusal.value, gradients);
    case Reason::kPlainClients:
      return fmt::format("job {} at {} serves plain packets only (clients=plain)", config.job_id,
                         server);
    case Reason::kAuthentication:
      return authentication_text(config, refusal.value);
    case Reason::kServerStopped:
      return aggregator_stopped(config.server, refusal.group).text;
    case Reason::kJobRemoved:
      return job_removed(config, refusal.group).text + ", or is being drained";
    case Reason::kEvicted:
      return evicted(config, refusal.group).text;
    case Reason::kListsDiffer:
      return fmt::format(
          "rank {} of job {} has another list of aggregators than rank 0; give every rank the same "
          "list; rank {} has {}",
          refusal.value, config.job_id, config.rank, list_text(config.aggregators));
    case Reason::kOtherTraining:
      return refusal.value == 0
                 ? fmt::format("job {} at {} is synchronous, but this worker trains asynchronously",
                               config.job_id, server)
                 : fmt::format("job {} at {} is asynchronous; this worker has to ask for that",
                               config.job_id, server);
    case Reason::kRanksOverlap:
      return fmt::format(
          "rank {} of job {} is served by two aggregators below {}: check their "
          "rank_base",
          refusal.value, config.job_id, server);
    case Reason::kOtherList:
      // A directory sends its list to a rank. A lower aggregator passes on the reason alone.
      if (refusal.sources != 0) break;
      return fmt::format(
          "the upper aggregator above {} is a directory, which serves ranks only; give job {} "
          "another upstream=",
          server, config.job_id);
    case Reason::kTooFewGradients:
      return fmt::format("job {} at {} takes at least {} gradients a packet, not {}", config.job_id,
                         server, refusal.value, gradients);
    default:
      break;
  }
  return fmt::format("aggregator {} refuses rank {} of job {}", server, config.rank, config.job_id);
}

}  // namespace

// --- While the worker joins ---

EndReason refused(const CommunicatorConfig& config, uint32_t gradients,
                  const wire::ControlBody& refusal) {
  const bool upper =
      names_aggregator(wire::MessageType::kRefusal, refusal.reason) && refusal.group.is_set();
  if (!upper) {
    return {Status::kRefused, refusal_text(config, config.server.to_string(), gradients, refusal)};
  }
  // The upper aggregator refuses the lower one, for which a rank of this worker's job stands.
  const std::string server = refusal.group.to_string();
  const std::string text =
      refusal.reason == Reason::kSourceOutsideJob
          ? fmt::format("upstream_source is outside job {} at {}: its sources are 0 to {}",
                        config.job_id, server, std::max(refusal.value, 1U) - 1)
          : refusal_text(config, server, gradients, refusal);
  return {Status::kRefused, fmt::format("{}; {} is the upper aggregator of {}", text, server,
                                        config.server.to_string())};
}

EndReason nothing_listens(const Endpoint& server) {
  return {Status::kAggregatorGone,
          fmt::format("nothing listens at {} (ICMP port unreachable): check the address, and that "
                      "tributary serve runs there",
                      server.to_string())};
}

EndReason connection_closed(const Endpoint& server) {
  return {Status::kAggregatorGone,
          fmt::format("aggregator {} has ended (its shared memory is closed)", server.to_string())};
}

EndReason no_answer(const Endpoint& server, Duration waited, std::optional<uint8_t> other_version) {
  if (other_version) {
    return {Status::kAggregatorGone,
            fmt::format("aggregator {} has version {} of the protocol, and this worker version {}; "
                        "run the same release on both",
                        server.to_string(), *other_version, wire::kExtensionVersion)};
  }
  return {Status::kAggregatorGone, fmt::format("aggregator {} does not answer (waited {:.1f} s)",
                                               server.to_string(), in_seconds(waited))};
}

EndReason rank_taken(const CommunicatorConfig& config) {
  std::string text = fmt::format(
      "rank {} of job {} is taken by another worker, which the aggregator has heard lately",
      config.rank, config.job_id);
  if (config.aggregators.size() > 1) {
    text += fmt::format(", or two entries of its list are one aggregator: {}",
                        list_text(config.aggregators));
  }
  return {Status::kRefused, std::move(text)};
}

EndReason job_in_use(const CommunicatorConfig& config) {
  return {Status::kPeerMissing,
          fmt::format("job {} is still in use by another session", config.job_id)};
}

EndReason no_aggregators(const CommunicatorConfig& config) {
  return {Status::kAggregatorGone,
          fmt::format("directory {} has found no aggregator of job {} that answers",
                      config.server.to_string(), config.job_id)};
}

EndReason other_list(const CommunicatorConfig& config) {
  return {Status::kRefused, fmt::format("directory {} has another list of aggregators for job {}",
                                        config.server.to_string(), config.job_id)};
}

EndReason job_in_use_by_plain_clients(const CommunicatorConfig& config) {
  return {Status::kPeerMissing,
          fmt::format("clients without sessions are using job {} at {}; stop them, or give the job "
                      "clients=sessions",
                      config.job_id, config.server.to_string())};
}

EndReason ranks_not_joined(const CommunicatorConfig& config, const std::string& ranks,
                           Duration waited, bool is_tree) {
  const std::string who = !ranks.empty() ? "rank " + ranks
                          : is_tree      ? "a rank behind another aggregator"
                                         : "some rank";
  std::string text = fmt::format("{} has not joined job {} within {:.1f} s", who, config.job_id,
                                 in_seconds(waited));
  if (!ranks.empty() && !config.aggregators.empty() && !config.from_directory) {
    text += fmt::format("; if it runs, its {}{} may differ from this rank's, {}",
                        config.aggregators.size() > 1 ? "list of aggregators" : "aggregator",
                        config.auth.mode == auth::Mode::kNone ? "" : " or its secret",
                        list_text(config.aggregators));
  }
  return {Status::kPeerMissing, std::move(text)};
}

EndReason upper_aggregator_silent(const CommunicatorConfig& config, const Endpoint& upper,
                                  Duration silent_for) {
  return {
      Status::kAggregatorGone,
      fmt::format("{} has not answered for {:.1f} s: start it, or check upstream= of job {} and "
                  "the network between them",
                  aggregator_text(config.server, upper), in_seconds(silent_for), config.job_id)};
}

EndReason others_not_joined(const CommunicatorConfig& config, const Endpoint& upper,
                            Duration waited) {
  return {Status::kPeerMissing,
          fmt::format("{} waits for its other aggregators to join job {} (waited {:.1f} s): run "
                      "tributary who there",
                      aggregator_text(config.server, upper), config.job_id, in_seconds(waited))};
}

// --- While the session runs ---

EndReason closed() { return {Status::kClosed, "the communicator was closed"}; }

EndReason aggregator_silent(const Endpoint& server, Duration silent_for) {
  return {Status::kAggregatorGone, fmt::format("aggregator {} has not answered for {:.1f} s",
                                               server.to_string(), in_seconds(silent_for))};
}

EndReason aggregator_stopped(const Endpoint& server, const Endpoint& upper) {
  return {Status::kAggregatorGone, fmt::format("{} was stopped", aggregator_text(server, upper))};
}

EndReason job_removed(const CommunicatorConfig& config, const Endpoint& upper) {
  return {Status::kAggregatorGone,
          fmt::format("job {} was removed from {} by its operator", config.job_id,
                      aggregator_text(config.server, upper))};
}

EndReason evicted(const CommunicatorConfig& config, const Endpoint& upper) {
  if (upper.is_set()) {
    return {Status::kSessionLost,
            fmt::format("aggregator {} was removed from job {} by the operator of upper aggregator "
                        "{}",
                        config.server.to_string(), config.job_id, upper.to_string())};
  }
  return {Status::kSessionLost,
          fmt::format("rank {} was removed from job {} by the operator of aggregator {}",
                      config.rank, config.job_id, config.server.to_string()),
          kNoAggregator};
}

EndReason peer_silent(const std::string& ranks, const Endpoint& lower, Duration silent_for,
                      uint64_t position) {
  if (lower.is_set()) {
    return {Status::kPeerMissing,
            fmt::format("lower aggregator {} ({}) has sent nothing to the upper one for {:.1f} s "
                        "(block {} waits)",
                        lower.to_string(), ranks, in_seconds(silent_for), position)};
  }
  return {Status::kPeerMissing,
          fmt::format("{} has sent nothing to the aggregator for {:.1f} s (block {} waits)", ranks,
                      in_seconds(silent_for), position)};
}

EndReason ranks_missing(const Endpoint& server, const std::string& ranks, uint64_t position,
                        Duration waited) {
  return {
      Status::kPeerMissing,
      fmt::format("rank {} has not contributed to block {} for {:.1f} s (aggregator {} answers)",
                  ranks, position, in_seconds(waited), server.to_string())};
}

EndReason own_packets_missing(const CommunicatorConfig& config, uint32_t packet_bytes,
                              uint64_t position, Duration waited) {
  return {Status::kPeerMissing,
          fmt::format("aggregator {} answers rank {}, but has not received its contribution to "
                      "block {} for {:.1f} s: the network may drop packets of {} bytes; check the "
                      "MTU of the path",
                      config.server.to_string(), config.rank, position, in_seconds(waited),
                      packet_bytes)};
}

EndReason only_receives(const CommunicatorConfig& config, uint64_t position, Duration waited) {
  return {
      Status::kPeerMissing,
      fmt::format("block {} is not complete after {:.1f} s: rank {} receives it and contributes "
                  "nothing, and without straggler mitigation job {} waits for every rank",
                  position, in_seconds(waited), config.rank, config.job_id)};
}

EndReason unknown_rank_missing(const Endpoint& server, bool upstream, uint64_t position,
                               Duration waited, Duration silent_for) {
  const bool is_heard = silent_for < waited / 2;
  const std::string cause = upstream   ? "a rank behind another aggregator has not contributed"
                            : is_heard ? "some rank has not contributed"
                                       : fmt::format("aggregator {} was last heard {:.1f} s ago",
                                                     server.to_string(), in_seconds(silent_for));
  return {Status::kPeerMissing, fmt::format("block {} is not complete after {:.1f} s: {}", position,
                                            in_seconds(waited), cause)};
}

EndReason session_lost(const Endpoint& server, const Endpoint& upper) {
  return {Status::kSessionLost, fmt::format("{} was restarted or has ended this session",
                                            aggregator_text(server, upper))};
}

EndReason not_parameters(const CommunicatorConfig& config, uint32_t parameters) {
  return {Status::kMismatch,
          fmt::format("job {} is asynchronous and keeps {} parameters: push all of them as one "
                      "tensor, as a sum, as int32 or with a fixed scale",
                      config.job_id, parameters)};
}

EndReason past_cache(const CommunicatorConfig& config, uint64_t position) {
  return {Status::kDesynchronised,
          fmt::format("rank {} is too far behind: block {} is no longer kept at {}; rejoin with "
                      "fresh parameters",
                      config.rank, position, config.server.to_string())};
}

EndReason peer_left(const CommunicatorConfig& config, const std::string& ranks,
                    uint32_t lost_aggregator, uint64_t position) {
  if (lost_aggregator > 0 && lost_aggregator <= config.aggregators.size()) {
    return {Status::kAggregatorGone,
            fmt::format("{} has lost aggregator {} ({} of {}) and left job {}", ranks,
                        config.aggregators[lost_aggregator - 1].name, lost_aggregator,
                        config.aggregators.size(), config.job_id),
            lost_aggregator};
  }
  return {Status::kPeerLeft, fmt::format("{} has left job {} while block {} waits for it", ranks,
                                         config.job_id, position)};
}

EndReason mismatch(const std::string& who, const wire::TensorTerms& given,
                   const std::string& others, const wire::TensorTerms& expected,
                   uint64_t position) {
  if (given.tensor_elements == 0 && expected.tensor_elements == 0) {  // From an older aggregator.
    return {Status::kMismatch,
            fmt::format("{} and {} disagree about a tensor (block {})", who, others, position)};
  }
  std::string ours = tensor_text(given);
  // The same length, type and scale: another call of the same kind, or packets of another size.
  if (ours == tensor_text(expected)) ours += " in another call, or in packets of another size,";
  return {Status::kMismatch,
          fmt::format("{} gives {} where {} gave {} (block {}); all ranks must make the same calls",
                      who, ours, others, tensor_text(expected), position)};
}

// --- A failed sum ---

std::string overflow_text(ElementFormat format, float scale, uint32_t world) {
  if (wire::has_exponent(format)) {
    return fmt::format("a straggler's values are more than {} times those of the ranks in time",
                       1 << kDegradedHeadroom);
  }
  return fmt::format(
      "a value times the scale {} does not fit into a sum of {} ranks; use a smaller scale", scale,
      world);
}

std::string not_finite_text() { return "a rank's tensor holds an infinity or a NaN"; }

std::string precision_warning(const Outcome& outcome, ElementFormat format, float scale) {
  std::string text;
  const Underflow& underflow = outcome.underflow;
  if (underflow.underflowed > underflow.nonzero / kUnderflowWarningShare) {
    text = fmt::format("{} of {} non-zero elements were too small and counted as 0; ",
                       underflow.underflowed, underflow.nonzero);
    text += wire::has_exponent(format)
                ? "they lie in one packet with much larger ones: reduce them in a call of their own"
                : fmt::format(
                      "below {:.3g} (half of 1 / scale) nothing is left: use a larger scale "
                      "or format=exponent",
                      0.5 / static_cast<double>(scale));
  }
  const auto imprecise = std::count_if(outcome.degraded.begin(), outcome.degraded.end(),
                                       [](const DegradedRange& range) { return range.imprecise; });
  if (imprecise > 0) {
    text += fmt::format(
        "{}{} of {} blocks lost precision, because a straggler missed the round that "
        "agreed on their exponents",
        text.empty() ? "" : "; ", imprecise, outcome.blocks);
  }
  return text;
}

// --- Parts of texts ---

std::string ranks_text(const SourceSet& ranks, const char* nobody) {
  constexpr uint32_t kNamedMax = 8;
  std::string text;
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < wire::kSourcesMax; rank++) {
    if (!contains(ranks, rank) || ++count > kNamedMax) continue;
    text += fmt::format("{}{}", text.empty() ? "rank " : ", ", rank);
  }
  if (count == 0) return nobody;
  if (count > kNamedMax) text += fmt::format(" and {} more", count - kNamedMax);
  return text;
}

std::string missing_ranks(const SourceSet& present, uint32_t sources, uint32_t rank_base) {
  TRIB_ASSERT(sources <= wire::kSourcesMax);
  std::string ranks;
  for (uint32_t source = 0; source < sources; source++) {
    if (contains(present, source)) continue;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank_base + source);
  }
  return ranks;
}

}  // namespace tributary::host
