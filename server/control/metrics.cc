// SPDX-License-Identifier: Apache-2.0
#include "server/control/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <utility>

#include "server/who.h"

namespace tributary::control {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using server::JobSnapshot;
using server::Snapshot;

using Labels = std::vector<ClientMetric::Label>;

/// A family of metrics under construction.
class Family {
 public:
  Family(MetricType type, const char* name, const char* help) {
    family_.type = type;
    family_.name = name;
    family_.help = help;
  }
  void add(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family_.metric.push_back(std::move(metric));
  }
  void add(Labels labels, uint64_t value) { add(std::move(labels), static_cast<double>(value)); }
  /// Adds the family, unless it has no metric.
  void move_to(std::vector<MetricFamily>& families) {
    if (!family_.metric.empty()) families.push_back(std::move(family_));
  }

 private:
  MetricFamily family_;
};

Family counter(const char* name, const char* help) { return {MetricType::Counter, name, help}; }
Family gauge(const char* name, const char* help) { return {MetricType::Gauge, name, help}; }

void add_server(const Snapshot& snapshot, const std::string& version,
                std::vector<MetricFamily>& families) {
  Family build = gauge("tributary_build_info", "The program's version; always 1.");
  build.add({{"version", version}}, 1.0);
  Family uptime = gauge("tributary_uptime_seconds", "Time since the server's start.");
  uptime.add({}, in_seconds(snapshot.uptime));
  Family events =
      counter("tributary_events_total", "Packets served and sent, and events, by name.");
  Family refused = counter("tributary_refused_packets_total",
                           "Packets that changed nothing, by the reason of their refusal.");
  for (const server::OutcomeTotal& outcome : snapshot.outcomes) {
    (outcome.refused ? refused : events)
        .add({{outcome.refused ? "reason" : "event", outcome.name}}, outcome.packets);
  }
  for (Family* family : {&build, &uptime, &events, &refused}) family->move_to(families);
}

/// A family with one metric for each row of a table: a core, a job or a worker.
template <class Row>
struct Column {
  MetricType type;
  const char* name;
  const char* help;
  double (*value)(const Row&);
};

template <class Row>
struct LabelledRow {
  Labels labels;
  Row row;
};

/// Adds a family for each column.
template <class Row, size_t kColumns>
void add_table(const std::array<Column<Row>, kColumns>& columns,
               const std::vector<LabelledRow<Row>>& rows, std::vector<MetricFamily>& families) {
  for (const Column<Row>& column : columns) {
    Family family(column.type, column.name, column.help);
    for (const LabelledRow<Row>& row : rows) family.add(row.labels, column.value(row.row));
    family.move_to(families);
  }
}

constexpr MetricType kCounter = MetricType::Counter;
constexpr MetricType kGauge = MetricType::Gauge;

constexpr auto kCoreColumns = std::to_array<Column<server::CoreSnapshot>>(
    {{kCounter, "tributary_core_cpu_seconds_total", "CPU time of the core's thread.",
      [](const auto& core) { return in_seconds(core.cpu); }},
     {kCounter, "tributary_core_packets_total", "Packets that the core processed.",
      [](const auto& core) { return static_cast<double>(core.counters.packets); }}});

constexpr auto kPortColumns = std::to_array<Column<engine::PortCounters>>(
    {{kCounter, "tributary_port_receive_packets_total", "Packets received.",
      [](const auto& port) { return static_cast<double>(port.rx_packets); }},
     {kCounter, "tributary_port_receive_bytes_total", "Bytes received.",
      [](const auto& port) { return static_cast<double>(port.rx_bytes); }},
     {kCounter, "tributary_port_transmit_packets_total", "Packets sent.",
      [](const auto& port) { return static_cast<double>(port.tx_packets); }},
     {kCounter, "tributary_port_transmit_bytes_total", "Bytes sent.",
      [](const auto& port) { return static_cast<double>(port.tx_bytes); }}});

/// Returns one row for each core.
template <class Row>
std::vector<LabelledRow<Row>> rows_by_core(const std::vector<Row>& of_cores) {
  std::vector<LabelledRow<Row>> rows;
  for (const Row& row : of_cores) rows.push_back({{{"core", std::to_string(rows.size())}}, row});
  return rows;
}

void add_drops(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family dropped = counter("tributary_dropped_packets_total",
                           "Packets that the server lost, by the place of the loss.");
  for (uint32_t i = 0; i < snapshot.ports.size(); i++) {
    for (const server::Drop& drop : snapshot.drops_at(i)) {
      if (!drop.packets) continue;
      dropped.add({{"core", std::to_string(i)}, {"reason", drop.reason}}, *drop.packets);
    }
  }
  dropped.move_to(families);
}

struct JobRow {
  const JobSnapshot& job;
  Instant at;
  uint64_t waits;
};

/// Returns the longest time since the last contribution to a block in progress.
Duration longest_wait(const JobSnapshot& job, Instant now) {
  return job.blocks.empty() ? Duration() : now - job.blocks.front().referenced_at;
}

uint64_t members_of(const JobSnapshot& job) {
  return static_cast<uint64_t>(std::ranges::count(job.sources, server::SourceState::kMember,
                                                  &server::SourceSnapshot::state));
}

constexpr auto kJobColumns = std::to_array<Column<JobRow>>(
    {{kCounter, "tributary_job_blocks_total", "Results of the job.",
      [](const JobRow& row) { return static_cast<double>(row.job.blocks_total); }},
     {kCounter, "tributary_job_degraded_blocks_total",
      "Results of the job that lack some source's contribution.",
      [](const JobRow& row) { return static_cast<double>(row.job.blocks_degraded); }},
     {kGauge, "tributary_job_blocks_in_progress", "Blocks that wait for a source.",
      [](const JobRow& row) { return static_cast<double>(row.job.blocks_in_progress); }},
     {kGauge, "tributary_job_block_wait_seconds",
      "Longest time since the last contribution to a block in progress.",
      [](const JobRow& row) { return in_seconds(longest_wait(row.job, row.at)); }},
     {kGauge, "tributary_job_memory_bytes", "Shared memory of the job.",
      [](const JobRow& row) { return static_cast<double>(row.job.memory_bytes); }},
     {kGauge, "tributary_job_sources", "Sources that the job is configured for.",
      [](const JobRow& row) { return static_cast<double>(row.job.config.sources); }},
     {kGauge, "tributary_job_members", "Sources that take part in the session.",
      [](const JobRow& row) { return static_cast<double>(members_of(row.job)); }},
     {kGauge, "tributary_job_waits", "Ranks that tributary who names.",
      [](const JobRow& row) { return static_cast<double>(row.waits); }}});

void add_jobs(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  const std::vector<server::Wait> waits = server::find_waits(snapshot);
  std::vector<LabelledRow<JobRow>> rows;
  for (const JobSnapshot& job : snapshot.jobs) {
    const auto count = std::ranges::count(waits, job.config.id, &server::Wait::job);
    rows.push_back({{{"job", std::to_string(job.config.id)}},
                    {job, snapshot.at, static_cast<uint64_t>(count)}});
  }
  add_table(kJobColumns, rows, families);
}

/// Calls `visit` with the labels of each rank that sends to this server itself: a rank below a
/// lower aggregator reports there.
template <class Visit>
void each_rank(const Snapshot& snapshot, Visit&& visit) {
  for (const JobSnapshot& job : snapshot.jobs) {
    for (const server::SourceSnapshot& source : job.sources) {
      if (source.ranks.size() != 1) continue;
      visit(
          Labels{{"job", std::to_string(job.config.id)}, {"rank", std::to_string(source.ranks[0])}},
          source);
    }
  }
}

void add_silence(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family silent = gauge("tributary_rank_silent_seconds", "Time since the rank's last message.");
  each_rank(snapshot, [&silent](Labels rank, const server::SourceSnapshot& source) {
    // A rank that has left sends nothing more.
    if (source.state == server::SourceState::kLeft || !source.silent_for) return;
    silent.add(std::move(rank), in_seconds(*source.silent_for));
  });
  silent.move_to(families);
}

constexpr auto kWorkerColumns = std::to_array<Column<wire::WorkerReport>>(
    {{kCounter, "tributary_worker_blocks_total", "Results that the worker took.",
      [](const auto& totals) { return static_cast<double>(totals.blocks); }},
     {kCounter, "tributary_worker_degraded_blocks_total",
      "Results that lack some rank or are imprecise.",
      [](const auto& totals) { return static_cast<double>(totals.degraded); }},
     {kCounter, "tributary_worker_bytes_total", "Bytes of tensors in the results.",
      [](const auto& totals) { return static_cast<double>(totals.bytes); }},
     {kCounter, "tributary_worker_retransmissions_total",
      "Contributions that the worker sent again.",
      [](const auto& totals) { return static_cast<double>(totals.retransmitted); }},
     {kCounter, "tributary_worker_probes_total", "Questions that the worker asked.",
      [](const auto& totals) { return static_cast<double>(totals.probes); }},
     {kGauge, "tributary_worker_wait_seconds",
      "How long the worker's oldest block waits, from a second on; else 0, as without recent "
      "reports.",
      [](const auto& totals) { return in_seconds(milliseconds(totals.waited_ms)); }}});

/// Adds the workers' own counts. A worker whose reports have stopped has no known wait, so its wait
/// is 0.
void add_workers(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  std::vector<LabelledRow<wire::WorkerReport>> rows;
  each_rank(snapshot, [&](Labels rank, const server::SourceSnapshot& source) {
    if (!source.report) return;
    wire::WorkerReport totals = source.report->totals;
    if (!server::has_fresh_report(source, snapshot.at)) totals.waited_ms = 0;
    rows.push_back({std::move(rank), totals});
  });
  add_table(kWorkerColumns, rows, families);
}

constexpr auto kSessionColumns = std::to_array<Column<server::SessionSnapshot>>(
    {{kCounter, "tributary_session_packets_total", "Packets of the session.",
      [](const auto& session) { return static_cast<double>(session.packets); }},
     {kCounter, "tributary_session_slots_completed_total", "Results of the session.",
      [](const auto& session) { return static_cast<double>(session.slots_completed); }}});

/// Adds the sessions of SwitchML. The label `session` is a place of the server's table, because the
/// workers choose the ids.
void add_sessions(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  std::vector<LabelledRow<server::SessionSnapshot>> rows;
  Family silent = gauge("tributary_session_silent_seconds", "Time since the rank's last packet.");
  for (const server::SessionSnapshot& session : snapshot.sessions) {
    const Labels label{{"session", std::to_string(session.place)}};
    rows.push_back({label, session});
    for (uint32_t rank = 0; rank < session.silent_for.size(); rank++) {
      if (!session.silent_for[rank]) continue;
      silent.add({label[0], {"rank", std::to_string(rank)}}, in_seconds(*session.silent_for[rank]));
    }
  }
  add_table(kSessionColumns, rows, families);
  silent.move_to(families);
}

/// Adds the aggregators that this server knows as the directory of its jobs.
void add_directory(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family plans = counter("tributary_directory_plans_total", "Plans of the job's aggregators.");
  Family predicted = gauge("tributary_directory_predicted_seconds",
                           "Time of an all-reduce of 100 MB by the current plan.");
  Family answers = gauge("tributary_directory_aggregator_answers",
                         "1 if the aggregator answers and serves the job, else 0.");
  Family weight = gauge("tributary_directory_aggregator_weight",
                        "The aggregator's share in the current plan; 0: it has none.");
  for (const server::DirectoryJob& job : snapshot.directory) {
    const Labels label{{"job", std::to_string(job.job_id)}};
    plans.add(label, job.changes);
    predicted.add(label, job.predicted_s);
    for (const server::DirectoryAggregator& each : job.aggregators) {
      const Labels one{label[0], {"aggregator", each.name}};
      answers.add(one, each.answers ? 1.0 : 0.0);
      weight.add(one, uint64_t{each.weight});
    }
  }
  for (Family* family : {&plans, &predicted, &answers, &weight}) family->move_to(families);
}

/// Adds the state that a packet program holds.
void add_records(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family records = gauge("tributary_program_records", "State that the packet program holds.");
  for (const auto& [name, count] : snapshot.records) records.add({{"record", name}}, count);
  records.move_to(families);
}

/// @param state See server::RecordControl::state().
void add_recorder(const nlohmann::json& state, std::vector<MetricFamily>& families) {
  Family events = counter("tributary_recorder_events_total", "Events that the recorder took.");
  events.add({}, state.at("recorded").get<uint64_t>());
  Family lost = counter("tributary_recorder_events_lost_total",
                        "Events that a recording lacks: overwritten by later ones, or left out "
                        "because there were too many refusals.");
  for (const char* reason : {"overwritten", "left_out"}) {
    lost.add({{"reason", reason}}, state.at(reason).get<uint64_t>());
  }
  for (Family* family : {&events, &lost}) family->move_to(families);
}

/// @param stats See server::LogControl::stats().
void add_log(const nlohmann::ordered_json& stats, std::vector<MetricFamily>& families) {
  Family lines = counter("tributary_log_lines_total", "Lines written to the log.");
  lines.add({}, stats.at("lines").get<uint64_t>());
  Family lost = counter("tributary_log_lines_lost_total",
                        "Lines that the log lacks: suppressed by its limit, not taken by its file, "
                        "or of events that the cores could not note.");
  constexpr std::array<std::pair<const char*, const char*>, 3> kReasons{
      {{"suppressed", "lines_suppressed"}, {"file", "lines_lost"}, {"event", "events_lost"}}};
  for (const auto& [reason, key] : kReasons) {
    lost.add({{"reason", reason}}, stats.at(key).get<uint64_t>());
  }
  for (Family* family : {&lines, &lost}) family->move_to(families);
}

ClientMetric::Histogram histogram_of(const LatenessHistogram& lateness) {
  ClientMetric::Histogram histogram;
  histogram.sample_sum = lateness.sum_s;
  for (uint32_t i = 0; i < lateness.counts.size(); i++) {
    histogram.sample_count += lateness.counts[i];
    const double bound = i < kLatenessBounds.size() ? in_seconds(kLatenessBounds[i])
                                                    : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({.cumulative_count = histogram.sample_count, .upper_bound = bound});
  }
  return histogram;
}

void add_lateness(const History& history, std::vector<MetricFamily>& families) {
  MetricFamily family;
  family.type = MetricType::Histogram;
  family.name = "tributary_rank_lateness_seconds";
  family.help =
      "Each second: the time since the last contribution to the oldest block that lacks the rank; "
      "0 "
      "if none lacks it.";
  for (const JobHistory& job : history.jobs()) {
    for (const SourceHistory& source : job.sources) {
      if (source.ranks.size() != 1) continue;  // A lower aggregator knows which rank is late.
      ClientMetric metric;
      metric.label = {{"job", std::to_string(job.job)}, {"rank", std::to_string(source.ranks[0])}};
      metric.histogram = histogram_of(source.histogram);
      family.metric.push_back(std::move(metric));
    }
  }
  families.push_back(std::move(family));
}

void add_http(const GateCounters& counters, std::vector<MetricFamily>& families) {
  Family requests = counter("tributary_http_requests_total", "Requests over TCP, by their result.");
  for (uint32_t i = 0; i < counters.size(); i++) {
    requests.add({{"result", to_string(static_cast<GateResult>(i))}}, counters[i]);
  }
  requests.move_to(families);
}

void add_connections(const ConnectionCounters& counters, std::vector<MetricFamily>& families) {
  Family connections =
      counter("tributary_http_connections_total", "Connections over TCP, by their end.");
  for (uint32_t i = 0; i < counters.size(); i++) {
    connections.add({{"end", to_string(static_cast<ConnectionEnd>(i))}}, counters[i].load());
  }
  connections.move_to(families);
}

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  const Snapshot snapshot = snapshot_();
  std::vector<MetricFamily> families;
  add_server(snapshot, version_, families);
  add_table(kCoreColumns, rows_by_core(snapshot.cores), families);
  add_table(kPortColumns, rows_by_core(snapshot.ports), families);
  add_drops(snapshot, families);
  add_jobs(snapshot, families);
  add_silence(snapshot, families);
  add_workers(snapshot, families);
  add_sessions(snapshot, families);
  if (!snapshot.records.empty()) add_records(snapshot, families);
  if (!snapshot.directory.empty()) add_directory(snapshot, families);
  if (sources_.history != nullptr) add_lateness(*sources_.history, families);
  if (sources_.http_counters) add_http(sources_.http_counters(), families);
  if (sources_.connections != nullptr) add_connections(*sources_.connections, families);
  if (sources_.recorder != nullptr) add_recorder(sources_.recorder->state(), families);
  if (sources_.log != nullptr) add_log(sources_.log->stats(), families);
  return families;
}

std::string metrics_text(const prometheus::Collectable& metrics) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics.Collect());
  return text.str();
}

}  // namespace tributary::control
