// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "apps/trio_ml/asynchronous/parameter_store.h"
#include "apps/trio_ml/block_window.h"
#include "base/assert.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {
namespace {

tl::unexpected<Error> refused(const JobConfig& config, const char* key, const std::string& value,
                              const std::string& allowed) {
  return failure(
      fmt::format("job {}: {}={} is not allowed; allowed: {}", config.id, key, value, allowed));
}

Result<void> check_range(const JobConfig& config, const char* key, uint64_t value, uint64_t low,
                         uint64_t high) {
  if (value >= low && value <= high) return {};
  return refused(config, key, std::to_string(value), fmt::format("{} to {}", low, high));
}

/// Checks a time that is stated in milliseconds. A negative one is out of every range.
Result<void> check_ms(const JobConfig& config, const char* key, Duration time,
                      const DurationRange& range) {
  return check_range(config, key, static_cast<uint64_t>(in_milliseconds(time)),
                     static_cast<uint64_t>(in_milliseconds(range.min)),
                     static_cast<uint64_t>(in_milliseconds(range.max)));
}

/// Refuses an effect of silence that the job's other keys rule out.
Result<void> check_silence(const JobConfig& config) {
  if (config.silence == Silence::kAuto) return {};
  if (config.asynchronous) {
    return refused(config, "silence", to_string(config.silence),
                   "auto with asynchronous=on, where nobody waits for a silent rank");
  }
  if (config.mitigation && config.silence == Silence::kWait) {
    return refused(config, "silence", "wait",
                   "auto, exclude or end with mitigation=on, which goes on without late ranks");
  }
  return {};
}

Result<void> check_tree(const JobConfig& config) {
  if (config.upstream.is_set()) {
    const auto inside =
        check_range(config, "upstream_source", config.upstream_source, 0, wire::kSourcesMax - 1);
    if (!inside) return inside;
    if (config.group.is_set()) {
      return refused(config, "group", config.group.to_string(),
                     "a group only where there is no upstream");
    }
  }
  const auto world =
      check_range(config, "world", config.ranks(),
                  config.sources_are_aggregators ? 1 : config.sources, wire::kSourcesMax);
  if (!world) return world;
  if (config.sources_are_aggregators) return {};
  return check_range(config, "rank_base", config.rank_base, 0, config.ranks() - config.sources);
}

/// Checks the keys of asynchronous training against each other and against those that it excludes.
Result<void> check_asynchronous(const JobConfig& config) {
  if (!config.asynchronous) {
    if (config.parameters == 0) return {};
    return refused(config, "parameters", std::to_string(config.parameters),
                   "parameters only with asynchronous=on");
  }
  const auto count = check_range(config, "parameters", config.parameters, 1, kParametersLimit);
  if (!count) return count;
  if (config.mitigation) {
    return refused(config, "mitigation", "on",
                   "mitigation=off with asynchronous=on, where nobody waits for a straggler");
  }
  if (config.clients == Clients::kPlain) {
    return refused(config, "clients", "plain",
                   "any or sessions with asynchronous=on: plain packets have no session");
  }
  if (config.group.is_set()) {
    return refused(config, "group", config.group.to_string(),
                   "no group with asynchronous=on: each source gets its own answer");
  }
  if (config.upstream.is_set() || config.sources_are_aggregators) {
    return refused(config, "asynchronous", "on", "off in a tree of aggregators");
  }
  if (config.channels > 1) {
    return refused(config, "channels", std::to_string(config.channels),
                   "1 with asynchronous=on: one job keeps all parameters");
  }
  return {};
}

}  // namespace

const char* to_string(Silence silence) {
  constexpr std::array<const char*, 4> kNames{"auto", "wait", "exclude", "end"};
  return kNames[static_cast<uint32_t>(silence)];
}

Result<void> check(const JobConfig& config) {
  for (const auto& checked :
       {check_range(config, "sources", config.sources, 1, wire::kSourcesMax),
        check_range(config, "block_cnt_max", config.block_cnt_max, 1, kBlockCntLimit),
        check_range(config, "block_grad_max", config.block_grad_max, 1, kBlockGradLimit),
        check_range(config, "history", config.history, 1, kHistoryLimit),
        check_range(config, "channels", config.channels, 1,
                    std::min(wire::kChannelsMax, wire::kJobsMax - config.id)),
        check_ms(config, "timeout_ms", config.timeout, kTimeoutRange),
        check_ms(config, "permanent_ms", config.permanent_after, kPermanentRange),
        check_ms(config, "silent_ms", config.silent_after, kSilentRange),
        check_range(config, "timer_threads", config.timer_threads, 1, kTimerThreadsLimit)}) {
    if (!checked) return checked;
  }
  if (!std::has_single_bit(config.block_cnt_max)) {
    return refused(config, "block_cnt_max", std::to_string(config.block_cnt_max),
                   "a power of two up to 65536");
  }
  if (config.clients == Clients::kPlain && config.auth.mode != auth::Mode::kNone) {
    return refused(config, "auth", auth::to_string(config.auth.mode),
                   "none where clients=plain: plain packets cannot be authenticated");
  }
  if (config.group.is_set() && !config.group.is_multicast()) {
    return refused(config, "group", config.group.to_string(), "a multicast address with its port");
  }
  if (config.group.is_set() && config.group.port + config.channels - 1 > UINT16_MAX) {
    return refused(config, "group", config.group.to_string(),
                   fmt::format("a port up to {}: each channel has the next one",
                               UINT16_MAX - config.channels + 1));
  }
  if (const auto checked = check_asynchronous(config); !checked) return checked;
  if (const auto checked = check_silence(config); !checked) return checked;
  return check_tree(config);
}

JobConfig channel_of(const JobConfig& config, uint32_t channel) {
  TRIB_ASSERT(channel < config.channels);
  JobConfig job = config;
  job.id = static_cast<uint8_t>(config.id + channel);
  if (job.group.is_set()) job.group.port = static_cast<uint16_t>(config.group.port + channel);
  job.room_bytes = config.room_bytes / config.channels;
  if (channel > 0) {
    job.channels = 1;
    job.directory = false;
  }
  return job;
}

uint32_t buffer_count(const JobConfig& config, uint32_t shard_count) {
  const WindowShape shape(config, shard_count);
  return shape.buffer_count;
}

uint32_t gradients_min(const JobConfig& config) {
  return config.asynchronous ? std::min(config.block_grad_max, kParameterBlockMin) : 1;
}

uint64_t memory_bytes(const JobConfig& config, uint32_t shard_count) {
  const WindowShape shape(config, shard_count);
  const uint64_t store = config.asynchronous ? ParameterShape(config).memory_bytes() : 0;
  return shape.memory_bytes() + store;
}

}  // namespace tributary::trio_ml
