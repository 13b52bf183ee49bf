// SPDX-License-Identifier: Apache-2.0
#include "cli/text_width.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/number_text.h"
#include "cli/status_line.h"

namespace tributary::cli {
namespace {

constexpr std::string_view kIndent = "  ";
/// Narrower terminals get lines of this width.
constexpr uint32_t kColumnsMin = 16;

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }

uint32_t characters_in(std::string_view text) {
  return static_cast<uint32_t>(std::ranges::count_if(text, begins_character));
}

/// Returns the bytes of the first `count` characters.
size_t bytes_of(std::string_view text, uint32_t count) {
  size_t end = 0;
  for (; end < text.size(); end++) {
    if (begins_character(text[end]) && count-- == 0) break;
  }
  return end;
}

/// Returns the place of the last space that may end a part of at most `bytes` bytes; 0: there is
/// none.
size_t last_space(std::string_view line, size_t bytes) {
  const size_t text_at = line.find_first_not_of(' ');
  const size_t space = line.rfind(' ', bytes);
  return space == std::string_view::npos || space < text_at ? 0 : space;
}

void fold_line(std::string_view line, uint32_t width, std::string& out) {
  std::string rest(line);
  while (characters_in(rest) > width) {
    const size_t fits = bytes_of(rest, width);
    const size_t space = last_space(rest, fits);
    const size_t end = space == 0 ? fits : rest.find_last_not_of(' ', space) + 1;
    out.append(rest, 0, end) += '\n';
    const size_t next = rest.find_first_not_of(' ', end);
    if (next == std::string::npos) return;
    rest = std::string(kIndent) + rest.substr(next);
  }
  out += rest + '\n';
}

/// Returns the numbers of the columns that fit.
std::vector<size_t> columns_that_fit(std::span<const TableColumn> table, uint32_t columns) {
  std::vector<size_t> kept(table.size());
  uint32_t width = 0;
  for (size_t i = 0; i < table.size(); i++) {
    kept[i] = i;
    width += std::max(table[i].width, characters_in(table[i].title)) + 1;
  }
  // Each column counts a space, but the first has none in front: so the last column stays free.
  while (kept.size() > 1 && width > columns) {
    const auto least =
        std::ranges::min_element(kept, {}, [&](size_t column) { return table[column].importance; });
    width -= std::max(table[*least].width, characters_in(table[*least].title)) + 1;
    kept.erase(least);
  }
  return kept;
}

}  // namespace

uint32_t output_columns(int file) {
  if (isatty(file) != 1) return kNoLimit;
  const char* const text = std::getenv("COLUMNS");
  const uint32_t stated = parse_number<uint32_t>(text == nullptr ? "" : text).value_or(0);
  return stated > 0 ? stated : terminal_columns(file);
}

std::string fold_text(std::string_view text, uint32_t columns) {
  if (columns == kNoLimit) return std::string(text);
  const uint32_t width = std::max(columns, kColumnsMin) - 1;
  std::string folded;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    fold_line(text.substr(0, end), width, folded);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return folded;
}

std::string table_text(std::span<const TableColumn> table,
                       std::span<const std::vector<std::string>> rows, uint32_t columns) {
  const std::vector<size_t> kept = columns_that_fit(table, columns);
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    for (size_t i = 0; i < kept.size(); i++) {
      text += i == 0 ? "" : " ";
      text += fmt::format("{:>{}}", cell_of(kept[i]), table[kept[i]].width);
    }
    text += '\n';
  };
  add_line([&](size_t column) { return table[column].title; });
  for (const auto& row : rows) {
    add_line([&](size_t column) { return row[column]; });
  }
  return text;
}

}  // namespace tributary::cli
