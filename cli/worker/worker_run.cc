// SPDX-License-Identifier: Apache-2.0
#include "cli/worker/worker_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/fnv.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/result_file.h"
#include "cli/console.h"
#include "cli/worker/worker_join.h"
#include "cli/worker/worker_progress.h"
#include "host/generated_tensor.h"
#include "host/straggler_pattern.h"
#include "host/switchml/switchml_config.h"
#include "host/worker_recorder.h"

namespace tributary::cli {
namespace {

template <class T>
Result<std::vector<T>> read_values(const std::string& path, uint64_t element_count) {
  std::vector<T> values(element_count);
  std::ifstream file(path, std::ios::binary);
  const auto bytes = std::as_writable_bytes(std::span(values));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) {
    return system_failure(errno, fmt::format("--input {}: cannot be read", path));
  }
  return values;
}

template <class T>
std::string write_values(const std::string& path, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  const auto written =
      write_result_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return written ? "" : fmt::format("--output {}", written.error().text);
}

/// Returns the rank that alone gets the result of an iteration, if there is one.
std::optional<uint32_t> owner_of(const WorkerOptions& options, uint64_t iteration) {
  const uint32_t world = options.session.world;
  switch (options.owner) {
    case Owner::kAll:
      return {};
    case Owner::kRank:
      return options.owner_rank;
    case Owner::kTurns:
      return static_cast<uint32_t>(iteration % world);
    case Owner::kDrawn: {
      Prng prng(options.seed ^ (iteration + 1) << 32);
      if (prng.chance(0.5)) return {};
      return prng.below(world);
    }
  }
  return {};
}

/// The iterations of one run, with elements of type T.
template <class T>
class Iterations {
 public:
  Iterations(const WorkerOptions& options, std::vector<T> input, host::Communicator& communicator,
             WorkerInterrupt& interrupt, WorkerResult& result)
      : options_(options),
        input_(std::move(input)),
        communicator_(communicator),
        interrupt_(interrupt),
        result_(result),
        generated_(options.seed, options.session.world),
        stragglers_(options.straggle, options.straggle_iteration, rank_seed(options)),
        urgent_(options.urgent_elements),
        slots_(std::min<uint64_t>(options.inflight, options.iterations)) {
    for (Slot& slot : slots_) slot.tensor.resize(options.elements);
  }

  void run() {
    WorkerProgress progress(options_.iterations, options_.elements * sizeof(T),
                            options_.report_every);
    const Instant start = monotonic_now();
    uint64_t next = 0;
    for (; next < options_.iterations && going_well(); next++) {
      Slot& slot = slot_of(next);
      if (slot.ticket) finish(slot, progress);
      if (going_well()) begin(slot, next);
    }
    // Await every ticket, oldest first, even after a failure: its tensor lives in this object.
    for (uint64_t i = next; i < next + slots_.size(); i++) {
      if (slot_of(i).ticket) finish(slot_of(i), progress);
    }
    result_.wall = monotonic_now() - start;
  }

  /// Returns the last iteration's tensor; for successful runs only.
  [[nodiscard]] std::span<const T> last_result() const {
    return slots_[(options_.iterations - 1) % slots_.size()].tensor;
  }

 private:
  struct Slot {
    std::vector<T> tensor;
    std::optional<host::Ticket> ticket;
    uint64_t iteration = 0;
    Instant begun_at;
  };

  Slot& slot_of(uint64_t iteration) { return slots_[iteration % slots_.size()]; }
  [[nodiscard]] bool going_well() const { return result_.status == kStatusOk; }

  void begin(Slot& slot, uint64_t iteration) {
    pause(iteration);
    if (interrupt_.requested()) {
      result_.status = kStatusInterrupted;
      return;
    }
    if (input_.empty()) {
      generated_.fill(options_.session.rank, iteration, 0, std::span<T>(slot.tensor));
    } else {
      slot.tensor = input_;
    }
    // Rank 0 pushes the initial parameters.
    if (options_.session.asynchronous && iteration == 0 && options_.session.rank != 0) {
      std::fill(slot.tensor.begin(), slot.tensor.end(), T{});
    }
    slot.iteration = iteration;
    slot.begun_at = monotonic_now();
    if (on_their_way_++ == 0) busy_since_ = slot.begun_at;
    slot.ticket =
        submit(slot.tensor, options_.session.priorities - 1, owner_of(options_, iteration));
    if (!urgent_.empty()) reduce_urgent(iteration);
  }

