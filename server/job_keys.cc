// SPDX-License-Identifier: Apache-2.0
#include "server/job_keys.h"

#include <fmt/format.h>

#include <array>

#include "wire/trio_ml.h"

namespace tributary::server {
namespace {

constexpr std::array<KeySpec, 26> kJobKeys{{
    {.name = "id",
     .type = KeyType::kUint,
     .help = "job_id",
     .min = 0,
     .max = 255,
     .required = true},
    {.name = "sources",
     .type = KeyType::kUint,
     .help = "direct senders, src_id 0 to n-1",
     .min = 1,
     .max = wire::kSourcesMax,
     .required = true},
    {.name = "block_cnt_max",
     .type = KeyType::kUint,
     .help = "window: blocks in progress, a power of two; default 4096",
     .min = 1,
     .max = trio_ml::kBlockCntLimit},
    {.name = "window",
     .type = KeyType::kUint,
     .help = "another name of block_cnt_max",
     .min = 1,
     .max = trio_ml::kBlockCntLimit},
    {.name = "block_grad_max",
     .type = KeyType::kUint,
     .help = "most gradients in a packet",
     .default_text = "2048",
     .min = 1,
     .max = trio_ml::kBlockGradLimit},
    {.name = "history",
     .type = KeyType::kUint,
     .help = "result cache: results kept for each place of the window",
     .default_text = "1",
     .min = 1,
     .max = trio_ml::kHistoryLimit},
    {.name = "shared_buffers",
     .type = KeyType::kBool,
     .help = "share buffers in windows of 1024 or more; off for sources that never retransmit",
     .default_text = "on"},
    {.name = "mitigation",
     .type = KeyType::kBool,
     .help = "straggler mitigation",
     .default_text = "off"},
    {.name = "timeout_ms",
     .type = KeyType::kDurationMs,
     .help = "with mitigation: an idle block ends degraded after 1 to 2 times this; default 10",
     .min = in_milliseconds(trio_ml::kTimeoutRange.min),
     .max = in_milliseconds(trio_ml::kTimeoutRange.max)},
    {.name = "timer_threads",
     .type = KeyType::kUint,
     .help = "N timer threads, each scans 1/N of the blocks",
     .default_text = "10",
     .min = 1,
     .max = trio_ml::kTimerThreadsLimit},
    {.name = "permanent_ms",
     .type = KeyType::kDurationMs,
     .help = "stop waiting for a straggler that contributes nothing for this long",
     .default_text = "1000",
     .min = in_milliseconds(trio_ml::kPermanentRange.min),
     .max = in_milliseconds(trio_ml::kPermanentRange.max)},
    {.name = "silent_ms",
     .type = KeyType::kDurationMs,
     .help = "a member that sends nothing for this long is silent",
     .default_text = "3500",
     .min = in_milliseconds(trio_ml::kSilentRange.min),
     .max = in_milliseconds(trio_ml::kSilentRange.max)},
    {.name = "silence",
     .type = KeyType::kText,
     .help = "for a silent member: wait; exclude: go on without it; end: ranks that wait for it "
             "end; auto: end, or exclude with mitigation=on or asynchronous=on",
     .default_text = "auto",
     .allowed = "auto, wait, exclude, end"},
    {.name = "channels",
     .type = KeyType::kUint,
     .help = "most worker threads in a rank; the job takes this many ids, starting with its own",
     .default_text = "1",
     .min = 1,
     .max = wire::kChannelsMax},
    {.name = "auth",
     .type = KeyType::kText,
     .help = "authentication: none, header (a MAC over headers) or full (over gradients too)",
     .default_text = "none",
     .allowed = "none, header, full"},
    {.name = "secret_file",
     .type = KeyType::kText,
     .help = "file with the job's secret; default: the variable TRIBUTARY_SECRET"},
    {.name = "clients",
     .type = KeyType::kText,
     .help = "any, plain: refuse sessions, or sessions: refuse plain packets",
     .default_text = "any",
     .allowed = "any, plain, sessions"},
    {.name = "pin",
     .type = KeyType::kBool,
     .help = "a source keeps its first address",
     .default_text = "off"},
    {.name = "asynchronous",
     .type = KeyType::kBool,
     .help = "asynchronous training: keep the parameters, add each push at once",
     .default_text = "off"},
    {.name = "parameters",
     .type = KeyType::kUint,
     .help = "elements of an asynchronous job's parameters",
     .default_text = "0",
     .min = 0,
     .max = trio_ml::kParametersLimit},
    {.name = "group", .type = KeyType::kEndpoint, .help = "multicast group for results"},
    {.name = "upstream", .type = KeyType::kEndpoint, .help = "upper aggregator of a tree"},
    {.name = "upstream_source",
     .type = KeyType::kUint,
     .help = "src_id at the upper aggregator",
     .default_text = "0",
     .min = 0,
     .max = wire::kSourcesMax - 1},
    {.name = "sources_are_aggregators",
     .type = KeyType::kBool,
     .help = "the sources are lower aggregators",
     .default_text = "off"},
    {.name = "rank_base",
     .type = KeyType::kUint,
     .help = "rank of source 0 in the whole tree",
     .default_text = "0",
     .min = 0,
     .max = wire::kSourcesMax - 1},
    {.name = "world",
     .type = KeyType::kUint,
     .help = "ranks in the whole tree; 0: as many as sources",
     .default_text = "0",
     .min = 0,
     .max = wire::kSourcesMax},
}};

Result<trio_ml::Clients> to_clients(const KeyValues& row) {
  using trio_ml::Clients;
  const std::string& text = row.text("clients");
  for (const Clients each : {Clients::kAny, Clients::kPlain, Clients::kSessions}) {
    if (text == clients_text(each)) return each;
  }
  return failure(fmt::format("{}: clients={} is not allowed; allowed: any, plain, sessions",
                             row.where(), text));
}

}  // namespace

const char* clients_text(trio_ml::Clients clients) {
  if (clients == trio_ml::Clients::kPlain) return "plain";
  return clients == trio_ml::Clients::kSessions ? "sessions" : "any";
}

Result<trio_ml::Silence> to_silence(const std::string& text, const std::string& where) {
  using trio_ml::Silence;
  for (const Silence each : {Silence::kAuto, Silence::kWait, Silence::kExclude, Silence::kEnd}) {
    if (text == to_string(each)) return each;
  }
  return failure(
      fmt::format("{}: silence={} is not allowed; allowed: auto, wait, exclude, end", where, text));
}

namespace {

/// Refuses keys that would have no effect.
Result<void> check_effect(const KeyValues& row) {
  if (row.has("timeout_ms") && !row.flag("mitigation")) {
    return failure(
        fmt::format("{}: timeout_ms needs mitigation=on; without it blocks wait for every source",
                    row.where()));
  }
  if (row.has("window") && row.has("block_cnt_max") &&
      row.uint("window") != row.uint("block_cnt_max")) {
    return failure(fmt::format(
        "{}: window={} and block_cnt_max={} are two names of one setting; give one of them",
        row.where(), row.uint("window"), row.uint("block_cnt_max")));
  }
  return {};
}

}  // namespace

const KeyTable& job_keys() {
  static const KeyTable table("job", kJobKeys);
  return table;
}

Result<trio_ml::JobConfig> to_job(const KeyValues& row) {
  if (const auto good = check_effect(row); !good) return tl::unexpected(good.error());
  trio_ml::JobConfig job;
  job.id = static_cast<uint8_t>(row.uint("id"));
  job.sources = static_cast<uint32_t>(row.uint("sources"));
  for (const char* key : {"window", "block_cnt_max"}) {
    if (row.has(key)) job.block_cnt_max = static_cast<uint32_t>(row.uint(key));
  }
  job.block_grad_max = static_cast<uint32_t>(row.uint("block_grad_max"));
  job.history = static_cast<uint32_t>(row.uint("history"));
  job.shared_buffers = row.flag("shared_buffers");
  job.mitigation = row.flag("mitigation");
  if (row.has("timeout_ms")) job.timeout = row.duration("timeout_ms");
  job.timer_threads = static_cast<uint32_t>(row.uint("timer_threads"));
  job.permanent_after = row.duration("permanent_ms");
  job.silent_after = row.duration("silent_ms");
  const auto silence = to_silence(row.text("silence"), row.where());
  if (!silence) return tl::unexpected(silence.error());
  job.silence = *silence;
  job.channels = static_cast<uint32_t>(row.uint("channels"));
  const auto clients = to_clients(row);
  if (!clients) return tl::unexpected(clients.error());
  job.clients = *clients;
  job.pin = row.flag("pin");
  job.asynchronous = row.flag("asynchronous");
  job.parameters = row.uint("parameters");
  if (row.has("group")) job.group = row.endpoint("group");
  if (row.has("upstream")) job.upstream = row.endpoint("upstream");
  job.upstream_source = static_cast<uint32_t>(row.uint("upstream_source"));
  job.sources_are_aggregators = row.flag("sources_are_aggregators");
  job.rank_base = static_cast<uint32_t>(row.uint("rank_base"));
  job.world = static_cast<uint32_t>(row.uint("world"));
  const auto mode = auth::parse_mode(row.text("auth"));
  if (!mode) {
    return failure(fmt::format("{}: auth={} is not allowed; allowed: none, header or full",
                               row.where(), row.text("auth")));
  }
  const auto found =
      auth::find_secret(*mode, row.has("secret_file") ? row.text("secret_file") : std::string());
  if (!found) return failure(fmt::format("{}: {}", row.where(), found.error().text));
  job.auth = *found;
  if (const auto checked = trio_ml::check(job); !checked) {
    return failure(fmt::format("{}: {}", row.where(), checked.error().text));
  }
  return job;
}

}  // namespace tributary::server
