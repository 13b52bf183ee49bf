// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/demo_worker.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "cli/console.h"
#include "cli/demo/sum_ledger.h"
#include "cli/demo/train_worker.h"
#include "cli/demo/worker_messages.h"
#include "host/communicator.h"
#include "host/straggler_pattern.h"
#include "io/faults/impaired_port.h"
#include "io/udp/udp_port.h"
#include "lab/training/corpus.h"

namespace tributary::demo {
namespace {

/// Examples for the final loss.
constexpr uint32_t kValidationExamples = 2048;

void say(const WorkerMessage& message) {
  cli::print("{}\n", encode(message));
  std::fflush(stdout);
}

/// Opens a socket to the aggregator that loses packets as configured.
Result<std::unique_ptr<engine::Port>> open_port(const DemoWorkerConfig& config,
                                                const Endpoint& server) {
  io::UdpPortConfig udp;
  udp.peer = server;
  auto port = io::UdpPort::open(udp);
  if (!port) return tl::unexpected(port.error());
  if (config.loss == 0.0) return std::move(*port);
  io::ImpairmentConfig impairment;
  impairment.rx.loss = config.loss;
  impairment.tx.loss = config.loss;
  impairment.seed = config.seed * 256 + config.rank;  // Each worker loses different packets.
  auto impaired = io::ImpairedPort::make(std::move(*port), impairment);
  if (!impaired) return tl::unexpected(impaired.error());
  return std::move(*impaired);
}

Result<std::unique_ptr<host::Communicator>> join(const DemoWorkerConfig& config) {
  const auto server = Endpoint::parse(config.server);
  if (!server) return tl::unexpected(server.error());
  auto port = open_port(config, *server);
  if (!port) return tl::unexpected(port.error());
  host::CommunicatorConfig joining;
  joining.server = *server;
  joining.job_id = static_cast<uint8_t>(config.job_id);
  joining.rank = config.rank;
  joining.world = config.world;
  joining.gradients = config.gradients;
  joining.window = config.window;
  joining.deadline = seconds(config.deadline_s);
  return host::Communicator::join(joining, std::move(*port));
}

TrainConfig train_config(const DemoWorkerConfig& config) {
  return {.shape = {},
          .adam = {},
          .world = config.world,
          .rank = config.rank,
          .batch = config.batch,
          .seed = config.seed};
}

Result<void> train_and_report(const DemoWorkerConfig& config) {
  const TrainConfig training = train_config(config);
  const auto corpus = lab::Corpus::load(config.corpus);
  if (!corpus) return tl::unexpected(corpus.error());
  auto ledger = SumLedger::open(config.ledger,
                                {config.world, kLedgerDepth, training.shape.parameter_count()});
  if (!ledger) return tl::unexpected(ledger.error());
  TrainWorker worker(training, *corpus, *ledger);
  auto communicator = join(config);
  if (!communicator) return tl::unexpected(communicator.error());
  say(WorkerJoined{config.rank});

  const host::SlowWorkerPattern pattern(config.slow_probability,
                                        milliseconds(config.slow_typical_ms), config.seed);
  const host::AllReduceOptions options{.op = host::ReduceOp::kMean,
                                       .format = host::FloatFormat::kFixedScale,
                                       .scale = training.scale};
  const TrainHooks hooks{
      .all_reduce =
          [&](std::span<float> tensor) { return (*communicator)->all_reduce(tensor, options); },
      .now = monotonic_now,
      .delay_at = [&pattern](uint64_t delay_point) { return pattern.delay_at(delay_point); },
      .sleep =
          [](Duration delay) {
            std::this_thread::sleep_for(std::chrono::nanoseconds(in_nanoseconds(delay)));
          },
      .report = [](const IterationRecord& record) { say(record); }};
  if (auto trained = train(worker, config.iterations, hooks); !trained) return trained;
  const host::CommunicatorCounters counters = (*communicator)->counters();
  (*communicator)->close();
  say(WorkerReport{.rank = config.rank,
                   .parameter_checksum = worker.checksum(),
                   .validation_loss = worker.validation_loss(kValidationExamples),
                   .late_iterations = worker.late_iterations(),
                   .sums = worker.sums(),
                   .counters = counters});
  return {};
}

}  // namespace

int run_demo_worker(const DemoWorkerConfig& config) {
  const auto done = train_and_report(config);
  if (done) return 0;
  cli::print_error("rank {}: {}\n", config.rank, done.error().text);
  return 1;
}

}  // namespace tributary::demo
