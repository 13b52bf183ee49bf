// SPDX-License-Identifier: Apache-2.0
#include "server/control/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <utility>

#include "server/control/who.h"

namespace tributary::control {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using server::JobSnapshot;
using server::Snapshot;
using trio_ml::Outcome;

using Labels = std::vector<ClientMetric::Label>;

/// A family that is being filled.
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
  void move_to(std::vector<MetricFamily>& families) { families.push_back(std::move(family_)); }

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
  for (uint32_t i = 0; i < trio_ml::kOutcomeCount; i++) {
    const auto outcome = static_cast<Outcome>(i);
    const bool refusal = is_refusal(outcome);
    (refusal ? refused : events)
        .add({{refusal ? "reason" : "event", to_string(outcome)}}, snapshot.counters[i].packets);
  }
  for (Family* family : {&build, &uptime, &events, &refused}) family->move_to(families);
}

void add_cores(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family cpu = counter("tributary_core_cpu_seconds_total", "CPU time of the core's thread.");
  Family packets = counter("tributary_core_packets_total", "Packets that the core processed.");
  for (uint32_t i = 0; i < snapshot.cores.size(); i++) {
    const Labels core{{"core", std::to_string(i)}};
    cpu.add(core, in_seconds(snapshot.cores[i].cpu));
    packets.add(core, snapshot.cores[i].counters.packets);
  }
  for (Family* family : {&cpu, &packets}) family->move_to(families);
}

void add_ports(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family rx_packets = counter("tributary_port_receive_packets_total", "Packets received.");
  Family rx_bytes = counter("tributary_port_receive_bytes_total", "Bytes received.");
  Family tx_packets = counter("tributary_port_transmit_packets_total", "Packets sent.");
  Family tx_bytes = counter("tributary_port_transmit_bytes_total", "Bytes sent.");
  Family dropped = counter("tributary_dropped_packets_total",
                           "Packets that the server lost, by the place of the loss.");
  for (uint32_t i = 0; i < snapshot.ports.size(); i++) {
    const engine::PortCounters& port = snapshot.ports[i];
    const std::string core = std::to_string(i);
    rx_packets.add({{"core", core}}, port.rx_packets);
    rx_bytes.add({{"core", core}}, port.rx_bytes);
    tx_packets.add({{"core", core}}, port.tx_packets);
    tx_bytes.add({{"core", core}}, port.tx_bytes);
    for (const server::Drop& drop : snapshot.drops_at(i)) {
      if (drop.packets) dropped.add({{"core", core}, {"reason", drop.reason}}, *drop.packets);
    }
  }
  for (Family* family : {&rx_packets, &rx_bytes, &tx_packets, &tx_bytes, &dropped}) {
    family->move_to(families);
  }
}

/// Returns the longest time since the last contribution to a block in progress.
Duration longest_wait(const JobSnapshot& job, Instant now) {
  return job.blocks.empty() ? Duration() : now - job.blocks.front().referenced_at;
}

void add_jobs(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family blocks = counter("tributary_job_blocks_total", "Results of the job.");
  Family degraded = counter("tributary_job_degraded_blocks_total",
                            "Results of the job that lack some source's contribution.");
  Family in_progress = gauge("tributary_job_blocks_in_progress", "Blocks that wait for a source.");
  Family oldest = gauge("tributary_job_block_wait_seconds",
                        "Longest time since the last contribution to a block in progress.");
  Family memory = gauge("tributary_job_memory_bytes", "Shared memory of the job.");
  Family sources = gauge("tributary_job_sources", "Sources that the job is configured for.");
  Family members = gauge("tributary_job_members", "Sources that take part in the session.");
  Family waits = gauge("tributary_job_waits", "Ranks that tributary who names.");
  Family silent = gauge("tributary_rank_silent_seconds", "Time since the rank's last message.");
  const std::vector<Wait> all_waits = find_waits(snapshot);
  for (const JobSnapshot& job : snapshot.jobs) {
    const Labels label{{"job", std::to_string(job.config.id)}};
    blocks.add(label, job.blocks_total);
    degraded.add(label, job.blocks_degraded);
    in_progress.add(label, job.blocks_in_progress);
    oldest.add(label, in_seconds(longest_wait(job, snapshot.at)));
    memory.add(label, job.memory_bytes);
    sources.add(label, uint64_t{job.config.sources});
    const auto is_member = [](const auto& s) { return s.state == server::SourceState::kMember; };
    members.add(label, static_cast<uint64_t>(std::ranges::count_if(job.sources, is_member)));
    const auto is_of_job = [&job](const Wait& wait) { return wait.job == job.config.id; };
    waits.add(label, static_cast<uint64_t>(std::ranges::count_if(all_waits, is_of_job)));
    for (const server::SourceSnapshot& source : job.sources) {
      if (!source.silent_for || source.ranks.size() != 1) continue;
      silent.add({label[0], {"rank", std::to_string(source.ranks[0])}},
                 in_seconds(*source.silent_for));
    }
  }
  for (Family* family :
       {&blocks, &degraded, &in_progress, &oldest, &memory, &sources, &members, &waits, &silent}) {
    family->move_to(families);
  }
}

/// Adds the workers' own counts, for ranks that report here: a rank below a lower aggregator reports
/// there.
void add_workers(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family blocks = counter("tributary_worker_blocks_total", "Results that the worker took.");
  Family degraded = counter("tributary_worker_degraded_blocks_total",
                            "Results that lack some rank or are imprecise.");
  Family bytes = counter("tributary_worker_bytes_total", "Bytes of tensors in the results.");
  Family resent = counter("tributary_worker_retransmissions_total",
                          "Contributions that the worker sent again.");
  Family probes = counter("tributary_worker_probes_total", "Questions that the worker asked.");
  Family wait = gauge("tributary_worker_wait_seconds",
                      "How long the worker's oldest block waits, from a second on; else 0.");
  for (const JobSnapshot& job : snapshot.jobs) {
    for (const server::SourceSnapshot& source : job.sources) {
      if (!source.report || source.ranks.size() != 1) continue;
      const wire::WorkerReport& totals = source.report->totals;
      const Labels rank{{"job", std::to_string(job.config.id)},
                        {"rank", std::to_string(source.ranks[0])}};
      blocks.add(rank, totals.blocks);
      degraded.add(rank, totals.degraded);
      bytes.add(rank, totals.bytes);
      resent.add(rank, totals.retransmitted);
      probes.add(rank, totals.probes);
      wait.add(rank, in_seconds(milliseconds(totals.waited_ms)));
    }
  }
  for (Family* family : {&blocks, &degraded, &bytes, &resent, &probes, &wait}) {
    family->move_to(families);
  }
}

/// Adds the aggregators that this server knows as the directory of its jobs.
void add_directory(const Snapshot& snapshot, std::vector<MetricFamily>& families) {
  Family plans = counter("tributary_directory_plans_total", "Plans of the job's aggregators.");
  Family predicted = gauge("tributary_directory_predicted_seconds",
                           "Time of an all-reduce of --bytes by the current plan.");
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

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  const Snapshot snapshot = snapshot_();
  std::vector<MetricFamily> families;
  add_server(snapshot, version_, families);
  add_cores(snapshot, families);
  add_ports(snapshot, families);
  add_jobs(snapshot, families);
  add_workers(snapshot, families);
  if (!snapshot.directory.empty()) add_directory(snapshot, families);
  if (sources_.history != nullptr) add_lateness(*sources_.history, families);
  if (sources_.http_counters) add_http(sources_.http_counters(), families);
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
