// SPDX-License-Identifier: Apache-2.0
#include "lab/report/warning_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tributary::lab {
namespace {

/// Replaces each number of a text by "#".
std::string without_numbers(const std::string& text) {
  std::string without;
  for (size_t i = 0; i < text.size(); i++) {
    const auto is_digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (!is_digit(i)) {
      without += text[i];
      continue;
    }
    without += '#';
    while (is_digit(i + 1) || (text[i + 1] == '.' && is_digit(i + 2))) i++;
  }
  return without;
}

}  // namespace

void WarningKinds::add_run(const std::string& label, std::span<const std::string> warnings) {
  if (!warnings.empty()) runs_++;
  for (const std::string& warning : warnings) {
    std::string text = without_numbers(warning);
    const auto known = std::find(texts_.begin(), texts_.end(), text);
    if (known != texts_.end()) {
      kinds_[static_cast<size_t>(known - texts_.begin())].count++;
      continue;
    }
    texts_.push_back(std::move(text));
    kinds_.push_back({.first = fmt::format("{}: {}", label, warning), .count = 1});
  }
}

}  // namespace tributary::lab
