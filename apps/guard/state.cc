// SPDX-License-Identifier: Apache-2.0
#include "apps/guard/state.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/endpoint.h"

namespace tributary::guard {
namespace {

using memory::Colour;
using memory::CreateStatus;
using memory::Policer;
using memory::Range;

/// A policer counts packets as bytes: a packet has the size 1, so 1 pps is 8 bit/s.
constexpr uint32_t kPacketTokens = 1;
constexpr uint64_t kBitsPerPacket = 8;
/// A burst is a tenth of a second at the bandwidth. Source: assumed.
constexpr uint32_t kBurstsPerSecond = 10;
constexpr uint32_t kBurstPacketsMin = 10;

/// Traffic is calm while the policer has all but a tenth of its burst. So a flood has few packets
/// before it stops being calm. Source: assumed.
constexpr uint32_t kCalmPart = 10;

constexpr uint32_t burst_packets(uint32_t pps) {
  return std::max(pps / kBurstsPerSecond, kBurstPacketsMin);
}

/// Timer periods by which each level waits longer than the detect time. A wider level has a whole
/// window without the packets of the narrower culprits before it decides.
constexpr std::array<int64_t, kLevelCount> kLevelDelayPeriods{0, 2, 4};

/// Prefix lengths of sources and networks, in bits of the 16 bytes.
constexpr uint32_t kSourceBitsIpv4 = kMappedPrefixBits + 32;
constexpr uint32_t kNetworkBitsIpv4 = kMappedPrefixBits + 24;
constexpr uint32_t kSourceBitsIpv6 = 64;
constexpr uint32_t kNetworkBitsIpv6 = 48;

/// Timer threads that rotate the known sources; each then has a small part.
constexpr uint32_t kKnownThreads = 100;

bool is_ipv4(const Address& address) {
  return address[10] == 0xff && address[11] == 0xff &&
         std::all_of(address.begin(), address.begin() + 10, [](uint8_t byte) { return byte == 0; });
}

uint32_t bits_of(Level level, const Address& source) {
  if (level == Level::kDestination) return 0;
  if (is_ipv4(source)) return level == Level::kSource ? kSourceBitsIpv4 : kNetworkBitsIpv4;
  return level == Level::kSource ? kSourceBitsIpv6 : kNetworkBitsIpv6;
}

SuspectKey key_of(Level level, PacketKind kind, const PacketFacts& facts) {
  SuspectKey key{.destination = facts.destination, .kind = kind, .level = level};
  std::copy_n(facts.source.begin(), bits_of(level, facts.source) / 8, key.source.begin());
  return key;
}

/// Allocates `count` zeroed values.
template <class T>
Result<std::span<T>> take(memory::SharedMemory& memory, Range range, uint64_t count) {
  const auto address = memory.allocate(range, count * sizeof(T), 64);
  if (!address) return tl::unexpected(address.error());
  return std::span(memory.at_as<T>(*address), count);
}

}  // namespace

uint64_t SuspectKeyHash::operator()(const SuspectKey& key, uint64_t seed) const {
  return seeded_hash(std::bit_cast<std::array<uint8_t, sizeof(SuspectKey)>>(key), seed);
}
uint64_t AddressHash::operator()(const Address& address, uint64_t seed) const {
  return seeded_hash(address, seed);
}

uint64_t GuardState::dram_bytes(const GuardConfig& config) {
  constexpr uint64_t kAlignmentBytes = 64 * 16;  // More allocations than create() makes.
  return Destinations::place_bytes(config.destinations_max) +
         Suspects::place_bytes(config.suspects_max) +
         (uint64_t{1} << config.known_bits_log2) / 64 * sizeof(KnownSources::Word) +
         (uint64_t{1} << config.handshakes_log2) * sizeof(uint64_t) + kAlignmentBytes;
}

Result<std::unique_ptr<GuardState>> GuardState::create(memory::SharedMemory& memory,
                                                       const GuardConfig& config, Instant start) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  const auto counters = take<Counters>(memory, Range::kSram, 1);
  if (!counters) return tl::unexpected(counters.error());
  const uint64_t known_words = (uint64_t{1} << config.known_bits_log2) / 64;
  const auto known = take<KnownSources::Word>(memory, Range::kDram, known_words);
  if (!known) return tl::unexpected(known.error());
  const auto handshakes =
      take<uint64_t>(memory, Range::kDram, uint64_t{1} << config.handshakes_log2);
  if (!handshakes) return tl::unexpected(handshakes.error());

