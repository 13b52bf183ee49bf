// SPDX-License-Identifier: Apache-2.0
#include "lab/workload/straggler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/prng.h"
#include "host/straggler_pattern.h"
#include "lab/workload/delay_trace.h"

namespace tributary::lab {
namespace {

/// Separates the pattern's random numbers from those of the network and the workers.
constexpr uint64_t kSeedSalt = 0x7374726167676c65;

/// Returns the workers that a pattern of all workers concerns: the named ones, or else all.
std::vector<uint32_t> concerned_workers(const Scenario& scenario) {
  std::vector<uint32_t> workers = named_workers(scenario);
  if (!workers.empty()) return workers;
  workers.resize(scenario.workers);
  std::iota(workers.begin(), workers.end(), 0U);
  return workers;
}

class OneSlowWorker final : public StragglerPattern {
 public:
  explicit OneSlowWorker(const PatternTerms& terms)
      : workers_(concerned_workers(terms.scenario)),
        pattern_(terms.scenario.straggler.probability, terms.typical_iteration,
                 static_cast<uint32_t>(workers_.size()), terms.seed) {}
  Duration delay_at(uint32_t worker, uint64_t delay_point) const override {
    const auto place = std::lower_bound(workers_.begin(), workers_.end(), worker);
    if (place == workers_.end() || *place != worker) return {};
    return pattern_.delay_at(static_cast<uint32_t>(place - workers_.begin()), delay_point);
  }

 private:
  const std::vector<uint32_t> workers_;
  const host::OneSlowWorkerPattern pattern_;
};

/// Workers that sleep independently of each other.
class SlowWorkers final : public StragglerPattern {
 public:
  SlowWorkers(const PatternTerms& terms, const std::vector<uint32_t>& workers) {
    uint64_t seed = terms.seed;
    for (const uint32_t worker : workers) {
      patterns_.emplace(worker, host::SlowWorkerPattern(terms.scenario.straggler.probability,
                                                        terms.typical_iteration, seed++));
    }
  }
  Duration delay_at(uint32_t worker, uint64_t delay_point) const override {
    const auto own = patterns_.find(worker);
    return own == patterns_.end() ? Duration() : own->second.delay_at(delay_point);
  }

 private:
  std::map<uint32_t, host::SlowWorkerPattern> patterns_;  ///< By rank.
};

/// A base of patterns of certain workers.
class CertainWorkers : public StragglerPattern {
 public:
  explicit CertainWorkers(const PatternTerms& terms) : workers_(certain_workers(terms.scenario)) {}

 protected:
  [[nodiscard]] const std::vector<uint32_t>& workers() const { return workers_; }
  [[nodiscard]] bool concerns(uint32_t worker) const {
    return std::binary_search(workers_.begin(), workers_.end(), worker);
  }

 private:
  const std::vector<uint32_t> workers_;
};

class FailSlow final : public CertainWorkers {
 public:
  explicit FailSlow(const PatternTerms& terms)
      : CertainWorkers(terms), factor_(terms.scenario.straggler.factor) {}
  double compute_factor(uint32_t worker, uint32_t) const override {
    return concerns(worker) ? factor_ : 1;
  }

 private:
  const double factor_;
};

class HeavyTail final : public StragglerPattern {
 public:
  explicit HeavyTail(const PatternTerms& terms) {
    uint64_t seed = terms.seed;
    for (const uint32_t worker : concerned_workers(terms.scenario)) {
      patterns_.emplace(worker,
                        host::HeavyTailPattern(terms.scenario.straggler.p99_over_p50, seed++));
    }
  }
  double compute_factor(uint32_t worker, uint32_t iteration) const override {
    const auto own = patterns_.find(worker);
    return own == patterns_.end() ? 1 : own->second.factor_at(iteration);
  }

 private:
  std::map<uint32_t, host::HeavyTailPattern> patterns_;  ///< By rank.
};

class PausedProcess final : public CertainWorkers {
 public:
  explicit PausedProcess(const PatternTerms& terms)
      : CertainWorkers(terms), settings_(terms.scenario.straggler) {}
  std::optional<Pause> pause() const override {
    return Pause{workers(), settings_.pause_at, settings_.pause_for};
  }

