// SPDX-License-Identifier: Apache-2.0
#include "base/cpus.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/number_text.h"

namespace tributary {
namespace {

/// The shortest slice that Linux grants. Source: kernel/sched/syscalls.c of Linux 6.12.
constexpr uint64_t kShortSliceNs = 100'000;

/// As struct sched_attr of Linux, which libraries and kernel headers define in conflicting ways.
struct SchedulingTerms {
  uint32_t size_bytes;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t slice_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};
static_assert(sizeof(SchedulingTerms) == 48);  // SCHED_ATTR_SIZE_VER0.

struct Range {
  int first = 0;
  int last = 0;
};

/// Reads "3" or "3-5".
std::optional<Range> read_range(std::string_view text) {
  const size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_number<int>(text.substr(0, dash));
  const auto last = dash == text.size() ? first : parse_number<int>(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last >= CPU_SETSIZE) return {};
  return Range{.first = *first, .last = *last};
}

std::string text_of(std::span<const int> cpus) {
  std::string text;
  for (const int cpu : cpus) text += fmt::format("{}{}", text.empty() ? "" : ", ", cpu);
  return text;
}

}  // namespace

std::vector<int> cpus_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

Result<std::vector<int>> parse_cpus(std::string_view list, std::span<const int> allowed) {
  const auto refused = [&](std::string_view part, const char* problem) {
    return failure(fmt::format("'{}' {}; allowed: a list such as 0-2,5 of the CPUs {}", part,
                               problem, text_of(allowed)));
  };
  std::vector<int> cpus;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view part = list.substr(begin, end - begin);
    const auto range = read_range(part);
    if (!range) return refused(part, "is not a CPU or a range of CPUs");
    for (int cpu = range->first; cpu <= range->last; cpu++) {
      if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
        return refused(part, "has a CPU on which this process may not run");
      }
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) {
        return refused(part, "has a CPU that the list has already");
      }
      cpus.push_back(cpu);
    }
    begin = end + 1;
  }
  return cpus;
}

void pin_to_cpus(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void take_short_slices() {
  SchedulingTerms terms{};
  if (syscall(SYS_sched_getattr, 0, &terms, sizeof terms, 0) != 0) return;
  if (terms.policy != SCHED_OTHER) return;
  terms.size_bytes = sizeof terms;
  terms.slice_ns = kShortSliceNs;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &terms, 0));
}

Duration thread_cpu_time() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return seconds(spent.tv_sec) + nanoseconds(spent.tv_nsec);
}

}  // namespace tributary