  const auto destination_place = Destinations::place_in(memory, config.destinations_max);
  if (!destination_place) return tl::unexpected(destination_place.error());
  const auto suspect_place = Suspects::place_in(memory, config.suspects_max);
  if (!suspect_place) return tl::unexpected(suspect_place.error());

  using timers::PeriodicTimers;
  const auto periodic = [&](uint32_t threads, Duration period, uint64_t records) {
    return PeriodicTimers::create(
        {.thread_count = threads, .period = period, .record_count = static_cast<uint32_t>(records)},
        start);
  };
  const auto destinations =
      periodic(config.timer_threads, config.timer_period, config.destinations_max);
  if (!destinations) return tl::unexpected(destinations.error());
  const auto suspects = periodic(config.timer_threads, config.timer_period, config.suspects_max);
  if (!suspects) return tl::unexpected(suspects.error());
  const auto rotation = periodic(kKnownThreads, config.known_time, known_words);
  if (!rotation) return tl::unexpected(rotation.error());
  return std::unique_ptr<GuardState>(new GuardState(config, {.counters = counters->data(),
                                                             .known = *known,
                                                             .handshakes = *handshakes,
                                                             .destinations = *destination_place,
                                                             .suspects = *suspect_place,
                                                             .destination_timers = *destinations,
                                                             .suspect_timers = *suspects,
                                                             .known_timers = *rotation}));
}

GuardState::GuardState(const GuardConfig& config, const Parts& parts)
    : config_(config),
      counters_(*parts.counters),
      known_(parts.known, config.hash_seed),
      handshakes_(parts.handshakes, config.handshake_time, config.hash_seed),
      destinations_({.capacity = config.destinations_max,
                     .hash_seed = config.hash_seed,
                     .place = parts.destinations}),
      suspects_({.capacity = config.suspects_max,
                 .hash_seed = config.hash_seed,
                 .place = parts.suspects}),
      destination_timers_(parts.destination_timers),
      suspect_timers_(parts.suspect_timers),
      known_timers_(parts.known_timers),
      report_(config.report_max) {
  make_policers();
}

void GuardState::make_policers() {
  for (uint32_t level = 0; level < kLevelCount; level++) {
    for (uint32_t kind = 0; kind < kKindCount; kind++) {
      const uint32_t pps = config_.levels[level].pps[kind];
      const auto rate = memory::BitRate::bits_per_second(pps * kBitsPerPacket);
      const uint32_t burst = burst_packets(pps);
      const auto policer = Policer::create({.committed_rate = rate,
                                            .committed_burst_bytes = burst,
                                            .peak_rate = rate,
                                            .peak_burst_bytes = burst});
      TRIB_ASSERT(policer.has_value());  // check() has bounded the rate.
      policers_[level][kind] = *policer;
    }
  }
}

Instant GuardState::next_due() const {
  return std::min(
      {destination_timers_.next_due(), suspect_timers_.next_due(), known_timers_.next_due()});
}

Treatment GuardState::treatment_of(Action action, Colour colour, const Flow& flow) {
  if (!flow.tracker.is_culprit()) return Treatment::kPass;
  if (action == Action::kKeep) return Treatment::kKept;
  if (action == Action::kPolice && colour == Colour::kGreen) return Treatment::kPoliced;
  return Treatment::kDrop;
}

Treatment GuardState::treat(Action action, Colour colour, Flow& flow) {
  const Treatment treatment = treatment_of(action, colour, flow);
  if (treatment == Treatment::kDrop) flow.tracker.count_drop();
  return treatment;
}

bool GuardState::is_violated(const DestinationRecord::Kind& kind, Instant now) const {
  return kind.was_red && now - kind.red_at <= config_.detect_time;
}

bool GuardState::was_violated_lately(const DestinationRecord::Kind& kind, Instant now) const {
  return kind.was_red && now - kind.red_at <= std::max(config_.known_time, config_.detect_time);
}

bool GuardState::is_calm(const Flow& flow, PacketKind kind) const {
  if (kind == PacketKind::kTcpSyn) return false;  // Proves nothing: see Handshakes.
  const uint32_t burst = burst_packets(config_.pps(Level::kDestination, kind));
  return flow.policer.committed_bytes() >= burst - burst / kCalmPart;
}

