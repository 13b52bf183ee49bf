// SPDX-License-Identifier: Apache-2.0
#include "server/control/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "auth/keys.h"
#include "server/control/history_json.h"
#include "server/control/html.h"
#include "server/control/late_rows.h"
#include "server/control/snapshot_json.h"
#include "server/control/web_files.h"
#include "server/json_text.h"
#include "wire/protocol.h"

namespace tributary::control {
namespace {

using nlohmann::json;

constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr std::string_view kJobPath = "/jobs/";
/// Newest lines of the log on a page.
constexpr size_t kEventsMax = 500;
/// Fields of a log's line with columns of their own.
constexpr std::array<const char*, 3> kEventColumns{"time", "level", "event"};

std::string text_or(const json& value, const char* none) {
  return value.is_string() ? value.get<std::string>() : none;
}

/// Returns the share of results that are degraded.
Cell share_cell(double share) {
  return Cell::text(fmt::format("{:.2f} %", share * 100), share > 0 ? "bad" : "");
}

Cells job_row(const json& job) {
  const std::string id = std::to_string(job["id"].get<uint32_t>());
  const auto session = job["session"].get<uint32_t>();
  return {Cell::link(id, "/jobs/" + id),
          Cell::text(fmt::format("{} of {}", job["members"].get<uint32_t>(),
                                 job["sources"].get<uint32_t>())),
          Cell::text(session == 0 ? "none" : std::to_string(session)),
          Cell::number(job["blocks_in_progress"].get<uint64_t>()),
          Cell::number(job["blocks_total"].get<uint64_t>()),
          share_cell(job["degraded_share"].get<double>()),
          Cell::text(job["mitigation"].get<bool>() ? "on" : "off"),
          Cell::text(scaled_text(job["memory_bytes"].get<double>(), "B"))};
}

std::string job_rows(const json& jobs) {
  std::vector<Cells> rows;
  for (const json& job : jobs) rows.push_back(job_row(job));
  return table_rows(rows, "There is no job.");
}

/// Returns a row for each channel of the same configured job.
std::string channel_rows(const server::Snapshot& snapshot, const server::JobSnapshot& job) {
  json channels = json::array();
  for (const server::JobSnapshot& each : snapshot.jobs) {
    if (each.job_id() == job.job_id()) channels.push_back(job_json(each));
  }
  return job_rows(channels);
}

/// Returns a paragraph that says which channel a page shows; empty if the job has one channel.
std::string channel_note(const server::Snapshot& snapshot, const server::JobSnapshot& job) {
  const auto count = std::ranges::count(snapshot.jobs, job.job_id(), &server::JobSnapshot::job_id);
  if (count == 1) return {};
  return fmt::format(
      "<p class=\"key\">Job {} has {} channels, each a row above. The waits are those of all. The "
      "rest of this page is about channel {}, which has the id {}.</p>\n",
      job.job_id(), count, job.channel, job.config.id);
}

/// @param job Only rows of this configured job; not set: all.
std::string wait_rows(const server::Snapshot& snapshot, std::optional<uint32_t> job = {}) {
  std::vector<Cells> rows;
  for (const server::Wait& wait : server::find_waits(snapshot)) {
    if (job && wait.channel_of != *job) continue;
    const json row = wait_json(wait);
    rows.push_back({Cell::text(std::to_string(wait.job)),
                    Cell::text(ranks_text(row["missing"]), "bad"),
                    Cell::text(duration_text(row["since_ms"])), Cell::text(wait.advice, "text"),
                    Cell::text(wait.block ? std::to_string(*wait.block) : "none"),
                    Cell::text(duration_text(row["last_heard_ms"])),
                    Cell::text(text_or(row["address"], "unknown"))});
  }
  return table_rows(rows, "Nobody waits.");
}

/// Returns the growth of a total for each second between two samples; 0 if no time lies between.
template <class Value>
double rate(const json& from, const json& to, Value&& value_of) {
  const double elapsed_s = to["uptime_s"].get<double>() - from["uptime_s"].get<double>();
  return elapsed_s > 0 ? (value_of(to) - value_of(from)) / elapsed_s : 0;
}

std::string bits_text(double bits_per_s) { return scaled_text(bits_per_s, "bit/s"); }
std::string per_second_text(double rate) {
  return count_text(static_cast<uint64_t>(std::llround(std::max(rate, 0.0)))) + " /s";
}

/// @param has_results Whether the samples count results: those of Trio-ML do.
std::string traffic_rows(const json& samples, bool has_results) {
  if (samples.empty()) return table_rows({}, "There is no sample yet.");
  const json& last = samples.back();
  const json& before = samples[samples.size() < 2 ? 0 : samples.size() - 2];
  const auto row = [&](const char* name, const auto& value_of, auto* text_of,
                       const std::string& total) -> Cells {
    return {Cell::text(name), Cell::text(text_of(rate(before, last, value_of))),
            Cell::text(text_of(rate(samples.front(), last, value_of))), Cell::text(total)};
  };
  const auto received = [](const json& sample) { return sample["rx_bytes"].get<double>() * 8; };
  const auto sent = [](const json& sample) { return sample["tx_bytes"].get<double>() * 8; };
  const auto blocks = [](const json& sample) {
    return sample["blocks_completed"].get<double>() + sample["blocks_degraded"].get<double>();
  };
  std::vector<Cells> rows{
      row("Received", received, bits_text, scaled_text(received(last) / 8, "B")),
      row("Sent", sent, bits_text, scaled_text(sent(last) / 8, "B"))};
  if (has_results) {
    rows.push_back(
        row("Results", blocks, per_second_text, count_text(static_cast<uint64_t>(blocks(last)))));
  }
  return table_rows(rows, "");
}

/// Returns the row of a job's results. @param history Of /v1/history/ID.
std::string result_rows(const json& history) {
  const json& uptime_s = history["uptime_s"];
  const json& blocks = history["blocks_total"];
  if (uptime_s.empty()) return table_rows({}, "There is no sample yet.");
  const size_t last = uptime_s.size() - 1;
  const auto mean = [&](size_t from) {
    const double elapsed_s = uptime_s[last].get<double>() - uptime_s[from].get<double>();
    const double results = blocks[last].get<double>() - blocks[from].get<double>();
    return per_second_text(elapsed_s > 0 ? results / elapsed_s : 0);
  };
  return table_rows({{Cell::text("Results"), Cell::text(mean(last == 0 ? 0 : last - 1)),
                      Cell::text(mean(0)), Cell::number(blocks[last].get<uint64_t>())}},
                    "");
}

std::string block_rows(const json& status) {
  const auto degraded = status["blocks_degraded"].get<uint64_t>();
  return table_rows(
      {{Cell::text("Completed"), Cell::number(status["blocks_completed"].get<uint64_t>())},
       {Cell::text("Degraded"), Cell::text(count_text(degraded), degraded > 0 ? "bad" : "")},
       {Cell::text("Share degraded"), share_cell(status["degraded_share"].get<double>())},
       {Cell::text("In progress"), Cell::number(status["blocks_in_progress"].get<uint64_t>())}},
      "");
}

/// Returns the rows of counts by name: drops or events.
std::string count_rows(const json& counts) {
  std::vector<Cells> rows;
  for (const auto& [name, packets] : counts.items()) {
    rows.push_back({Cell::text(name), Cell::number(packets.get<uint64_t>())});
  }
  return table_rows(rows, "None.");
}

/// Returns the rows of a packet program's notices.
std::string notice_rows(const json& notices) {
  std::vector<Cells> rows;
  for (const json& notice : notices) {
    rows.push_back({Cell::text(notice.get<std::string>(), "text bad")});
  }
  return table_rows(rows, "No notices.");
}

/// Returns a row for each worker of each session.
std::string session_rows(const json& sessions) {
  std::vector<Cells> rows;
  for (const json& session : sessions) {
    for (size_t rank = 0; rank < session["workers"].size(); rank++) {
      const json& silent_s = session["silent_s"][rank];
      const auto address = session["workers"][rank].get<std::string>();
      rows.push_back(
          {Cell::text(session["id"].get<std::string>()), Cell::number(rank),
           Cell::text(address.empty() ? "not registered" : address, address.empty() ? "bad" : ""),
           Cell::text(silent_s.is_null()
                          ? "never"
                          : duration_text(std::llround(silent_s.get<double>() * 1000))),
           Cell::number(session["packets"].get<uint64_t>()),
           Cell::number(session["slots_completed"].get<uint64_t>())});
    }
  }
  return table_rows(rows, "There is no session.");
}

std::string recording_rows(const json& recordings) {
  std::vector<Cells> rows;
  for (const json& file : recordings["recordings"]) {
    const auto name = file["name"].get<std::string>();
    rows.push_back({Cell::link(name, "/v1/recordings/" + name),
                    Cell::text(file["written"].get<std::string>()),
                    Cell::text(scaled_text(file["size_bytes"].get<double>(), "B"))});
  }
  return table_rows(rows, "No recordings.");
}

/// Returns the share of the time that a core had a CPU between two samples.
std::string cpu_share(const json& from, const json& to, size_t core) {
  const double share = rate(from, to, [core](const json& sample) {
    const json& cpu_s = sample["cpu_s"];
    return core < cpu_s.size() ? cpu_s[core].get<double>() : 0.0;
  });
  return fmt::format("{:.0f} %", share * 100);
}

std::string core_rows(const json& cores, const json& samples) {
  std::vector<Cells> rows;
  for (const json& core : cores) {
    const size_t index = rows.size();
    const bool known = samples.size() >= 2;
    rows.push_back(
        {Cell::number(index),
         Cell::text(known ? cpu_share(samples[samples.size() - 2], samples.back(), index)
                          : "unknown"),
         Cell::text(known ? cpu_share(samples.front(), samples.back(), index) : "unknown"),
         Cell::text(fmt::format("{:.1f} s", core["cpu_s"].get<double>())),
         Cell::number(core["packets"].get<uint64_t>())});
  }
  return table_rows(rows, "");
}

/// Adds a rank's own report: its rate, its retransmissions, its degraded share and the
/// ranks that it waits for.
void add_report(Cells& cells, const json& report) {
  if (!report.is_object()) {
    for (uint32_t i = 0; i < 4; i++) cells.push_back(Cell::text("unknown"));
    return;
  }
  const bool waits = report["waited_ms"].get<uint32_t>() > 0;
  const json& ranks = report["waits_for"];
  cells.push_back(Cell::text(scaled_text(report["bytes_per_s"].get<double>(), "B/s")));
  cells.push_back(Cell::text(per_second_text(report["retransmitted_per_s"].get<double>())));
  cells.push_back(share_cell(report["degraded_share"].get<double>()));
  if (waits) {
    cells.push_back(Cell::text(ranks.empty() ? "others" : ranks_text(ranks), "bad"));
  } else {
    cells.push_back(Cell::text("nobody"));
  }
}

std::string rank_rows(const json& sources, const json& lateness) {
  std::vector<Cells> rows;
  for (const json& source : sources) {
    const bool waited_for = source["waited_for"].get<bool>();
    Cells cells{Cell::text(ranks_text(source["ranks"])),
                Cell::text(source["state"].get<std::string>()),
                Cell::text(waited_for ? "yes" : "no", waited_for ? "" : "bad"),
                Cell::text(text_or(source["address"], "unknown")),
                Cell::text(duration_text(source["last_heard_ms"]))};
    add_report(cells, source["report"]);
    const size_t index = rows.size();
    add_lateness(cells, index < lateness.size() ? lateness[index]["lateness_ms"] : json::array());
    rows.push_back(std::move(cells));
  }
  return table_rows(rows, "");
}

std::string stall_rows(const json& stalls, double uptime_s) {
  std::vector<Cells> rows;
  for (const json& stall : stalls) {
    const bool ended = stall["ended"].get<bool>();
    const double ago_s = std::max(uptime_s - stall["began_s"].get<double>(), 0.0);
    rows.push_back({Cell::text(ranks_text(stall["ranks"])),
                    Cell::text(std::to_string(stall["block"].get<uint32_t>())),
                    Cell::text(fmt::format("{:.0f} s ago", ago_s)),
                    Cell::text(duration_text(stall["lasted_ms"])),
                    Cell::text(ended ? "ended" : "goes on", ended ? "" : "bad")});
  }
  return table_rows(rows, "No stalls seen.");
}

std::string progress_rows(const json& blocks) {
  std::vector<Cells> rows;
  for (const json& block : blocks) {
    rows.push_back(
        {Cell::text(std::to_string(block["id"].get<uint32_t>())),
         Cell::text(duration_text(block["since_ms"])),
         Cell::text(block["waits_upstream"].get<bool>() ? "the upper aggregator"
                                                        : ranks_text(block["missing"]))});
  }
  return table_rows(rows, "None.");
}

/// Returns the fields of a line except for those that have columns of their own, as NAME=VALUE.
std::string details_of(const json& line) {
  if (line.is_string()) return line.get<std::string>();
  std::string text;
  const json fields = line.is_object() ? line : json::object();
  for (const auto& [name, value] : fields.items()) {
    if (std::ranges::find(kEventColumns, name) != kEventColumns.end()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name,
                        value.is_string() ? value.get<std::string>() : server::json_text(value));
  }
  return text;
}

std::string navigation(const std::string& kind, bool has_log) {
  const auto link = [&kind](const char* to, const char* name, const char* own_kind) {
    return fmt::format("<a href=\"{}\"{}>{}</a>", to,
                       kind == own_kind ? " aria-current=\"page\"" : "", name);
  };
  std::string html = link("/", "Server", "dashboard");
  if (has_log) html += link("/events", "Events", "events");
  return html;
}

}  // namespace

std::string event_rows(const json& log) {
  json lines = log.is_array() ? log : json::array();
  const json object = log.is_object() ? log : json::object();
  for (const auto& [name, value] : object.items()) {
    if (value.is_array()) lines = value;
  }
  std::vector<Cells> rows;
  for (size_t i = lines.size(); i > 0 && rows.size() < kEventsMax; i--) {
    const json& line = lines[i - 1];
    Cells cells;
    for (const char* column : kEventColumns) {
      const bool has_column = line.is_object() && line.contains(column);
      const std::string text = has_column ? text_or(line[column], "") : std::string();
      const bool is_bad = text == "error" || text == "warn";
      cells.push_back(Cell::text(text, is_bad ? "bad" : ""));
    }
    cells.push_back(Cell::text(details_of(line), "text"));
    rows.push_back(std::move(cells));
  }
  return table_rows(rows, "Nothing has happened.");
}

Reply Pages::log() const { return api_.handle({.method = "GET", .path = "/v1/log"}); }

Reply Pages::page(const std::string& kind, const std::string& title, std::string main,
                  const json& status, int status_code) const {
  const std::string nonce = fmt::format("{:016x}{:016x}", auth::random_u64(), auth::random_u64());
  const ApiConfig& config = api_.config();
  Reply reply{.status = status_code, .body = {}, .type = kHtml};
  reply.body = fill(
      kLayoutHtml,
      {{"title", escaped(title + " – " + config.name)},
       {"page", kind},
       {"nonce", nonce},
       {"style", std::string(kStyleCss)},
       {"script", std::string(kLiveJs)},
       {"name", escaped(config.name)},
       {"version", escaped(config.version)},
       {"listen", escaped(status["listen"].get<std::string>())},
       {"state", fmt::format("Up for {} s",
                             count_text(static_cast<uint64_t>(status["uptime_s"].get<double>())))},
       {"navigation", navigation(kind, static_cast<bool>(config.log))},
       {"main", std::move(main)}});
  reply.headers = {
      {"Content-Security-Policy",
       fmt::format("default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; connect-src "
                   "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "
                   "'none'",
                   nonce)}};
  return reply;
}

Reply Pages::dashboard() const {
  const server::Snapshot snapshot = api_.config().snapshot();
  const json status = status_json(snapshot);
  const History none;
  const json history =
      history_json(api_.config().history != nullptr ? *api_.config().history : none);
  const bool is_aggregator = snapshot.service == wire::to_string(wire::Protocol::kTrioMl);
  const json& samples = history["samples"];
  std::string service;
  if (is_aggregator) {
    service = fill(kAggregatorHtml, {{"waits", wait_rows(snapshot)},
                                     {"jobs", job_rows(status["jobs"])},
                                     {"late", late_rows(history["lateness"])},
                                     {"key", lateness_key()},
                                     {"left_out", left_out_text(history)}});
  } else if (snapshot.service == wire::to_string(wire::Protocol::kSwitchml)) {
    service = fill(kSessionsHtml, {{"sessions", session_rows(status["sessions"])}});
  } else {
    service = fill(kProgramHtml, {{"notices", notice_rows(status["notices"])},
                                  {"records", count_rows(status["records"])}});
  }
  const std::string counts = is_aggregator
                                 ? fill(kBlocksHtml, {{"blocks", block_rows(status)}})
                                 : fill(kCountsHtml, {{"counts", count_rows(status["events"])}});
  return page(
      "dashboard", "Server",
      fill(kDashboardHtml,
           {{"service", service},
            {"traffic", fill(kTrafficHtml, {{"traffic", traffic_rows(samples, is_aggregator)}})},
            {"counts", counts},
            {"drops", count_rows(status["drops"])},
            {"cores", core_rows(status["cores"], samples)}}),
      status);
}

Reply Pages::job(const std::string& id) const {
  const server::Snapshot snapshot = api_.config().snapshot();
  const json status = status_json(snapshot);
  const auto found = std::ranges::find_if(
      snapshot.jobs, [&id](const auto& each) { return std::to_string(each.config.id) == id; });
  if (found == snapshot.jobs.end()) {
    return page("error", "Not found",
                fmt::format("<section><p>Job {} does not exist. <a href=\"/\">All jobs</a></p>"
                            "</section>\n",
                            escaped(id)),
                status, 404);
  }
  const json job = job_details_json(*found, snapshot.at);
  json history;
  if (api_.config().history != nullptr) {
    history = job_history_json(*api_.config().history, found->config.id);
  }
  if (!history.is_object()) {
    history = {{"lateness", json::array()},
               {"all_reduces", {{"numbers", json::array()}, {"lateness_ms", json::array()}}},
               {"stalls", json::array()},
               {"uptime_s", json::array()},
               {"blocks_total", json::array()}};
  }
  return page(
      "job", "Job " + id,
      fill(kJobHtml, {{"id", escaped(id)},
                      {"jobs", channel_rows(snapshot, *found)},
                      {"channels", channel_note(snapshot, *found)},
                      {"waits", wait_rows(snapshot, found->job_id())},
                      {"ranks", rank_rows(job["sources"], history["lateness"])},
                      {"key", lateness_key()},
                      {"begins", begin_rows(job["sources"], history["all_reduces"])},
                      {"begin_range", begin_range_text(history["all_reduces"])},
                      {"traffic", fill(kTrafficHtml, {{"traffic", result_rows(history)}})},
                      {"stalls", stall_rows(history["stalls"], in_seconds(snapshot.uptime))},
                      {"progress", progress_rows(job["blocks"])}}),
      status);
}

Reply Pages::events(const Reply& log) const {
  const json lines = json::parse(log.body, nullptr, /*allow_exceptions=*/false);
  const json recordings = recordings_json(api_.config().recorder);
  return page("events", "Events",
              fill(kEventsHtml,
                   {{"events", event_rows(lines)}, {"recordings", recording_rows(recordings)}}),
              status_json(api_.config().snapshot()));
}

Reply Pages::handle(const Request& request) const {
  if (request.method == "GET" || request.method == "HEAD") {
    if (request.path == "/") return api_.ask_cores([this] { return dashboard(); });
    if (request.path.starts_with(kJobPath)) {
      return api_.ask_cores([&] { return job(request.path.substr(kJobPath.size())); });
    }
    if (request.path == "/events") {
      if (const Reply lines = log(); lines.status == 200) {
        return api_.ask_cores([&] { return events(lines); });
      }
    }
  }
  return api_.handle(request);
}

}  // namespace tributary::control
