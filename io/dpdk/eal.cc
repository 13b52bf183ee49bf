// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/eal.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/errno_text.h"

namespace tributary::io {
namespace {

/// Keeps the first line that DPDK logged at level "error" since the last take(). The first line
/// names the cause; later lines report its effects. Any DPDK thread may write.
class Complaints {
 public:
  void write(std::string_view text) {
    const std::lock_guard lock(mutex_);
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    if (first_.empty()) first_ = text.substr(0, kBytesMax);
  }
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(first_, {});
  }

 private:
  static constexpr size_t kBytesMax = 300;
  std::mutex mutex_;
  std::string first_;
};

Complaints& complaints() {
  static Complaints all;
  return all;
}

ssize_t write_log(void*, const char* text, size_t size) {
  complaints().write({text, size});
  return static_cast<ssize_t>(size);
}

/// Redirects DPDK's log to a stream of our own, because its notices would fill the terminal.
void open_log() {
  cookie_io_functions_t functions{};
  functions.write = write_log;
  FILE* stream = fopencookie(nullptr, "w", functions);
  if (stream == nullptr) return;
  std::setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  rte_openlog_stream(stream);
}

struct EalState {
  std::mutex mutex;
  std::optional<Result<void>> result;
  std::vector<std::string> pci;
};

EalState& started() {
  static EalState state;
  return state;
}

Result<void> initialise(const EalConfig& config) {
  open_log();
  std::signal(SIGPIPE, SIG_IGN);
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  sched_getaffinity(0, sizeof affinity, &affinity);
  int core = 0;
  while (core + 1 < CPU_SETSIZE && !CPU_ISSET(core, &affinity)) core++;

  // EAL gets only one core, because the engine starts its own threads.
  std::vector<std::string> words{"tributary",          "-l",
                                 std::to_string(core), "--no-shconf",
                                 "--no-telemetry",     "--single-file-segments",
                                 "--log-level=*:error"};
  if (config.hugepages) {
    words.insert(words.end(), {"--in-memory", "--iova-mode=va"});
  } else {
    words.insert(words.end(), {"--no-huge", "-m", std::to_string(config.memory_mb)});
  }
  if (config.pci.empty()) words.emplace_back("--no-pci");
  for (const std::string& card : config.pci) words.insert(words.end(), {"-a", card});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());

  const int status = rte_eal_init(static_cast<int>(arguments.size()), arguments.data());
  sched_setaffinity(0, sizeof affinity, &affinity);
  if (status >= 0) return {};
  const std::string complaint = take_dpdk_complaint();
  return failure(fmt::format("DPDK does not start: {}",
                             complaint.empty() ? rte_strerror(rte_errno) : complaint),
                 errno_kind(rte_errno));
}

/// Registers the thread with DPDK until the thread ends.
struct Registration {
  Registration() : done(rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0) {}
  ~Registration() {
    if (done) rte_thread_unregister();
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  bool done;
};

}  // namespace

Result<void> start_eal(const EalConfig& config) {
  EalState& state = started();
  const std::lock_guard lock(state.mutex);
  if (!state.result) {
    state.result = initialise(config);
    state.pci = config.pci;
  }
  if (!*state.result) return *state.result;
  for (const std::string& card : config.pci) {
    if (std::find(state.pci.begin(), state.pci.end(), card) == state.pci.end()) {
      return failure(fmt::format("{}: DPDK already runs in this process, without this card", card));
    }
  }
  return {};
}

std::string take_dpdk_complaint() { return complaints().take(); }

void register_dpdk_thread() { static thread_local const Registration registration; }

}  // namespace tributary::io
