// SPDX-License-Identifier: Apache-2.0
#include "lab/workload/straggler.h"

#include "base/assert.h"
#include "base/prng.h"
#include "host/straggler_pattern.h"

namespace tributary::lab {
namespace {

/// Separates the pattern's random numbers from those of the network and the workers.
constexpr uint64_t kSeedSalt = 0x7374726167676c65;

uint64_t seed_of(const Scenario& scenario) { return Prng(scenario.seed ^ kSeedSalt).any_u64(); }

class OneSlowWorker final : public StragglerPattern {
 public:
  OneSlowWorker(const Scenario& scenario, Duration typical)
      : pattern_(scenario.straggler.probability, typical, scenario.workers, seed_of(scenario)) {}
  Duration delay_at(uint32_t worker, uint64_t delay_point) const override {
    return pattern_.delay_at(worker, delay_point);
  }

 private:
  const host::OneSlowWorkerPattern pattern_;
};

class EachSlowWorker final : public StragglerPattern {
 public:
  EachSlowWorker(const Scenario& scenario, Duration typical) {
    for (uint32_t i = 0; i < scenario.workers; i++) {
      patterns_.emplace_back(scenario.straggler.probability, typical, seed_of(scenario) + i);
    }
  }
  Duration delay_at(uint32_t worker, uint64_t delay_point) const override {
    return patterns_[worker].delay_at(delay_point);
  }

 private:
  std::vector<host::SlowWorkerPattern> patterns_;
};

class FailSlow final : public StragglerPattern {
 public:
  explicit FailSlow(const Scenario& scenario)
      : worker_(scenario.straggler.worker), factor_(scenario.straggler.factor) {}
  double compute_factor(uint32_t worker, uint32_t) const override {
    return worker == worker_ ? factor_ : 1;
  }

 private:
  const uint32_t worker_;
  const double factor_;
};

class HeavyTail final : public StragglerPattern {
 public:
  explicit HeavyTail(const Scenario& scenario) {
    for (uint32_t i = 0; i < scenario.workers; i++) {
      patterns_.emplace_back(scenario.straggler.p99_over_p50, seed_of(scenario) + i);
    }
  }
  double compute_factor(uint32_t worker, uint32_t iteration) const override {
    return patterns_[worker].factor_at(iteration);
  }

 private:
  std::vector<host::HeavyTailPattern> patterns_;
};

class PausedProcess final : public StragglerPattern {
 public:
  explicit PausedProcess(const Scenario& scenario)
      : pause_{scenario.straggler.worker, scenario.straggler.pause_at,
               scenario.straggler.pause_for} {}
  std::optional<Pause> pause() const override { return pause_; }

 private:
  const Pause pause_;
};

class Absent final : public StragglerPattern {
 public:
  explicit Absent(const Scenario& scenario) : worker_(scenario.straggler.worker) {}
  bool contributes(uint32_t worker) const override { return worker != worker_; }

 private:
  const uint32_t worker_;
};

class BackgroundFlow final : public StragglerPattern {
 public:
  explicit BackgroundFlow(const Scenario& scenario) : worker_(scenario.straggler.worker) {}
  std::optional<uint32_t> background_to() const override { return worker_; }

 private:
  const uint32_t worker_;
};

/// Makes a pattern of kind T. Only some need the typical iteration.
template <class T>
std::unique_ptr<StragglerPattern> make(const Scenario& scenario, Duration) {
  return std::make_unique<T>(scenario);
}
template <class T>
std::unique_ptr<StragglerPattern> make_timed(const Scenario& scenario, Duration typical) {
  return std::make_unique<T>(scenario, typical);
}
std::unique_ptr<StragglerPattern> make_none(const Scenario&, Duration) {
  return std::make_unique<StragglerPattern>();
}

}  // namespace

Duration StragglerPattern::delay_at(uint32_t, uint64_t) const { return {}; }
double StragglerPattern::compute_factor(uint32_t, uint32_t) const { return 1; }
bool StragglerPattern::contributes(uint32_t) const { return true; }
std::optional<StragglerPattern::Pause> StragglerPattern::pause() const { return std::nullopt; }
std::optional<uint32_t> StragglerPattern::background_to() const { return std::nullopt; }

const std::vector<StragglerKind>& straggler_kinds() {
  static const std::vector<StragglerKind> kinds{
      {.id = Straggling::kNone, .choice = {"none", "nobody straggles"}, .make = make_none},
      {.id = Straggling::kSlowWorker,
       .choice = {"slow-worker",
                  "at each of three points of an iteration one of the workers sleeps with a "
                  "probability, 0.5 to 2 typical iterations (Trio paper §6.1)"},
       .needs_typical_iteration = true,
       .make = make_timed<OneSlowWorker>},
      {.id = Straggling::kSlowWorkerEach,
       .choice = {"slow-worker-each", "the same, but every worker decides for itself"},
       .needs_typical_iteration = true,
       .make = make_timed<EachSlowWorker>},
      {.id = Straggling::kFailSlow,
       .choice = {"fail-slow", "one worker's computation takes a constant factor longer"},
       .make = make<FailSlow>},
      {.id = Straggling::kHeavyTail,
       .choice = {"heavy-tail",
                  "every worker's computation varies, with a given ratio of P99 to P50"},
       .make = make<HeavyTail>},
      {.id = Straggling::kPause,
       .choice = {"pause", "one worker's process stands still once, for a given time"},
       .make = make<PausedProcess>},
      {.id = Straggling::kAbsent,
       .choice = {"absent", "one worker is in the job and never contributes"},
       .needs_mitigation = true,
       .make = make<Absent>},
      {.id = Straggling::kBackgroundFlow,
       .choice = {"background-flow", "other traffic takes a part of the link toward one worker"},
       .make = make<BackgroundFlow>},
  };
  return kinds;
}

const StragglerKind& straggler_kind(Straggling pattern) {
  const StragglerKind& kind = straggler_kinds().at(static_cast<size_t>(pattern));
  TRIB_ASSERT(kind.id == pattern);
  return kind;
}

}  // namespace tributary::lab
