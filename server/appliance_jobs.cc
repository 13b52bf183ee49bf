// SPDX-License-Identifier: Apache-2.0
// The commands of an operator: adds, removes, drains and changes jobs of a running appliance.
// Memory is taken and returned in the caller's thread. A core only exchanges pointers, between two
// bursts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "apps/trio_ml/session/membership_end.h"
#include "auth/keys.h"
#include "base/clock.h"
#include "io/udp/socket_address.h"
#include "server/aggregator_id.h"
#include "server/appliance.h"
#include "wire/path_room.h"

namespace tributary::server {
namespace {

/// How often draining jobs are checked. Assumed: fast enough for an operator.
constexpr std::chrono::milliseconds kDrainedEvery{50};

/// Notices of a removal, because packets get lost. Assumed: as many as a worker's leaves.
constexpr uint32_t kRemovalNotices = 3;
constexpr std::chrono::milliseconds kRemovalNoticeEvery{20};

tl::unexpected<JobError> refused(JobFault fault, std::string text) {
  return tl::unexpected<JobError>(JobError{fault, std::move(text)});
}

JobResult check_change(const trio_ml::JobConfig& job, const JobChange& change) {
  if (change.timeout && !job.mitigation) {
    return refused(
        JobFault::kNotAllowed,
        fmt::format(
            "job {}: timeout_ms needs mitigation=on; without it blocks wait for every source",
            job.id));
  }
  trio_ml::JobConfig changed = job;
  changed.silence = change.silence.value_or(job.silence);
  if (const auto allowed = trio_ml::check(changed); !allowed) {
    return refused(JobFault::kNotAllowed, allowed.error().text);
  }
  return {};
}

bool is_used(const trio_ml::Session& session, Instant now) {
  return session.is_in_use(now) || session.has_plain_clients(now);
}

}  // namespace

std::string ids_note(std::span<const trio_ml::JobConfig> jobs, uint32_t id) {
  for (const trio_ml::JobConfig& job : jobs) {
    if (job.channels == 1 || id < job.id || id >= job.id + job.channels) continue;
    return fmt::format(" (job {} with channels={} takes the ids {} to {})", job.id, job.channels,
                       job.id, job.id + job.channels - 1);
  }
  return {};
}

// --- Adding ---

JobResult Appliance::check_room(const trio_ml::JobConfig& job) const {
  const uint32_t packet_bytes =
      wire::head_bytes_max(job.auth.mode) + job.block_grad_max * wire::kGradientBytes;
  const uint32_t bytes_max = port_->payload_bytes_max();
  if (packet_bytes <= bytes_max) return {};
  return refused(
      JobFault::kNotAllowed,
      fmt::format("job {}: block_grad_max={} needs payloads of {} bytes; the port's MTU leaves {}: "
                  "give the job block_grad_max={}, or the device a larger mtu=",
                  job.id, job.block_grad_max, packet_bytes, bytes_max,
                  (bytes_max - wire::head_bytes_max(job.auth.mode)) / wire::kGradientBytes));
}

JobResult Appliance::check_memory(const trio_ml::JobConfig& job) const {
  const uint64_t wanted_bytes = config_.cores * trio_ml::memory_bytes(job, config_.cores);
  const uint64_t left_bytes =
      memory_.size_bytes(memory::Range::kDram) - memory_.used_bytes(memory::Range::kDram);
  if (wanted_bytes <= left_bytes) return {};
  const std::string sizes = job.asynchronous
                                ? fmt::format("parameters={}, sources={}, block_grad_max={}",
                                              job.parameters, job.sources, job.block_grad_max)
                                : fmt::format("block_cnt_max={}, block_grad_max={}, history={}",
                                              job.block_cnt_max, job.block_grad_max, job.history);
  return refused(JobFault::kNoMemory,
                 fmt::format("job {}: {} need {} MB; --memory-mb {} has {} MB left", job.id, sizes,
                             (wanted_bytes >> 20) + 1, config_.memory_mb, left_bytes >> 20));
}

tl::expected<Appliance::Prepared, JobError> Appliance::prepare_channel(
    const trio_ml::JobConfig& job, uint8_t first_id) {
  if (const auto fits = check_memory(job); !fits) return tl::unexpected(fits.error());
  Prepared channel;
  channel.served.job = first_id;
  channel.served.session = std::make_unique<trio_ml::Session>(job, auth::random_key());
  for (const auto& shard : shards_) {
    auto part = shard->make_job(job, *channel.served.session, monotonic_now());
    if (!part) {
      const bool cores_differ = job.asynchronous && config_.cores > 1;
      return refused(cores_differ ? JobFault::kNotAllowed : JobFault::kNoMemory, part.error().text);
    }
    channel.parts.push_back(*std::move(part));
  }
  return channel;
}

tl::expected<std::vector<Appliance::Prepared>, JobError> Appliance::prepare(
    const trio_ml::JobConfig& given) {
  trio_ml::JobConfig job = given;
  if (const auto fits = check_room(job); !fits) return tl::unexpected(fits.error());
  // A wildcard serves the loopback addresses, that of IPv4 only those of IPv4. Other addresses of
  // this machine are not recognised.
  const bool is_itself =
      job.upstream.is_same_peer(local()) ||
      (io::is_wildcard(local()) && job.upstream.port == local().port &&
       io::is_loopback(job.upstream) && (job.upstream.is_ipv4() || !local().is_ipv4()));
  if (is_itself) {
    return refused(
        JobFault::kNotAllowed,
        fmt::format("job {}: upstream={} is this server; give the address of the upper aggregator",
                    job.id, job.upstream.to_string()));
  }
  if (config_.directory && job.sources_are_aggregators) {
    return refused(
        JobFault::kNotAllowed,
        fmt::format("job {}: sources_are_aggregators=on is not allowed on a directory (--workers), "
                    "which serves ranks only; to fix: leave out the key or --workers",
                    job.id));
  }
  // Sizes each job as if it were alone: jobs that are busy at the same time may overflow the
  // socket.
  job.room_bytes = room_bytes_;
  job.ports = port_->udp_ports();
  job.aggregator_id = aggregator_id(local());
  job.directory = config_.directory.has_value();
  job.reports = true;
  if (job.upstream.is_set()) {
    job.upstream_grad_max =
        wire::gradients_in(port_->path_mtu(job.upstream), job.upstream.is_ipv4(), job.auth.mode);
  }
  std::vector<Prepared> channels;
  for (uint32_t channel = 0; channel < job.channels; channel++) {
    auto prepared = prepare_channel(trio_ml::channel_of(job, channel), job.id);
    if (!prepared) return tl::unexpected(prepared.error());
    prepared->served.given = given;
    channels.push_back(*std::move(prepared));
  }
  return channels;
}

void Appliance::install(std::vector<Prepared> channels) {
  const auto insert = [&](uint32_t core) {
    for (Prepared& channel : channels) shards_[core]->insert(std::move(channel.parts[core]));
  };
  for (uint32_t core = 0; engine_ == nullptr && core < config_.cores; core++) insert(core);
  for (const bool first : {false, true}) {
    uint32_t core = 0;
    const auto visit = [&](Engine::Core&) {
      if ((core == 0) == first) insert(core);
      core++;
    };
    if (engine_ != nullptr && (first || config_.cores > 1)) engine_->inspect(visit);
  }
  for (Prepared& channel : channels) served_.push_back(std::move(channel.served));
}

std::optional<RunningJob> Appliance::find_job(uint32_t id) const {
  const std::lock_guard lock(control_mutex_);
  for (const Served& each : served_) {
    if (each.job == id) return RunningJob{.config = each.given, .draining = each.draining};
  }
  return {};
}

JobResult Appliance::add_job(const trio_ml::JobConfig& job) {
  const std::lock_guard lock(control_mutex_);
  if (const auto open = check_open(); !open) return open;
  std::vector<trio_ml::JobConfig> jobs{job};
  for (const Served& each : served_) jobs.push_back(each.config());
  for (const Served& each : served_) {
    const uint32_t id = each.config().id;
    if (id < job.id || id >= job.id + job.channels) continue;
    return refused(JobFault::kExists,
                   fmt::format("job {} exists already{}", id, ids_note(jobs, id)));
  }
  auto channels = prepare(job);
  if (!channels) return tl::unexpected(channels.error());
  install(*std::move(channels));
  return {};
}

// --- Removing ---

bool Appliance::tell_of_removal(std::span<const uint8_t> ids) {
  // First let all cores know: a member that hears of it leaves, and the others ask about it.
  uint32_t core_index = 0;
  engine_->inspect([&](Engine::Core&) {
    trio_ml::Shard& shard = *shards_[core_index++];
    for (const uint8_t id : ids) {
      trio_ml::Job& job = *shard.job(id);
      if (shard.index() != 0) job.ending = wire::Reason::kJobRemoved;
    }
  });
  bool has_members = false;
  core_index = 0;
  engine_->inspect([&](Engine::Core& core) {
    trio_ml::Shard& shard = *shards_[core_index++];
    if (shard.index() != 0) return;
    const Instant now = monotonic_now();
    core.run_command(now, [&](trio_ml::App&, engine::LiveMachine& m) {
      for (const uint8_t id : ids) {
        trio_ml::Job& job = *shard.job(id);
        job.session.drain();
        has_members |= job.session.is_in_use(now);
        end_memberships(m, shard, job, wire::Reason::kJobRemoved);
      }
    });
  });
  return has_members;
}

bool Appliance::take_down(uint8_t id, bool force) {
  std::vector<uint8_t> ids;
  const auto is_of_job = [id](const Served& each) { return each.job == id; };
  for (const Served& each : served_) {
    if (is_of_job(each)) ids.push_back(each.config().id);
  }
  for (uint32_t i = 1; force && i < kRemovalNotices && tell_of_removal(ids); i++) {
    std::this_thread::sleep_for(kRemovalNoticeEvery);
  }
  std::vector<std::unique_ptr<trio_ml::Job>> parts;
  parts.reserve(ids.size() * config_.cores);  // A core allocates nothing.
  bool in_use = false;
  uint32_t core_index = 0;
  engine_->inspect([&](Engine::Core& core) {
    trio_ml::Shard& shard = *shards_[core_index++];
    if (shard.index() == 0) {
      const Instant now = monotonic_now();
      // Core 0 starts sessions, so that no session can start between this question and the removal.
      for (const uint8_t each : ids) in_use |= !force && is_used(shard.job(each)->session, now);
      if (in_use) return;
      core.run_command(now, [&](trio_ml::App&, engine::LiveMachine& m) {
        for (const uint8_t each : ids) {
          end_memberships(m, shard, *shard.job(each), wire::Reason::kJobRemoved);
        }
      });
    }
    if (in_use) return;
    for (const uint8_t each : ids) parts.push_back(shard.remove(each));
  });
  if (in_use) return false;
  parts.clear();  // Before the sessions, to which they refer.
  std::erase_if(served_, is_of_job);
  return true;
}

JobResult Appliance::remove_job(uint32_t id, bool force) {
  const std::lock_guard lock(control_mutex_);
  if (const auto open = check_open(); !open) return open;
  const auto channels = channels_of(id);
  if (!channels) return tl::unexpected(channels.error());
  if (take_down(static_cast<uint8_t>(id), force)) return {};
  return refused(JobFault::kInUse,
                 fmt::format("job {} is in use; to fix: drain it, or remove it with force", id));
}

JobResult Appliance::drain_job(uint32_t id) {
  const std::lock_guard lock(control_mutex_);
  if (const auto open = check_open(); !open) return open;
  const auto channels = channels_of(id);
  if (!channels) return tl::unexpected(channels.error());
  uint32_t core_index = 0;
  engine_->inspect([&](Engine::Core&) {
    if (core_index++ != 0) return;
    for (Served* channel : *channels) channel->session->drain();
  });
  for (Served* channel : *channels) channel->draining = true;
  if (take_down_drained(static_cast<uint8_t>(id))) return {};
  if (!drained_remover_.joinable()) {
    drained_remover_ = std::jthread([this](const std::stop_token& stop) { remove_drained(stop); });
  }
  drain_begun_.notify_one();
  return {};
}

bool Appliance::take_down_drained(uint8_t id) {
  if (!take_down(id, /*force=*/false)) return false;
  const std::lock_guard lock(drained_mutex_);
  if (drained_.size() < wire::kJobsMax) drained_.push_back(id);
  return true;
}

std::vector<uint8_t> Appliance::take_drained() {
  const std::lock_guard lock(drained_mutex_);
  return std::exchange(drained_, {});
}

void Appliance::remove_drained(const std::stop_token& stop) {
  std::unique_lock lock(control_mutex_);
  const auto drains = [](const Served& each) { return each.draining; };
  while (!stop.stop_requested()) {
    drain_begun_.wait(lock, stop, [&] { return std::ranges::any_of(served_, drains); });
    // Waits without the condition: only time and a stop end it.
    drain_begun_.wait_for(lock, stop, kDrainedEvery, [] { return false; });
    // Ask here first: a visit to the cores wakes them. take_down() decides.
    const Instant now = monotonic_now();
    std::set<uint8_t> jobs;
    for (const Served& each : served_) {
      if (each.draining) jobs.insert(each.job);
    }
    for (const Served& each : served_) {
      if (is_used(*each.session, now)) jobs.erase(each.job);
    }
    for (const uint8_t job : jobs) {
      if (!stopped_) static_cast<void>(take_down_drained(job));
    }
  }
}

// --- Changing ---

JobResult Appliance::change_job(uint32_t id, const JobChange& change) {
  const std::lock_guard lock(control_mutex_);
  if (const auto open = check_open(); !open) return open;
  const auto channels = channels_of(id);
  if (!channels) return tl::unexpected(channels.error());
  if (const auto good = check_change(channels->front()->config(), change); !good) return good;
  uint32_t core_index = 0;
  engine_->inspect([&](Engine::Core&) {
    trio_ml::Shard& shard = *shards_[core_index++];
    for (Served* channel : *channels) {
      const uint8_t channel_id = channel->config().id;
      if (change.timeout) shard.set_timeout(channel_id, *change.timeout, monotonic_now());
      if (change.silence) shard.set_silence(channel_id, *change.silence);
      if (shard.index() != 0) continue;
      if (change.timeout) channel->session->set_timeout(*change.timeout);
      if (change.silence) channel->session->set_silence(*change.silence);
    }
  });
  for (Served* channel : *channels) {
    channel->given.timeout = change.timeout.value_or(channel->given.timeout);
    channel->given.silence = change.silence.value_or(channel->given.silence);
  }
  return {};
}

JobResult Appliance::evict_source(uint32_t id, uint32_t source) {
  const std::lock_guard lock(control_mutex_);
  if (const auto open = check_open(); !open) return open;
  const auto channels = channels_of(id);
  if (!channels) return tl::unexpected(channels.error());
  const uint32_t sources = channels->front()->config().sources;
  if (source >= sources) {
    return refused(
        JobFault::kUnknownSource,
        fmt::format("job {} has no source {}; its sources are 0 to {}", id, source, sources - 1));
  }
  std::vector<trio_ml::Eviction> evictions(channels->size());
  bool found = false;
  uint32_t core_index = 0;
  engine_->inspect([&](Engine::Core& core) {
    trio_ml::Shard& shard = *shards_[core_index++];
    core.run_command(monotonic_now(), [&](trio_ml::App&, engine::LiveMachine& m) {
      for (uint32_t i = 0; i < evictions.size(); i++) {
        trio_ml::Job& job = *shard.job((*channels)[i]->config().id);
        if (shard.index() == 0) evictions[i] = trio_ml::evict_source(m, shard, job, source);
        const bool known = drop_evicted(job, source, evictions[i]);
        found |= evictions[i].state != trio_ml::Session::Withdrawal::kUnknown ||
                 (known && evictions[i].session == 0);
      }
    });
  });
  if (found) return {};
  return refused(JobFault::kUnknownSource,
                 fmt::format("job {}: source {} has not joined, or has left", id, source));
}

// --- Checks ---

JobResult Appliance::check_open() const {
  if (stopped_) return refused(JobFault::kEnding, "the server ends");
  if (!config_.directory) return {};
  return refused(JobFault::kNotAllowed,
                 "this server is the directory of its jobs (--workers) and cannot change them; to "
                 "fix: restart it with other --job flags");
}

std::string Appliance::job_ids() const {
  std::vector<uint32_t> ids;
  for (const Served& each : served_) {
    if (each.config().id == each.job) ids.push_back(each.job);
  }
  return ids.empty() ? "none" : fmt::format("{}", fmt::join(ids, ", "));
}

tl::expected<std::vector<Appliance::Served*>, JobError> Appliance::channels_of(uint32_t id) {
  std::vector<Served*> channels;
  for (Served& each : served_) {
    if (each.config().id == id && each.job != id) {
      return refused(
          JobFault::kNotAllowed,
          fmt::format("job {} is a channel of job {}; give the id {}", id, each.job, each.job));
    }
    if (each.job == id) channels.push_back(&each);
  }
  if (!channels.empty()) return channels;
  return refused(JobFault::kUnknownJob,
                 fmt::format("job {} does not exist; jobs: {}", id, job_ids()));
}

}  // namespace tributary::server
