// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "base/assert.h"

namespace tributary::bench {

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
  std::error_code error;
  std::string name = std::filesystem::temp_directory_path(error) / "tributary-XXXXXX";
  if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace tributary::bench