DestinationRecord* GuardState::admit(const Address& destination, Instant now) {
  const auto created = destinations_.create(destination);
  if (created.status != CreateStatus::kCreated) return created.record;
  for (uint32_t kind = 0; kind < kKindCount; kind++) {
    Flow& flow = created.record->kinds[kind].flow;
    flow.policer = policers_[static_cast<size_t>(Level::kDestination)][kind];
    flow.tracker.begin(now);
    // A record with a later violation would not have been erased: was_violated_lately().
    created.record->kinds[kind].quiet_since = now - config_.known_time;
  }
  return created.record;
}

Flow* GuardState::admit(const SuspectKey& key, bool may_create, Instant now) {
  if (!may_create) return suspects_.lookup(key);
  const auto created = suspects_.create(key);
  if (created.status != CreateStatus::kCreated) return created.record;
  created.record->policer =
      policers_[static_cast<size_t>(key.level)][static_cast<size_t>(key.kind)];
  created.record->tracker.begin(now);
  return created.record;
}

microcode::Xtxn GuardState::suspect_request(XtxnKind kind, Level level, PacketKind of,
                                            const PacketFacts& facts) const {
  return memory::hash_request(kind, suspects_, key_of(level, of, facts));
}

FoundFlow GuardState::find_destination(const PacketFacts& facts, Instant now) {
  const DestinationRecord* const record = admit(facts.destination, now);
  if (record == nullptr) return {.store_full = true};
  return {.policer = &record->kinds[static_cast<size_t>(facts.kind)].flow.policer};
}

FoundFlow GuardState::find_suspect(Level level, const PacketFacts& facts, bool may_create,
                                   Instant now) {
  const Flow* const flow = admit(key_of(level, facts.kind, facts), may_create, now);
  if (flow == nullptr) return {.store_full = may_create};
  return {.policer = &flow->policer};
}

Learning GuardState::learn(const DestinationRecord::Kind& kind, const SourceStanding& source,
                           bool violated, Instant now) const {
  const bool is_calm_now = kind.calm_at == now;
  // A candidate from before the last violation may be of that flood.
  const Instant quiet_since = !violated && kind.was_red ? kind.red_at : kind.quiet_since;
  if (!source.candidate_at || *source.candidate_at < quiet_since) {
    return is_calm_now ? Learning::kNominate : Learning::kNothing;
  }
  // While the traffic is violated or loud, only candidates from well before that become known.
  const bool stayed_calm = *source.candidate_at + config_.settle_time <= kind.calm_at;
  return stayed_calm ? Learning::kSettle : Learning::kNothing;
}

DestinationVerdict GuardState::meter(const PacketFacts& facts, const SourceStanding& source,
                                     Instant now) {
  DestinationVerdict verdict;
  DestinationRecord* const admitted = admit(facts.destination, now);
  if (admitted == nullptr) {
    verdict.tracked = false;
    verdict.known = source.known;
    return verdict;
  }
  DestinationRecord& record = *admitted;
  DestinationRecord::Kind& own = record.kinds[static_cast<size_t>(facts.kind)];
  const DestinationRecord::Kind& syn = record.kinds[static_cast<size_t>(PacketKind::kTcpSyn)];
  const Colour colour = own.flow.policer.meter(now, kPacketTokens);
  if (colour == Colour::kRed) {
    verdict.violation_began = !is_violated(own, now);
    if (verdict.violation_began && own.was_red) own.quiet_since = own.red_at;
    own.was_red = true;
    own.red_at = now;
  }
  verdict.violated = is_violated(own, now);
  verdict.has_culprits = own.culprits > 0;
  verdict.syn_violated = is_violated(syn, now);
  const bool is_calm_now = is_calm(own.flow, facts.kind) && !verdict.violated &&
                           (facts.kind != PacketKind::kTcp || !verdict.syn_violated);
  if (is_calm_now) own.calm_at = now;
  // A SYN proves nothing: see Handshakes.
  if (!source.known && facts.kind != PacketKind::kTcpSyn) {
    verdict.learning = learn(own, source, verdict.violated, now);
  }
  verdict.known = source.known || verdict.learning == Learning::kSettle;
  verdict.spared = verdict.known && own.flow.tracker.is_culprit();
  if (verdict.spared) {
    verdict.if_untracked = treatment_of(config_.action(Level::kDestination), colour, own.flow);
  }
  if (verdict.known) return verdict;
  // Packets that go on to the suspects' records count after them: count_unexplained().
  if (!verdict.violated || own.flow.tracker.is_culprit()) own.flow.tracker.count();
  verdict.treatment = treat(config_.action(Level::kDestination), colour, own.flow);
  return verdict;
}

