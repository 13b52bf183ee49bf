// SPDX-License-Identifier: Apache-2.0
#include "base/text_table.h"

#include <algorithm>

namespace tributary {
namespace {

/// Returns the number of letters on a terminal: UTF-8 bytes that start a letter.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string TextTable::text() const {
  std::vector<size_t> widths;
  for (const auto& line : lines_) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t i = 0; i < line.size(); i++) widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string text;
  for (const auto& line : lines_) {
    for (size_t i = 0; i < line.size(); i++) {
      const std::string blanks(widths[i] - width_of(line[i]), ' ');
      text += "  ";
      text += text_columns_.contains(i) ? line[i] + blanks : blanks + line[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace tributary