 private:
  const StragglerSettings settings_;
};

class Absent final : public CertainWorkers {
 public:
  using CertainWorkers::CertainWorkers;
  bool contributes(uint32_t worker) const override { return !concerns(worker); }
};

class BackgroundFlow final : public CertainWorkers {
 public:
  using CertainWorkers::CertainWorkers;
  std::vector<uint32_t> background_to() const override { return workers(); }
};

class RecordedDelays final : public StragglerPattern {
 public:
  explicit RecordedDelays(DelayTrace trace) : trace_(std::move(trace)) {}
  Duration delay_at(uint32_t worker, uint64_t delay_point) const override {
    return trace_.delay_at(worker, delay_point);
  }
  Duration recorded_total() const override { return trace_.total(); }

 private:
  const DelayTrace trace_;
};

/// Several patterns at once. No two of them pause processes or send other traffic.
class Combined final : public StragglerPattern {
 public:
  explicit Combined(std::vector<std::unique_ptr<StragglerPattern>> parts)
      : parts_(std::move(parts)) {}
  Duration delay_at(uint32_t worker, uint64_t delay_point) const override {
    Duration sum;
    for (const auto& part : parts_) sum += part->delay_at(worker, delay_point);
    return sum;
  }
  double compute_factor(uint32_t worker, uint32_t iteration) const override {
    double product = 1;
    for (const auto& part : parts_) product *= part->compute_factor(worker, iteration);
    return product;
  }
  bool contributes(uint32_t worker) const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return part->contributes(worker); });
  }
  std::optional<Pause> pause() const override {
    for (const auto& part : parts_) {
      if (auto pause = part->pause()) return pause;
    }
    return std::nullopt;
  }
  std::vector<uint32_t> background_to() const override {
    for (const auto& part : parts_) {
      if (auto workers = part->background_to(); !workers.empty()) return workers;
    }
    return {};
  }
  Duration recorded_total() const override {
    Duration sum;
    for (const auto& part : parts_) sum += part->recorded_total();
    return sum;
  }

 private:
  const std::vector<std::unique_ptr<StragglerPattern>> parts_;
};

using Made = Result<std::unique_ptr<StragglerPattern>>;

/// Makes a pattern of kind T.
template <class T>
Made make(const PatternTerms& terms) {
  return std::make_unique<T>(terms);
}
Made make_none(const PatternTerms&) { return std::make_unique<StragglerPattern>(); }
Made make_each(const PatternTerms& terms) {
  return std::make_unique<SlowWorkers>(terms, concerned_workers(terms.scenario));
}
Made make_fixed(const PatternTerms& terms) {
  return std::make_unique<SlowWorkers>(terms, certain_workers(terms.scenario));
}

Result<DelayTrace> read_trace(const Scenario& scenario) {
  auto trace = DelayTrace::read(scenario.straggler.trace, scenario.workers);
  if (!trace) return failure("straggler.trace: " + trace.error().text);
  return trace;
}

Made make_recorded(const PatternTerms& terms) {
  auto trace = read_trace(terms.scenario);
  if (!trace) return tl::unexpected(trace.error());
  return std::make_unique<RecordedDelays>(*std::move(trace));
}

}  // namespace

Duration StragglerPattern::delay_at(uint32_t, uint64_t) const { return {}; }
double StragglerPattern::compute_factor(uint32_t, uint32_t) const { return 1; }
bool StragglerPattern::contributes(uint32_t) const { return true; }
std::optional<StragglerPattern::Pause> StragglerPattern::pause() const { return std::nullopt; }
std::vector<uint32_t> StragglerPattern::background_to() const { return {}; }
Duration StragglerPattern::recorded_total() const { return {}; }