void GuardState::count_unexplained(const PacketFacts& facts, Treatment treatment) {
  DestinationRecord* record = destinations_.peek(facts.destination);
  if (record == nullptr) return;
  FlowTracker& tracker = record->kinds[static_cast<size_t>(facts.kind)].flow.tracker;
  tracker.count();
  if (treatment == Treatment::kDrop) tracker.count_drop();
}

SuspectVerdict GuardState::track(Level level, const PacketFacts& facts, bool may_create,
                                 Instant now) {
  Flow* const flow = admit(key_of(level, facts.kind, facts), may_create, now);
  if (flow == nullptr) return {.tracked = !may_create};
  const Colour colour = flow->policer.meter(now, kPacketTokens);
  flow->tracker.count();
  return {.treatment = treat(config_.action(level), colour, *flow)};
}

void GuardState::explain_at_destination(const PacketFacts& facts) {
  DestinationRecord* record = destinations_.peek(facts.destination);
  if (record == nullptr) return;
  record->kinds[static_cast<size_t>(PacketKind::kTcpSyn)].flow.tracker.explain();
}

void GuardState::explain_at_suspect(Level level, const PacketFacts& facts) {
  Flow* flow = suspects_.peek(key_of(level, PacketKind::kTcpSyn, facts));
  if (flow != nullptr) flow->tracker.explain();
}

Terms GuardState::terms_of(Level level, PacketKind kind) const {
  return {.pps = config_.pps(level, kind),
          .window_min = config_.timer_period / 2,
          .detect_time = config_.detect_time +
                         config_.timer_period * kLevelDelayPeriods[static_cast<size_t>(level)],
          .quiet_time = config_.detect_time,
          .recover_time = config_.recover_time,
          .timeout_time = config_.timeout_active ? config_.timeout_time : nanoseconds(-1)};
}

void GuardState::count_culprit(const SuspectKey& key, Flow& flow) {
  DestinationRecord* record = destinations_.peek(key.destination);
  flow.is_counted = record != nullptr;
  if (flow.is_counted) record->kinds[static_cast<size_t>(key.kind)].culprits++;
}

void GuardState::uncount_culprit(const SuspectKey& key, Flow& flow) {
  if (!flow.is_counted) return;
  flow.is_counted = false;
  DestinationRecord* record = destinations_.peek(key.destination);
  TRIB_ASSERT(record != nullptr);  // It stays while it has culprits.
  record->kinds[static_cast<size_t>(key.kind)].culprits--;
}

/// Ends the suspicion of the wider flows that a source or network belongs to. Otherwise its packets
/// would make them culprits before it is suspicious again.
void GuardState::forgive_wider(const SuspectKey& key, Instant now) {
  if (key.level == Level::kSource) {
    const PacketFacts facts{.source = key.source, .destination = key.destination};
    Flow* const network = suspects_.peek(key_of(Level::kNetwork, key.kind, facts));
    if (network != nullptr) network->tracker.forgive(now);
  }
  DestinationRecord* const record = destinations_.peek(key.destination);
  if (record != nullptr) record->kinds[static_cast<size_t>(key.kind)].flow.tracker.forgive(now);
}

Change GuardState::judge(Flow& flow, Culprit subject, const Terms& terms, ScanEvents& events,
                         Instant now) {
  const Change change = flow.tracker.judge(terms, now);
  switch (change) {
    case Change::kDetected:
      subject.action = config_.action(subject.level);
      subject.dry_run = config_.dry_run;
      subject.pps_allowed = config_.pps(subject.level, subject.kind);
      subject.above_since = flow.tracker.above_since();
      subject.detected_at = now;
      flow.report_number = report_.add(subject);
      events.detected++;
      break;
    case Change::kRecovered:
      events.recovered++;
      break;
    case Change::kTimedOut:
      events.timed_out++;
      break;
    case Change::kNone:
      break;
  }
  if (flow.tracker.is_culprit()) report_.update(flow.report_number, flow.tracker);
  if (change == Change::kRecovered || change == Change::kTimedOut) {
    report_.close(flow.report_number, change, now);
  }
  return change;
}

bool GuardState::is_suspected(const DestinationRecord::Kind& kind, Instant now) const {
  return kind.flow.tracker.phase() != Phase::kNormal || was_violated_lately(kind, now) ||
         kind.culprits > 0;
}