  /// Sends the urgent tensor behind the tensor of this iteration, and waits for it.
  void reduce_urgent(uint64_t iteration) {
    generated_.fill(options_.session.rank, iteration, 0, std::span<T>(urgent_));
    const Instant begun_at = monotonic_now();
    const host::Outcome outcome = communicator_.wait(submit(urgent_, /*priority=*/0, {}));
    if (outcome.status != host::Status::kOk) return note_failure(outcome);
    result_.urgent_latencies.push_back(monotonic_now() - begun_at);
    if (!options_.verify) return;
    result_.checked += urgent_.size();
    result_.wrong += count_wrong(urgent_, iteration, outcome);
  }

  void pause(uint64_t iteration) {
    Duration delay;
    for (uint32_t point = 0; point < host::kDelayPoints; point++) {
      delay += stragglers_.delay_at(iteration * host::kDelayPoints + point);
    }
    if (delay > Duration()) interrupt_.sleep_for(delay);
  }

  host::Ticket submit(std::vector<float>& tensor, uint32_t priority,
                      std::optional<uint32_t> owner) {
    host::AllReduceOptions reduction = options_.reduction;
    reduction.priority = priority;
    reduction.owner = owner;
    return communicator_.all_reduce_async(std::span<float>(tensor), reduction);
  }
  host::Ticket submit(std::vector<int32_t>& tensor, uint32_t priority,
                      std::optional<uint32_t> owner) {
    return communicator_.all_reduce_async(std::span<int32_t>(tensor), options_.reduction.op,
                                          /*receive_only=*/false, priority, owner);
  }

  void finish(Slot& slot, WorkerProgress& progress) {
    const host::Outcome outcome = communicator_.wait(*slot.ticket);
    const Instant ended_at = monotonic_now();
    slot.ticket.reset();
    if (--on_their_way_ == 0) result_.busy += ended_at - busy_since_;
    if (outcome.status == host::Status::kOk) {
      take(slot, outcome, ended_at);
      progress.update(result_.iterations, result_.wrong, communicator_.counters().degraded_blocks);
    } else {
      note_failure(outcome);
    }
  }

  /// Reports the first failure, which explains later ones.
  void note_failure(const host::Outcome& outcome) {
    if (!going_well()) return;
    result_.status = interrupt_.requested() ? kStatusInterrupted : host::to_string(outcome.status);
    result_.error = interrupt_.requested() ? "" : outcome.text;
  }

  void take(const Slot& slot, const host::Outcome& outcome, Instant ended_at) {
    // Count nothing after a failure, so that the reported iterations are the first ones.
    if (!going_well()) return;
    result_.iterations++;
    result_.latencies.push_back(ended_at - slot.begun_at);
    if (result_.warning.empty()) result_.warning = outcome.warning;
    if (slot.iteration > 0) {
      result_.staleness += outcome.staleness;
      result_.staleness_blocks += outcome.blocks;
    }
    for (const host::DegradedRange& range : outcome.degraded) {
      result_.degraded_elements += range.element_count;
    }
    if (!options_.verify) return;
    result_.checked += slot.tensor.size();
    const auto owner = owner_of(options_, slot.iteration);
    if (owner && *owner != options_.session.rank) {
      result_.wrong += count_changed(slot.tensor, slot.iteration);
      return;
    }
    result_.checksum = fnv_bytes(result_.checksum, std::as_bytes(std::span(slot.tensor)));
    result_.wrong += count_wrong(slot.tensor, slot.iteration, outcome);
  }

  /// Counts the elements of a tensor, whose sum another rank owns, that are not as this rank gave
  /// them.
  uint64_t count_changed(const std::vector<T>& tensor, uint64_t iteration) const {
    std::vector<T> own(tensor.size());
    generated_.fill(options_.session.rank, iteration, 0, std::span<T>(own));
    uint64_t changed = 0;
    for (size_t i = 0; i < own.size(); i++) changed += tensor[i] == own[i] ? 0 : 1;
    return changed;
  }

