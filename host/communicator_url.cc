// SPDX-License-Identifier: Apache-2.0
#include "host/communicator_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/number_text.h"
#include "host/send_gate.h"
#include "host/silence_watch.h"
#include "host/worker_port.h"
#include "wire/trio_ml.h"

namespace tributary::host {
namespace {

constexpr std::string_view kScheme = "tributary://";
constexpr std::string_view kForm =
    "tributary://HOST:PORT/job/ID?rank=0&world=4, for example tributary://127.0.0.1:12000/job/1";

/// One day. A longer deadline is probably in the wrong unit.
constexpr uint64_t kDeadlineMsMax = 86'400'000;
constexpr uint64_t kWorldMax = wire::kSourcesMax;

/// The environment variables in which a launcher passes rank and world.
struct RankVariables {
  const char* rank;
  const char* world;
};
constexpr std::array<RankVariables, 3> kRankVariables{{
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
}};

/// Reads a whole number between `least` and `most`.
/// @param key The name of the value in error texts: a key of the URL or a variable.
Result<uint64_t> whole_number(std::string_view key, std::string_view value, uint64_t least,
                              uint64_t most, std::string_view besides = "") {
  const auto number = parse_number<uint64_t>(value);
  if (!number || *number < least || *number > most) {
    return failure(fmt::format("{}='{}' is not allowed; allowed: {}a whole number from {} to {}",
                               key, value, besides, least, most));
  }
  return *number;
}

/// Reads "auto" as 0, or a number.
Result<uint32_t> number_or_auto(std::string_view key, std::string_view value, uint64_t most) {
  if (value == "auto") return 0U;
  const auto number = whole_number(key, value, 1, most, "auto, or ");
  if (!number) return tl::unexpected(number.error());
  return static_cast<uint32_t>(*number);
}

/// The values read from the query. rank and world may still come from the environment.
struct Query {
  CommunicatorUrl url;
  std::optional<uint64_t> rank;
  std::optional<uint64_t> world;
  auth::Mode auth = auth::Mode::kNone;
  std::string secret_path;
};

template <class Number, class Target>
Result<void> put(const Result<Number>& number, Target& target) {
  if (!number) return tl::unexpected(number.error());
  target = static_cast<Target>(*number);
  return {};
}

Result<void> put_local(std::string_view value, CommunicatorConfig& config) {
  const auto use = parse_local_use(value);
  if (!use) {
    return failure(fmt::format("local='{}' is not allowed; allowed: auto, on or off", value));
  }
  config.local = *use;
  return {};
}

Result<void> put_switch(std::string_view key, std::string_view value, bool& flag) {
  if (value != "on" && value != "off") {
    return failure(fmt::format("{}='{}' is not allowed; allowed: on or off", key, value));
  }
  flag = value == "on";
  return {};
}

Result<void> put_wire(std::string_view value, CommunicatorConfig& config) {
  if (value == "auto") {
    config.wire = WireBits::kAuto;
  } else if (value == "16") {
    config.wire = WireBits::k16;
  } else if (value == "32") {
    config.wire = WireBits::k32;
  } else {
    return failure(fmt::format("wire='{}' is not allowed; allowed: auto, 16 or 32", value));
  }
  return {};
}

Result<void> put_format(std::string_view value, Query& query) {
  if (value == "exponent") {
    query.url.reduction.format = FloatFormat::kBlockExponent;
  } else if (value == "fixed") {
    query.url.reduction.format = FloatFormat::kFixedScale;
  } else {
    return failure(fmt::format("format='{}' is not allowed; allowed: exponent or fixed", value));
  }
  return {};
}

Result<void> put_scale(std::string_view value, Query& query) {
  const auto scale = parse_number<float>(value);
  if (!scale || !(*scale > 0) || !std::isfinite(*scale)) {
    return failure(fmt::format(
        "scale='{}' is not allowed; allowed: a finite number above 0, as in 1e8", value));
  }
  query.url.reduction.scale = *scale;
  return {};
}

Result<void> put_loss(std::string_view value, Query& query) {
  const auto loss = parse_number<double>(value);
  if (!loss || !(*loss >= 0) || *loss >= 1) {
    return failure(
        fmt::format("loss='{}' is not allowed; allowed: a number from 0 to below 1", value));
  }
  query.url.loss = *loss;
  return {};
}

Result<void> put_ms(std::string_view key, std::string_view value, Duration& duration,
                    uint64_t least = 1) {
  const auto number = whole_number(key, value, least, kDeadlineMsMax);
  if (!number) return tl::unexpected(number.error());
  duration = milliseconds(static_cast<int64_t>(*number));
  return {};
}

Result<void> put_key(std::string_view key, std::string_view value, Query& query) {
  CommunicatorConfig& config = query.url.config;
  if (key == "rank") return put(whole_number(key, value, 0, kWorldMax - 1), query.rank);
  if (key == "world") return put(whole_number(key, value, 1, kWorldMax), query.world);
  if (key == "source") return put(whole_number(key, value, 0, kWorldMax - 1), config.source);
  if (key == "gradients") return put(number_or_auto(key, value, 4095), config.gradients);
  if (key == "window") return put(number_or_auto(key, value, 65'536), config.window);
  if (key == "threads") {
    return put(whole_number(key, value, 1, wire::kChannelsMax), config.threads);
  }
  if (key == "priorities")
    return put(whole_number(key, value, 1, kPrioritiesMax), config.priorities);
  if (key == "auth") {
    const auto mode = auth::parse_mode(value);
    if (!mode) {
      return failure(fmt::format("auth='{}' is not allowed; allowed: none, header or full", value));
    }
    query.auth = *mode;
    return {};
  }
  if (key == "secret_file") {
    query.secret_path = value;
    return {};
  }
  if (key == "record") {
    config.record_folder = value;
    return {};
  }
  if (key == "local") return put_local(value, config);
  if (key == "asynchronous") return put_switch(key, value, config.asynchronous);
  if (key == "format") return put_format(value, query);
  if (key == "wire") return put_wire(value, config);
  if (key == "scale") return put_scale(value, query);
  if (key == "loss") return put_loss(value, query);
  if (key == "deadline_ms") return put_ms(key, value, config.deadline);
  if (key == "server_wait_ms") return put_ms(key, value, config.server_wait);
  if (key == "server_silent_ms") {
    return put_ms(key, value, config.server_silent.emplace(), in_milliseconds(kSilentLeast));
  }
  return failure(
      fmt::format("unknown key '{}'; allowed: rank, world, deadline_ms, server_wait_ms, "
                  "server_silent_ms, gradients, window, threads, priorities, format, wire, scale, "
                  "source, local, auth, secret_file, asynchronous, "
                  "record and loss",
                  key));
}

Result<void> put_query(std::string_view text, Query& query) {
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return failure(fmt::format("'{}' is not KEY=VALUE", pair));
    }
    const std::string_view key = pair.substr(0, equals);
    for (const std::string_view before : seen) {
      if (before == key) return failure(fmt::format("key '{}' is given twice", key));
    }
    seen.push_back(key);
    if (const auto done = put_key(key, pair.substr(equals + 1), query); !done) return done;
  }
  return {};
}

/// Reads "/job/ID", "/" or nothing.
Result<void> put_path(std::string_view path, Query& query) {
  constexpr std::string_view kJob = "/job/";
  if (path.empty() || path == "/") return {};
  if (!path.starts_with(kJob)) {
    return failure(fmt::format("path '{}' is not allowed; allowed: /job/ID", path));
  }
  return put(whole_number("job", path.substr(kJob.size()), 0, 255), query.url.config.job_id);
}

Result<void> put_aggregators(std::string_view list, Query& query) {
  if (list.empty()) return failure(fmt::format("no host; allowed: {}", kForm));
  auto aggregators = parse_aggregators(list, kDefaultPort);
  if (!aggregators) return tl::unexpected(aggregators.error());
  query.url.config.aggregators = *std::move(aggregators);
  return {};
}

/// Sets rank and world from the first pair of variables that is set.
Result<void> fill_ranks(const Environment& environment, Query& query) {
  if (query.rank && query.world) return {};
  for (const RankVariables& variables : kRankVariables) {
    const std::string rank = environment(variables.rank);
    const std::string world = environment(variables.world);
    if (rank.empty() || world.empty()) continue;
    if (!query.world) {
      const auto done = put(whole_number(variables.world, world, 1, kWorldMax), query.world);
      if (!done) return done;
    }
    if (!query.rank) {
      const auto done = put(whole_number(variables.rank, rank, 0, kWorldMax - 1), query.rank);
      if (!done) return done;
    }
    return {};
  }
  if (query.world == 1U && !query.rank) query.rank = 0;
  if (query.rank && query.world) return {};
  return failure(
      fmt::format("no {0}: neither {0}=… in the URL nor RANK and WORLD_SIZE (or those of "
                  "Open MPI or PMI) in the environment",
                  query.rank ? "world" : "rank"));
}

}  // namespace

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Result<CommunicatorUrl> parse_communicator_url(std::string_view url,
                                               const Environment& environment) {
  const std::string from_environment = url.empty() ? environment("TRIBUTARY_URL") : std::string();
  if (url.empty()) url = from_environment;
  if (url.empty()) {
    return failure(fmt::format("no URL given and TRIBUTARY_URL is not set; allowed: {}", kForm));
  }
  const auto wrong = [&url](const Error& error) {
    return failure(fmt::format("{} (in '{}')", error.text, url));
  };
  if (!url.starts_with(kScheme)) {
    return failure(fmt::format("'{}' is not {}", url, kForm));
  }
  const std::string_view rest = url.substr(kScheme.size());
  const size_t query_at = std::min(rest.find('?'), rest.size());
  const size_t path_at = std::min(rest.find('/'), query_at);

  Query query;
  query.url.config.gradients = 0;
  query.url.config.window = 0;
  if (const auto done = put_aggregators(rest.substr(0, path_at), query); !done) {
    return wrong(done.error());
  }
  if (const auto done = put_path(rest.substr(path_at, query_at - path_at), query); !done) {
    return wrong(done.error());
  }
  if (query_at < rest.size()) {
    const auto done = put_query(rest.substr(query_at + 1), query);
    if (!done) return wrong(done.error());
  }
  if (const auto done = fill_ranks(environment, query); !done) return wrong(done.error());
  if (*query.rank >= *query.world) {
    return wrong(Error{
        fmt::format("rank={} is not allowed; allowed: 0 to {}", *query.rank, *query.world - 1)});
  }
  if (query.url.config.wire == WireBits::k16 &&
      query.url.reduction.format == FloatFormat::kFixedScale) {
    return wrong(Error{"wire=16 is not allowed with format=fixed; allowed: format=exponent"});
  }
  std::string& record_folder = query.url.config.record_folder;
  if (record_folder.empty()) record_folder = environment("TRIBUTARY_RECORD");
  const auto secret = auth::find_secret(query.auth, query.secret_path);
  if (!secret) return wrong(secret.error());
  query.url.config.auth = *secret;
  query.url.config.rank = static_cast<uint32_t>(*query.rank);
  query.url.config.world = static_cast<uint32_t>(*query.world);
  return query.url;
}

}  // namespace tributary::host