bool GuardState::is_suspected(const DestinationRecord& record, Instant now) const {
  return std::any_of(record.kinds.begin(), record.kinds.end(),
                     [&](const DestinationRecord::Kind& kind) { return is_suspected(kind, now); });
}

void GuardState::judge_kind(const Address& destination, PacketKind kind,
                            DestinationRecord::Kind& judged, ScanEvents& events, Instant now) {
  Terms terms = terms_of(Level::kDestination, kind);
  // The records of sources and networks begin with the violation, and decide first.
  terms.may_suspect = is_violated(judged, now);
  judge(judged.flow, {.level = Level::kDestination, .kind = kind, .destination = destination},
        terms, events, now);
}

void GuardState::judge_flow(const SuspectKey& key, Flow& flow, ScanEvents& events, Instant now) {
  const Change change = judge(flow,
                              {.level = key.level,
                               .kind = key.kind,
                               .source = key.source,
                               .source_bits = bits_of(key.level, key.source),
                               .destination = key.destination},
                              terms_of(key.level, key.kind), events, now);
  if (change == Change::kDetected) count_culprit(key, flow);
  if (change == Change::kRecovered || change == Change::kTimedOut) uncount_culprit(key, flow);
  if (change == Change::kTimedOut) forgive_wider(key, now);
}

ScanEvents GuardState::judge_destinations(uint32_t begin, uint32_t end, Instant now) {
  ScanEvents events;
  destinations_.scan(
      begin, end, [&](uint32_t, const Address& destination, DestinationRecord& record, bool idle) {
        for (uint32_t i = 0; i < kKindCount; i++) {
          judge_kind(destination, static_cast<PacketKind>(i), record.kinds[i], events, now);
        }
        if (!idle || is_suspected(record, now)) return;
        destinations_.erase(destination);
        events.expired++;
      });
  return events;
}

ScanEvents GuardState::judge_suspects(uint32_t begin, uint32_t end, Instant now) {
  ScanEvents events;
  suspects_.scan(begin, end, [&](uint32_t, const SuspectKey& key, Flow& flow, bool idle) {
    judge_flow(key, flow, events, now);
    if (!idle || flow.tracker.phase() != Phase::kNormal) return;
    suspects_.erase(key);
    events.expired++;
  });
  return events;
}

namespace {

template <class Store>
ScannedWord scan_word(Store& store, uint32_t begin, uint32_t end) {
  ScannedWord word;
  store.scan(begin, end, [&](uint32_t slot, const auto&, const auto&, bool idle) {
    word.live |= uint64_t{1} << (slot - begin);
    if (idle) word.idle |= uint64_t{1} << (slot - begin);
  });
  return word;
}

}  // namespace

ScannedWord GuardState::scan_destinations(uint32_t begin, uint32_t end) {
  return scan_word(destinations_, begin, end);
}

ScannedWord GuardState::scan_suspects(uint32_t begin, uint32_t end) {
  return scan_word(suspects_, begin, end);
}

Judgement GuardState::judge_destination(uint32_t slot, PacketKind kind, Instant now) {
  Judgement judgement;
  if (!destinations_.is_live(slot)) return judgement;
  DestinationRecord::Kind& judged = destinations_.at(slot).kinds[static_cast<size_t>(kind)];
  judge_kind(destinations_.key_at(slot), kind, judged, judgement.events, now);
  judgement.suspected = is_suspected(judged, now);
  return judgement;
}

Judgement GuardState::judge_suspect(uint32_t slot, Instant now) {
  Judgement judgement;
  if (!suspects_.is_live(slot)) return judgement;
  Flow& flow = suspects_.at(slot);
  judge_flow(suspects_.key_at(slot), flow, judgement.events, now);
  judgement.suspected = flow.tracker.phase() != Phase::kNormal;
  return judgement;
}

bool GuardState::expire_destination(uint32_t slot, Instant now) {
  if (!destinations_.is_live(slot) || destinations_.is_referenced(slot)) return false;
  if (is_suspected(destinations_.at(slot), now)) return false;
  return destinations_.erase(Address(destinations_.key_at(slot)));
}

bool GuardState::expire_suspect(uint32_t slot) {
  if (!suspects_.is_live(slot) || suspects_.is_referenced(slot)) return false;
  if (suspects_.at(slot).tracker.phase() != Phase::kNormal) return false;
  return suspects_.erase(SuspectKey(suspects_.key_at(slot)));
}

}  // namespace tributary::guard
