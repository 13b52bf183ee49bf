// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "base/assert.h"
#include "base/cpus.h"
#include "base/result_file.h"
#include "cli/console.h"
#include "cli/ending_signals.h"
#include "cli/serve/second_signal.h"
#include "cli/serve/serve_service.h"
#include "cli/settings.h"

namespace tributary::cli {
namespace {

using server::LogLevel;

void warn(const Service& service, const std::string& text) {
  say(service, LogLevel::kWarn, "warning", {{"text", text}}, "warning: " + text);
}

sigset_t awaited_signals() {
  sigset_t set = ending_signals();
  // A blocked signal would reach the main thread even if nohup has set it to be ignored.
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  return set;
}

bool write_stats(const Service& service) {
  if (service.json_path.empty()) return true;
  const auto written = write_result_file(service.json_path, service.stats().dump(2) + "\n");
  if (!written) {
    say(service, LogLevel::kError, "report_failed", {{"error", written.error().text}},
        "--json " + written.error().text);
  }
  return written.has_value();
}

/// Waits for a signal, or returns the one that came while the cores were asked for something.
/// @return a negative number if none came.
int wait_for_signal(const Service& service, const timespec* pause) {
  const sigset_t signals = awaited_signals();
  if (!service.late_core) return sigtimedwait(&signals, nullptr, pause);
  SecondSignal::block();
  const int signal = SecondSignal::has_come() ? SIGTERM : sigtimedwait(&signals, nullptr, pause);
  if (signal == SIGINT || signal == SIGTERM || (signal == SIGHUP && !service.reload)) {
    SecondSignal::note();
  }
  SecondSignal::unblock();
  return signal;
}

/// Waits for a signal. Writes the counters if it is SIGUSR1, writes a recording if it is SIGUSR2,
/// and reloads if it is SIGHUP.
/// @param pause Longest wait; null: no limit.
/// @return whether a signal came that ends the server.
bool take_ending_signal(const Service& service, const timespec* pause) {
  const int signal = wait_for_signal(service, pause);
  if (signal == SIGUSR1) write_stats(service);
  if (signal == SIGUSR2 && service.record) service.record();
  if (signal == SIGUSR2 && !service.record) {
    const char* const text = "SIGUSR2: this server has no flight recorder";
    say(service, LogLevel::kWarn, "warning", {{"text", text}}, text);
  }
  if (signal == SIGHUP && service.reload) {
    service.reload();
    return false;
  }
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

/// Waits until all workers have left, a signal comes, or the time to linger has passed.
void linger(const Service& service) {
  constexpr int64_t kAskEveryNs = 20'000'000;
  constexpr uint32_t kAsksPerSecond = 50;
  const timespec pause{.tv_sec = 0, .tv_nsec = kAskEveryNs};
  if (service.linger_s > 0 && service.is_in_use()) {
    say(service, LogLevel::kInfo, "leaving", {{"linger_s", service.linger_s}},
        fmt::format("waiting up to {} s for workers to leave; a second signal ends at once",
                    service.linger_s));
  }
  for (uint64_t asks = uint64_t{service.linger_s} * kAsksPerSecond; asks > 0; asks--) {
    if (!service.is_in_use() || take_ending_signal(service, &pause)) return;
  }
}

/// Returns the longest wait for a signal; null: no limit.
const timespec* pause_of(const Service& service, const ServiceReports& reports) {
  static constexpr timespec kTick{.tv_sec = 1, .tv_nsec = 0};
  const timespec* const report = reports.pause();
  if (!service.tick || (report != nullptr && report->tv_sec < kTick.tv_sec)) return report;
  return &kTick;
}

}  // namespace

void block_awaited_signals() {
  const sigset_t signals = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void say(const Service& service, LogLevel level, const char* event, const server::LogFields& fields,
         const std::string& text) {
  if (service.log->format() == server::LogFormat::kJson) {
    service.log->write(level, event, fields);
  } else {
    print_error("{}: {}\n", service.title, text);
  }
}

int serve(const Service& service) {
  TRIB_ASSERT(service.log != nullptr);
  auto manager = server::ServiceManager::from_environment();
  if (!manager) return refuse(service.title, manager.error());
  if (!write_stats(service)) return kExitUsage;
  for (const std::string& warning : service.warnings) warn(service, warning);
  if (service.log->takes(LogLevel::kInfo)) {
    say(service, LogLevel::kInfo, "serving", {{"what", service.what}, {"cores", service.cores}},
        fmt::format("{}, {} {}", service.what, service.cores,
                    service.cores == 1 ? "core" : "cores"));
  }
  service.on_ready();
  // Programs wait for this line, so do not serve without it.
  print("ready\n");
  if (std::fflush(stdout) != 0) return 1;  // The end of the program says why.
  take_short_slices();                     // The cores have started: they keep their own.
  ServiceReports reports(
      *std::move(manager), [&service](const std::string& text) { warn(service, text); },
      service.status);

  std::optional<SecondSignal> second_signal;
  if (service.late_core) {
    second_signal.emplace(service.title, service.program, service.late_core);
    SecondSignal::unblock();
  }
  const timespec* const pause = pause_of(service, reports);
  while (!take_ending_signal(service, pause)) {
    if (service.tick) service.tick();
    reports.report();
  }
  reports.report_end(seconds(service.linger_s));
  service.begin_end();
  linger(service);
  service.stop();
  if (service.tick) service.tick();
  return write_stats(service) ? 0 : 1;
}

int refuse(const std::string& title, const Error& error) {
  print_error("{}: {}\n", title, error.text);
  return error.kind == ErrorKind::kPassing ? 1 : kExitUsage;
}

}  // namespace tributary::cli
