// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/runner.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "lab/sweep/model_digest.h"
#include "lab/sweep/point_store.h"

namespace tributary::lab {
namespace {

/// The state that the threads of one process share.
class Work {
 public:
  Work(std::span<const Point> points, const RunnerOptions& options, PointStore& store)
      : points_(points), options_(options), store_(store) {
    for (size_t i = 0; i < points.size(); i++) keys_.push_back(point_key(points[i]));
  }

  /// Returns the unfinished points of this rank, equal points once.
  std::vector<size_t> missing() const {
    std::vector<size_t> all;
    std::map<std::string, bool> seen;
    for (size_t i = 0; i < points_.size(); i++) {
      if (store_.find(keys_[i]) == nullptr && !std::exchange(seen[keys_[i]], true))
        all.push_back(i);
    }
    if (options_.ranks == nullptr) return all;
    std::vector<size_t> mine;
    for (size_t i = options_.ranks->rank(); i < all.size(); i += options_.ranks->count()) {
      mine.push_back(all[i]);
    }
    return mine;
  }

  void run(std::span<const size_t> mine) {
    done_ = 0;
    total_ = mine.size();
    report();
    // oneTBB starts no more threads than there are cores unless this limit is raised.
    std::optional<tbb::global_control> allowed;
    if (thread_count() > 0) {
      allowed.emplace(tbb::global_control::max_allowed_parallelism,
                      static_cast<size_t>(thread_count()));
    }
    tbb::task_arena arena(thread_count());
    arena.execute([&] {
      tbb::parallel_for(
          size_t{0}, mine.size(), [&](size_t i) { run_one(mine[i]); }, tbb::simple_partitioner());
    });
  }

  /// Returns the error of the first failed point.
  [[nodiscard]] Result<void> verdict() const {
    if (errors_.empty()) return {};
    return failure(
        fmt::format("{}: {}", points_[errors_.begin()->first].label, errors_.begin()->second));
  }

  /// Writes the finished points of a stopped run to a directory.
  [[nodiscard]] Result<void> keep_in(const std::string& directory) const {
    Result<PointStore> kept = PointStore::open(directory, 0, model_digest());
    if (!kept) return tl::unexpected(kept.error());
    for (size_t i = 0; i < points_.size(); i++) {
      const PointOutcome* found = store_.find(keys_[i]);
      if (found == nullptr || kept->find(keys_[i]) != nullptr) continue;
      const Result<void> written = kept->append(keys_[i], points_[i].label, *found);
      if (!written) return written;
    }
    return {};
  }

  /// Returns the number of points that the directory has by another model only.
  [[nodiscard]] uint64_t outdated() const {
    return static_cast<uint64_t>(
        std::count_if(keys_.begin(), keys_.end(), [this](const std::string& key) {
          return store_.is_outdated(key) && store_.find(key) == nullptr;
        }));
  }

  [[nodiscard]] RunnerOutcome collect() const {
    RunnerOutcome outcome;
    for (const std::string& key : keys_) {
      const PointOutcome* found = store_.find(key);
      const std::string* failed = found == nullptr ? store_.find_failure(key) : nullptr;
      outcome.finished += found == nullptr ? 0 : 1;
      outcome.failed += failed == nullptr ? 0 : 1;
      outcome.points.push_back(found == nullptr ? std::nullopt : std::optional(*found));
      outcome.failures.push_back(failed == nullptr ? std::string() : *failed);
    }
    outcome.interrupted = stopped();
    return outcome;
  }

 private:
  [[nodiscard]] int thread_count() const {
    if (options_.threads != 0) return static_cast<int>(options_.threads);
    // mpirun starts a rank for each core.
    const bool ranks = options_.ranks != nullptr && options_.ranks->count() > 1;
    return ranks ? 1 : tbb::task_arena::automatic;
  }

  // Relaxed: nothing but the flag itself is read after it.
  [[nodiscard]] bool stopped() const {
    return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  }

  void report() const {
    if (options_.on_progress) options_.on_progress(done_, total_);
  }

  void run_one(size_t index) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped() || !errors_.empty()) return;
    }
    Result<PointOutcome> outcome = run_point(points_[index]);
    const std::lock_guard lock(mutex_);
    if (!outcome && !options_.keep_going) {
      errors_[index] = outcome.error().text;
      return;
    }
    const std::string& label = points_[index].label;
    const Result<void> kept =
        outcome ? store_.append(keys_[index], label, std::move(*outcome))
                : store_.append_failure(keys_[index], label, outcome.error().text);
    if (!kept) errors_[index] = kept.error().text;
    done_++;
    report();
  }

  const std::span<const Point> points_;
  const RunnerOptions& options_;
  std::vector<std::string> keys_;  ///< Shape [points].
  std::mutex mutex_;               ///< Guards all below, while threads run.
  PointStore& store_;
  std::map<size_t, std::string> errors_;  ///< By point.
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

std::vector<PointOutcome> RunnerOutcome::outcomes() const {
  std::vector<PointOutcome> all;
  TRIB_ASSERT(complete());
  for (const auto& point : points) {
    all.push_back(point ? *point : PointOutcome{.result = {}, .accuracy = {}, .failed = true});
  }
  return all;
}

Result<RunnerOutcome> run_points(std::span<const Point> points, const RunnerOptions& options) {
  for (const Point& point : points) {
    if (const auto good = check_point_files(point); !good) return tl::unexpected(good.error());
  }
  const uint32_t rank = options.ranks == nullptr ? 0 : options.ranks->rank();
  PointStore store;
  if (!options.directory.empty()) {
    Result<PointStore> opened = PointStore::open(options.directory, rank, model_digest());
    if (!opened) return tl::unexpected(opened.error());
    store = std::move(*opened);
  } else if (options.ranks != nullptr && options.ranks->count() > 1) {
    return failure("--out is missing: processes of one mpirun exchange their points there");
  }
  Work work(points, options, store);
  const std::vector<size_t> mine = work.missing();
  const uint64_t outdated = work.outdated();
  // All ranks read the kept points before any of them adds one. All have added theirs before any of
  // them reads everything.
  if (options.ranks != nullptr) options.ranks->wait_for_all();
  work.run(mine);
  if (options.ranks != nullptr) options.ranks->wait_for_all();
  if (const Result<void> verdict = work.verdict(); !verdict) return tl::unexpected(verdict.error());
  if (options.ranks != nullptr && options.ranks->count() > 1) {
    if (const Result<void> read = store.reload(); !read) return tl::unexpected(read.error());
  }
  RunnerOutcome outcome = work.collect();
  outcome.outdated = outdated;
  outcome.kept_in = options.directory;
  const std::string& rescue = options.directory_if_stopped;
  const bool is_lost = outcome.interrupted && !outcome.complete() && outcome.finished > 0;
  if (is_lost && options.directory.empty() && !rescue.empty() && work.keep_in(rescue)) {
    outcome.kept_in = rescue;
  }
  return outcome;
}

}  // namespace tributary::lab
