// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>

#include "base/fnv.h"

namespace tributary::race {
namespace {

int64_t nanoseconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void pause(uint32_t milliseconds) {
  const timespec length{static_cast<time_t>(milliseconds / 1000),
                        static_cast<long>(milliseconds % 1000) * 1'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
}

/// The tensors of a lap and their results.
class Laps {
 public:
  /// @param halves  Not null: reduces the tensors as float16.
  Laps(const ClientConfig& config, const Reduce& reduce, const ReduceHalves& halves,
       const Tolerance& tolerance)
      : config_(config),
        reduce_(reduce),
        reduce_halves_(halves),
        tolerance_(tolerance),
        halves_(halves ? config.reductions : 0,
                std::vector<uint16_t>(config.bytes / sizeof(float))),
        tensors_(config.reductions, std::vector<float>(config.bytes / sizeof(float))),
        partial_(config.reductions) {}

  void fill_all() {
    for (uint32_t i = 0; i < tensors_.size(); i++) {
      fill(tensors_[i], config_.rank, reductions_done_ + i);
    }
    for (size_t i = 0; i < halves_.size(); i++) to_halves(tensors_[i], halves_[i]);
  }

  /// Runs a lap and measures it. The first lap is a warm-up without delay.
  Result<LapReport> run() {
    const bool late = reductions_done_ > 0 && config_.rank + 1 == config_.workers;
    if (late && config_.pause_ms > 0) pause(config_.pause_ms);
    LapReport report;
    const InterfaceBytes before = interface_bytes(config_.interface);
    report.cpu_ns = -nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
    report.start_ns = nanoseconds_of(CLOCK_MONOTONIC);
    for (uint32_t i = 0; i < tensors_.size(); i++) {
      auto done = halves_.empty() ? reduce_(tensors_[i]) : reduce_halves_(halves_[i]);
      if (!done) return tl::unexpected(done.error());
      partial_[i] = std::move(*done);
    }
    report.end_ns = nanoseconds_of(CLOCK_MONOTONIC);
    report.cpu_ns += nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const InterfaceBytes after = interface_bytes(config_.interface);
    report.rx_bytes = after.rx - before.rx;
    report.tx_bytes = after.tx - before.tx;
    return report;
  }

  /// Compares the lap's results with the expected sums.
  void check(LapReport& report) {
    report.digest = kFnvStart;
    for (size_t i = 0; i < halves_.size(); i++) from_halves(halves_[i], tensors_[i]);
    for (uint32_t i = 0; i < tensors_.size(); i++) {
      report.wrong +=
          count_wrong(tensors_[i], config_.workers, reductions_done_ + i, partial_[i], tolerance_);
      for (const PartialSum& part : partial_[i]) report.partial += part.element_count;
      report.digest = fnv_bytes(report.digest, std::as_bytes(std::span(tensors_[i])));
    }
    reductions_done_ += config_.reductions;
  }

 private:
  const ClientConfig& config_;
  const Reduce& reduce_;
  const ReduceHalves& reduce_halves_;
  const Tolerance tolerance_;
  std::vector<std::vector<uint16_t>> halves_;  ///< Like tensors_; empty without float16.
  std::vector<std::vector<float>> tensors_;    ///< Shape [reductions][bytes / 4].
  std::vector<std::vector<PartialSum>> partial_;
  uint32_t reductions_done_ = 0;
};

Result<void> run_until_end(LineSocket& control, Laps& laps) {
  while (true) {
    laps.fill_all();
    if (auto said = control.send_line("ready"); !said) return said;
    const auto word = control.read_line();
    if (!word) return tl::unexpected(word.error());
    if (*word == "end") return {};
    auto report = laps.run();
    if (!report) {
      static_cast<void>(control.send_line("failed " + report.error().text));
      return tl::unexpected(report.error());
    }
    if (auto said = control.send_line("measured"); !said) return said;
    if (const auto asked = control.read_line(); !asked) return tl::unexpected(asked.error());
    laps.check(*report);
    if (auto said = control.send_line(encode(*report)); !said) return said;
  }
}

Result<void> run_any(const ClientConfig& config, const Reduce& reduce, const ReduceHalves& halves,
                     const Tolerance& tolerance) {
  auto control = LineSocket::connect(config.control);
  if (!control) return tl::unexpected(control.error());
  if (auto said = control->send_line(fmt::format("hello {}", config.rank)); !said) return said;
  Laps laps(config, reduce, halves, tolerance);
  return run_until_end(*control, laps);
}

}  // namespace

void add_client_options(CLI::App& command, ClientConfig& config) {
  command.add_option("--control", config.control)->required();
  command.add_option("--rank", config.rank)->check(CLI::Range(0U, kWorkersMax - 1));
  command.add_option("--workers", config.workers)->check(CLI::Range(1U, kWorkersMax));
  command.add_option("--bytes", config.bytes);
  command.add_option("--reductions", config.reductions)->check(CLI::Range(1U, 1000U));
  command.add_option("--pause-ms", config.pause_ms);
  command.add_option("--interface", config.interface);
  command.add_option("--server", config.server);
  command.add_option("--scratch", config.scratch);
  command.add_option("--algorithm", config.algorithm);
  command.add_option("--netns-prefix", config.netns_prefix);
  command.add_option("--port", config.port);
  command.add_option("--local-server", config.local_server);
  command.add_option("--wire", config.wire)->check(CLI::IsMember({16U, 32U}));
  command.add_option("--loss", config.loss)->check(CLI::Range(0.0, 1.0));
}

std::vector<std::string> to_arguments(const ClientConfig& config, bool rank_known) {
  std::vector<std::string> arguments{"--control",    config.control,
                                     "--workers",    std::to_string(config.workers),
                                     "--bytes",      std::to_string(config.bytes),
                                     "--reductions", std::to_string(config.reductions),
                                     "--pause-ms",   std::to_string(config.pause_ms),
                                     "--interface",  config.interface,
                                     "--wire",       std::to_string(config.wire),
                                     "--loss",       fmt::format("{}", config.loss)};
  const auto add = [&arguments](const char* flag, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
  };
  if (!rank_known) add("--rank", std::to_string(config.rank));
  for (const std::string& server : config.server) add("--server", server);
  add("--scratch", config.scratch);
  add("--algorithm", config.algorithm);
  add("--netns-prefix", config.netns_prefix);
  add("--port", config.port);
  add("--local-server", config.local_server);
  return arguments;
}

Result<void> run_laps(const ClientConfig& config, const Reduce& reduce,
                      const Tolerance& tolerance) {
  return run_any(config, reduce, {}, tolerance);
}

Result<void> run_half_laps(const ClientConfig& config, const ReduceHalves& reduce) {
  // A value rounds by 2^-11 of itself, and so does each of the sums that it is a part of.
  return run_any(config, {}, reduce, {.of_sum = config.workers * 0x1p-11});
}

Result<void> enter_network(const std::string& name) {
  const std::string path = "/run/netns/" + name;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = file >= 0 && setns(file, CLONE_NEWNET) == 0;
  const int reason = errno;
  if (file >= 0) close(file);
  if (entered) return {};
  return failure(fmt::format("network namespace {}: {}", name, std::strerror(reason)));
}

InterfaceBytes interface_bytes_in(const std::string& text, const std::string& interface) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    const size_t begin = line.find_first_not_of(' ');
    if (colon == std::string::npos || line.substr(begin, colon - begin) != interface) continue;
    // Received bytes are the first number, sent bytes the ninth. Source: Linux, proc(5).
    std::istringstream numbers(line.substr(colon + 1));
    InterfaceBytes bytes;
    numbers >> bytes.rx;
    uint64_t skipped = 0;
    for (uint32_t i = 0; i < 7; i++) numbers >> skipped;
    numbers >> bytes.tx;
    return numbers ? bytes : InterfaceBytes{};
  }
  return {};
}

InterfaceBytes interface_bytes(const std::string& interface) {
  std::ifstream file("/proc/self/net/dev");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return interface_bytes_in(text, interface);
}

}  // namespace tributary::race