  uint64_t count_wrong(const std::vector<float>& tensor, uint64_t iteration,
                       const host::Outcome& outcome) const {
    if (options_.session.wire == host::WireBits::k16) {
      // Below a tree, at most as many aggregators round as there are ranks.
      const uint32_t partial_sums = options_.session.source ? options_.session.world : 1;
      return host::check_narrow(generated_, iteration, tensor, options_.reduction.op,
                                communicator_.narrow_gradients(), partial_sums, outcome);
    }
    return host::check_float(
        generated_, iteration, tensor, options_.reduction, communicator_.gradients(), outcome,
        options_.protocol == Protocol::kSwitchml ? host::switchml_scale : host::scale_for_exponent);
  }
  uint64_t count_wrong(const std::vector<int32_t>& tensor, uint64_t iteration,
                       const host::Outcome& outcome) const {
    return host::check_int32(generated_, iteration, tensor, options_.reduction.op, outcome);
  }

  const WorkerOptions& options_;
  const std::vector<T> input_;  ///< Empty for generated values.
  host::Communicator& communicator_;
  WorkerInterrupt& interrupt_;
  WorkerResult& result_;
  const host::GeneratedTensor generated_;
  const host::SlowWorkerPattern stragglers_;
  std::vector<T> urgent_;    ///< Shape [urgent_elements].
  std::vector<Slot> slots_;  ///< Iteration i uses slot i modulo their number.
  uint32_t on_their_way_ = 0;
  Instant busy_since_;
};

void fail_to_start(WorkerResult& result, std::string text) {
  result.status = "not started";
  result.error = std::move(text);
}

/// Returns the reaction to an interrupt before the job has started. Trio-ML's join ends with a
/// leave, so that no session starts with this worker. SwitchML has none: the process ends.
std::function<void()> reaction_while_joining(const WorkerOptions& options, WorkerResult result,
                                             std::stop_source& join_stop) {
  if (options.protocol == Protocol::kTrioMl) return [&join_stop] { join_stop.request_stop(); };
  return [result = std::move(result)]() mutable {
    result.interrupted = true;
    result.status = kStatusInterrupted;
    const std::string error = write_json(result);
    if (!error.empty()) print_error("tributary worker: {}\n", error);
    std::_Exit(kExitInterrupted);
  };
}

void report(const host::WorkerRecorder& recorder) {
  if (!recorder.path().empty()) {
    print_error("tributary worker: recording {}\n", recorder.path());
  } else {
    print_error("tributary worker: no recording: {}\n", recorder.problem());
  }
}

template <class T>
void run_with(const WorkerOptions& options, WorkerInterrupt& interrupt, WorkerResult& result) {
  std::vector<T> input;
  if (!options.input_path.empty()) {
    auto values = read_values<T>(options.input_path, options.elements);
    if (!values) return fail_to_start(result, values.error().text);
    input = std::move(*values);
  }

  std::stop_source join_stop;
  interrupt.set_reaction(reaction_while_joining(options, result, join_stop));
  WorkerOptions stoppable = options;
  stoppable.session.join_stop = join_stop.get_token();
  auto communicator = join_job(stoppable);
  interrupt.set_reaction(nullptr);  // It refers to join_stop.
  if (!communicator) {
    if (!interrupt.requested()) return fail_to_start(result, communicator.error().text);
    result.interrupted = true;
    result.status = kStatusInterrupted;
    return;
  }
  host::Communicator& joined = **communicator;
  interrupt.set_reaction([&joined] { joined.close(); });
  const auto recorder = joined.recorder();

  Iterations<T> iterations(options, std::move(input), joined, interrupt, result);
  iterations.run();
  interrupt.set_reaction(nullptr);
  result.counters = joined.counters();
  result.threads = joined.threads();
  result.windows = joined.windows();
  result.interrupted = result.status == kStatusInterrupted;
  joined.close();
  if (recorder != nullptr) report(*recorder);
  if (options.output_path.empty() || result.status != kStatusOk) return;
  result.error = write_values<T>(options.output_path, iterations.last_result());
  if (!result.error.empty()) result.status = "output not written";
}

}  // namespace

WorkerResult run_worker(const WorkerOptions& options, WorkerInterrupt& interrupt) {
  WorkerResult result;
  result.options = options;
  if (options.type == ElementType::kInt32) {
    run_with<int32_t>(options, interrupt, result);
  } else {
    run_with<float>(options, interrupt, result);
  }
  interrupt.set_reaction(nullptr);
  return result;
}

}  // namespace tributary::cli
