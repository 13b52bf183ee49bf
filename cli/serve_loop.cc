// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_loop.h"

#include <pthread.h>

#include <csignal>
#include <cstdio>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/serve_service.h"
#include "cli/settings.h"

namespace tributary::cli {
namespace {

/// Returns the signals that end the server or ask for a file.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // A blocked signal would reach the main thread even if nohup has set it to be ignored.
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  return set;
}

bool write_stats(const std::function<nlohmann::json()>& stats, const std::string& path) {
  if (path.empty()) return true;
  const auto written = write_result_file(path, stats().dump(2) + "\n");
  if (!written) print_error("tributary serve: --json {}\n", written.error().text);
  return written.has_value();
}

/// Waits for a signal. Writes the counters if it is SIGUSR1, writes a recording if it is SIGUSR2, and
/// reloads if it is SIGHUP.
/// @param pause Longest wait; null: no limit.
/// @return whether a signal came that ends the server.
bool take_ending_signal(const ServeLoopFlags& flags, const Service& service,
                        const timespec* pause) {
  const sigset_t signals = awaited_signals();
  const int signal = sigtimedwait(&signals, nullptr, pause);
  if (signal == SIGUSR1) write_stats(service.stats, flags.json_path);
  if (signal == SIGUSR2 && service.record) service.record();
  if (signal == SIGUSR2 && !service.record) {
    print_error("tributary serve: SIGUSR2: this server has no flight recorder\n");
  }
  if (signal == SIGHUP && service.reload) {
    service.reload();
    return false;
  }
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

/// Waits until all workers have left, a signal comes, or --linger-s have passed.
void linger(const ServeLoopFlags& flags, const Service& service) {
  constexpr int64_t kAskEveryNs = 20'000'000;
  constexpr uint32_t kAsksPerSecond = 50;
  const timespec pause{.tv_sec = 0, .tv_nsec = kAskEveryNs};
  if (flags.linger_s > 0 && service.is_in_use()) {
    print_error(
        "tributary serve: waiting up to {} s for workers to leave; a second signal ends at once\n",
        flags.linger_s);
  }
  for (uint64_t asks = uint64_t{flags.linger_s} * kAsksPerSecond; asks > 0; asks--) {
    if (!service.is_in_use() || take_ending_signal(flags, service, &pause)) return;
  }
}

}  // namespace

void block_awaited_signals() {
  const sigset_t signals = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int refuse(const Error& error) {
  print_error("tributary serve: {}\n", error.text);
  return kExitUsage;
}

int serve(const ServeLoopFlags& flags, const Service& service) {
  const auto& stats = service.stats;
  auto manager = server::ServiceManager::from_environment();
  if (!manager) return refuse(manager.error());
  if (!write_stats(stats, flags.json_path)) return kExitUsage;
  for (const std::string& warning : service.warnings) {
    print_error("tributary serve: warning: {}\n", warning);
  }
  if (flags.log_level >= server::LogLevel::kInfo) {
    print_error("tributary serve: {}, {} cores\n", service.what, service.cores);
  }
  service.on_ready();
  // Programs wait for this line, so do not serve without it.
  print("ready\n");
  if (std::fflush(stdout) != 0) return end_output(1);
  ServiceReports reports(*std::move(manager), service.status);

  while (!take_ending_signal(flags, service, reports.pause())) reports.report();
  reports.report_end(seconds(flags.linger_s));
  service.begin_end();
  linger(flags, service);
  service.stop();
  return write_stats(stats, flags.json_path) ? 0 : 1;
}

}  // namespace tributary::cli