const std::vector<StragglerKind>& straggler_kinds() {
  static const std::vector<StragglerKind> kinds{
      {.id = Straggling::kNone, .choice = {"none", "nobody straggles"}, .make = make_none},
      {.id = Straggling::kSlowWorker,
       .choice = {"slow-worker",
                  "at each of three points of an iteration one of the workers sleeps with a "
                  "probability, 0.5 to 2 typical iterations (Trio paper §6.1)"},
       .needs_typical_iteration = true,
       .make = make<OneSlowWorker>},
      {.id = Straggling::kSlowWorkerEach,
       .choice = {"slow-worker-each", "the same, but every worker decides for itself"},
       .needs_typical_iteration = true,
       .make = make_each},
      {.id = Straggling::kSlowWorkerFixed,
       .choice = {"slow-worker-fixed", "the same, but always by certain workers, each for itself"},
       .needs_typical_iteration = true,
       .make = make_fixed},
      {.id = Straggling::kFailSlow,
       .choice =
           {"fail-slow",
            "certain workers take a constant factor longer for computation, input and copies"},
       .make = make<FailSlow>},
      {.id = Straggling::kHeavyTail,
       .choice =
           {"heavy-tail",
            "every worker's time for computation, input and copies varies, with a given ratio "
            "of P99 to P50, from half of the median on"},
       .make = make<HeavyTail>},
      {.id = Straggling::kPause,
       .choice = {"pause", "certain workers' processes stand still once, for a given time"},
       .make = make<PausedProcess>},
      {.id = Straggling::kAbsent,
       .choice = {"absent", "certain workers are in the job and never contribute"},
       .needs_mitigation = true,
       .make = make<Absent>},
      {.id = Straggling::kBackgroundFlow,
       .choice = {"background-flow",
                  "other traffic takes a part of the links toward certain workers"},
       .make = make<BackgroundFlow>},
      {.id = Straggling::kTrace,
       .choice = {"trace", "workers sleep as a file says, straggler.trace"},
       .make = make_recorded},
  };
  return kinds;
}

const StragglerKind& straggler_kind(Straggling pattern) {
  const StragglerKind& kind = straggler_kinds().at(static_cast<size_t>(pattern));
  TRIB_ASSERT(kind.id == pattern);
  return kind;
}

std::vector<const StragglerKind*> kinds_in(PatternSet patterns) {
  std::vector<const StragglerKind*> kinds;
  for (const StragglerKind& kind : straggler_kinds()) {
    if (patterns.contains(kind.id)) kinds.push_back(&kind);
  }
  return kinds;
}

std::vector<uint32_t> named_workers(const Scenario& scenario) {
  std::set<uint32_t> workers(scenario.straggler.workers.begin(), scenario.straggler.workers.end());
  const uint32_t in_rack = scenario.workers / scenario.leaves;
  for (const uint32_t rack : scenario.straggler.racks) {
    for (uint32_t i = 0; i < in_rack; i++) workers.insert(rack * in_rack + i);
  }
  return {workers.begin(), workers.end()};
}

std::vector<uint32_t> certain_workers(const Scenario& scenario) {
  std::vector<uint32_t> workers = named_workers(scenario);
  if (workers.empty()) workers.push_back(scenario.straggler.worker);
  return workers;
}

Result<void> check_trace(const Scenario& scenario) {
  if (!scenario.straggler.pattern.contains(Straggling::kTrace)) return {};
  const auto trace = read_trace(scenario);
  if (!trace) return tl::unexpected(trace.error());
  if (trace->first_iteration() < scenario.iterations) return {};
  return failure(fmt::format(
      "straggler.trace: {}: the first row is of iteration {}, and iterations={}; allowed: a file "
      "with rows for the run's iterations, which count from 0",
      scenario.straggler.trace, trace->first_iteration(), scenario.iterations));
}

Made make_pattern(PatternSet patterns, const Scenario& scenario, Duration typical_iteration) {
  Prng seeds(scenario.seed ^ kSeedSalt);
  std::vector<std::unique_ptr<StragglerPattern>> parts;
  for (const StragglerKind* kind : kinds_in(patterns)) {
    const PatternTerms terms{scenario, typical_iteration, seeds.any_u64()};
    Made part = kind->make(terms);
    if (!part) return part;
    parts.push_back(*std::move(part));
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<Combined>(std::move(parts));
}

}  // namespace tributary::lab
