// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace tributary::lab {

uint32_t launched_count() {
  uint32_t count = 1;
  for (const char* name : std::array{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    uint32_t value = 0;
    const std::string_view view(text);
    std::from_chars(view.data(), view.data() + view.size(), value);
    count = std::max(count, value);
  }
  return count;
}

}  // namespace tributary::lab
