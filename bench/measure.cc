// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "base/assert.h"

namespace tributary::bench {

double thread_cpu_s() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

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

void pin_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

double quantile(std::vector<double> values, double part) {
  TRIB_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

std::string text_of(const std::filesystem::path& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();  // Unlike stream iterators, this does not throw on a failed read.
  return text.str();
}

ScratchFolder::ScratchFolder() {
  std::string name = std::filesystem::temp_directory_path() / "tributary-bench-XXXXXX";
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace tributary::bench
