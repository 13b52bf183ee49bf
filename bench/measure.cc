// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>

#include "base/assert.h"

namespace tributary::bench {

double thread_cpu_s() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

double quantile(std::vector<double> values, double part) {
  TRIB_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
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
