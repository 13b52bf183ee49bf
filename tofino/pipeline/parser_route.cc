// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/parser_route.h"

#include <algorithm>
#include <map>

namespace tributary::tofino {
namespace {

/// A field is read by one load of this many bytes.
constexpr uint32_t kLoadBytes = sizeof(uint64_t);

}  // namespace

/// Follows the steps once and records their loads and conditions.
class ParserRoutes::Builder {
 public:
  Builder(const Executable& executable, const Executable::GressCode& gress)
      : executable_(executable), gress_(gress) {}

  /// @return true if it can describe the path.
  [[nodiscard]] bool run(std::span<const Step> steps) {
    route.steps.assign(steps.begin(), steps.end());
    for (const Step& step : steps) {
      const Executable::StateCode& state =
          executable_.states[gress_.states.first + size_t{step.state}];
      for (uint32_t i = state.extracts.first; i < state.extracts.last; i++) {
        if (!extract(executable_.headers[executable_.header_ids[i]])) return false;
      }
      for (uint32_t i = state.sets.first; i < state.sets.last; i++) {
        route.sets.push_back(executable_.sets[i]);
        known_[executable_.sets[i].first] = executable_.sets[i].second;
      }
      add_conditions(state, step.transition);
    }
    return route.stored_bytes >= kLoadBytes && route.stored_bytes < kInPhv;
  }

  Route route;

 private:
  [[nodiscard]] bool extract(const Executable::HeaderCode& header) {
    route.size_bytes += header.bytes;
    route.sets.emplace_back(header.valid, 1);
    known_[header.valid] = 1;
    if (header.elided) {
      route.elided_bytes += header.bytes;
      return true;
    }
    if (route.elided_bytes > 0) return false;
    const uint32_t at = route.stored_bytes;
    route.places.push_back({header.id, at});
    route.stored_bytes += header.bytes;
    const bool all_words =
        header.words && header.loads.last - header.loads.first == header.bytes / 4;
    for (uint32_t i = header.loads.first; i < header.loads.last; i++) {
      const Executable::HeaderField& field = executable_.header_fields[i];
      const uint32_t end = at + field.byte + field.byte_count;
      const uint32_t from = end < kLoadBytes ? 0 : end - kLoadBytes;
      const uint32_t behind = (from + kLoadBytes - end) * 8;
      const Load load{static_cast<uint16_t>(from), field.field,
                      static_cast<uint8_t>(field.shift + behind), field.mask};
      if (!all_words) route.loads.push_back(load);
      load_of_[field.field] = load;
    }
    if (all_words) route.words.push_back({at, header.first_field, header.bytes / 4});
    return true;
  }

  struct Terms {
    std::vector<Condition> conditions;
    bool never = false;  ///< True if one of them can never hold.
  };
  [[nodiscard]] Terms terms_of(const Executable::StateCode& state,
                               const Executable::TransitionCode& to) const {
    Terms terms;
    for (uint32_t i = state.select.first; i < state.select.last; i++) {
      const Executable::SelectField& select = executable_.selects[i];
      const uint32_t bits = executable_.program->fields[select.field].bits;
      const uint32_t full = bits == 32 ? 0xffffffff : (1U << bits) - 1;
      const uint32_t mask = to.mask >> select.shift & full;
      const uint32_t value = to.value >> select.shift & mask;
      if (mask == 0) continue;
      if (const auto known = known_.find(select.field); known != known_.end()) {
        terms.never = terms.never || (known->second & mask) != value;
        continue;
      }
      Load load{kInPhv, select.field, 0, mask};
      if (const auto found = load_of_.find(select.field); found != load_of_.end()) {
        load = found->second;
        load.mask = mask;
      }
      terms.conditions.push_back({load, value});
    }
    return terms;
  }

  /// Adds the conditions for a transition: it matches, and none before it matches.
  void add_conditions(const Executable::StateCode& state, uint16_t transition) {
    const uint32_t count = state.transitions.last - state.transitions.first;
    const uint32_t taken = transition == kOtherwise ? count : transition;
    Terms chosen;
    if (taken < count) {
      chosen = terms_of(state, executable_.transitions[state.transitions.first + taken]);
      for (const Condition& one : chosen.conditions) {
        (one.load.at == kInPhv ? route.of_phv : route.of_packet).push_back(one);
      }
    }
    for (uint32_t i = 0; i < taken; i++) {
      const Terms other = terms_of(state, executable_.transitions[state.transitions.first + i]);
      if (!other.never && !contradict(chosen, other)) route.excluded.push_back(other.conditions);
    }
  }

  /// Returns true if no packet can meet both conditions.
  [[nodiscard]] static bool contradict(const Terms& one, const Terms& other) {
    for (const Condition& a : one.conditions) {
      for (const Condition& b : other.conditions) {
        if (a.load.field != b.load.field) continue;
        if (((a.value ^ b.value) & a.load.mask & b.load.mask) != 0) return true;
      }
    }
    return false;
  }

  const Executable& executable_;
  const Executable::GressCode& gress_;
  std::map<uint16_t, uint32_t> known_;  ///< Metadata that the path itself has set.
  std::map<uint16_t, Load> load_of_;    ///< Header fields read so far.
};

void ParserRoutes::learn(uint32_t port, std::span<const Step> steps) {
  for (size_t i = 0; i < routes_.size(); i++) {
    if (std::equal(steps.begin(), steps.end(), routes_[i].steps.begin(), routes_[i].steps.end())) {
      last_[port % kPortsPerPipe] = static_cast<uint16_t>(i);
      return;
    }
  }
  if (routes_.size() == kRoutesMax) return;
  Builder builder(executable_, gress_);
  if (!builder.run(steps)) return;
  last_[port % kPortsPerPipe] = static_cast<uint16_t>(routes_.size());
  routes_.push_back(std::move(builder.route));
}

}  // namespace tributary::tofino
