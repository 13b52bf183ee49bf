// SPDX-License-Identifier: Apache-2.0
#include "server/control/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "server/control/history.h"

namespace tributary::control {

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

Cell Cell::text(std::string_view content, std::string_view classes) {
  if (classes.empty()) return Cell(fmt::format("<td>{}</td>", escaped(content)));
  return Cell(fmt::format("<td class=\"{}\">{}</td>", escaped(classes), escaped(content)));
}

Cell Cell::number(uint64_t value) { return text(count_text(value)); }

Cell Cell::link(std::string_view content, std::string_view to) {
  return Cell(fmt::format("<td><a href=\"{}\">{}</a></td>", escaped(to), escaped(content)));
}

Cell Cell::html(std::string made) { return Cell(fmt::format("<td>{}</td>", made)); }

std::string table_rows(const std::vector<Cells>& rows, std::string_view none) {
  std::string html;
  for (const Cells& cells : rows) {
    html += "<tr>";
    for (const Cell& cell : cells) html += cell.to_html();
    html += "</tr>\n";
  }
  if (!html.empty()) return html;
  return fmt::format("<tr><td class=\"none\" colspan=\"9\">{}</td></tr>", escaped(none));
}

std::string fill(std::string_view page,
                 const std::map<std::string, std::string, std::less<>>& values) {
  std::string html;
  while (true) {
    const size_t begin = page.find("{{");
    html += page.substr(0, begin);
    if (begin == std::string_view::npos) return html;
    const size_t end = page.find("}}", begin);
    const auto value = values.find(page.substr(begin + 2, end - begin - 2));
    TRIB_ASSERT(end != std::string_view::npos && value != values.end());
    html += value->second;
    page.remove_prefix(end + 2);
  }
}

std::string duration_text(const nlohmann::json& milliseconds) {
  if (!milliseconds.is_number()) return "unknown";
  const auto value = milliseconds.get<int64_t>();
  if (value < 1000) return fmt::format("{} ms", value);
  return fmt::format("{:.1f} s", static_cast<double>(value) / 1000);
}

std::string scaled_text(double value, std::string_view unit) {
  for (const auto& [size, prefix] :
       {std::pair(1e9, "G"), std::pair(1e6, "M"), std::pair(1e3, "k")}) {
    if (value >= size) return fmt::format("{:.2f} {}{}", value / size, prefix, unit);
  }
  return fmt::format("{:.0f} {}", value, unit);
}

std::string count_text(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string ranks_text(const nlohmann::json& ranks) {
  std::string text;
  for (const auto& rank : ranks) {
    text += (text.empty() ? "" : ", ") + std::to_string(rank.get<uint32_t>());
  }
  return text.empty() ? "none" : text;
}

std::string lateness_strip(const nlohmann::json& lateness_ms) {
  const auto late = lateness_ms.get<std::vector<int64_t>>();
  const auto level_of = [&late](size_t i) { return lateness_bucket(milliseconds(late[i])); };
  const int64_t longest = late.empty() ? 0 : *std::ranges::max_element(late);
  std::string html = fmt::format(
      "<svg class=\"strip\" viewBox=\"0 0 {} 1\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"longest {}\">",
      kSamplesMax, duration_text(longest));
  size_t end = 0;
  for (size_t begin = 0; begin < late.size(); begin = end) {
    const uint32_t level = level_of(begin);
    for (end = begin + 1; end < late.size() && level_of(end) == level;) end++;
    if (level == 0) continue;
    html += fmt::format("<rect class=\"l{}\" x=\"{}\" y=\"0\" width=\"{}\" height=\"1\"/>", level,
                        kSamplesMax - late.size() + begin, end - begin);
  }
  return html + "</svg>";
}

std::string lateness_key() {
  std::string html = "Time since the last contribution to the oldest block that lacks the rank:";
  for (uint32_t level = 0; level <= kLatenessBounds.size(); level++) {
    const bool is_last = level == kLatenessBounds.size();
    const Duration bound = kLatenessBounds[is_last ? level - 1 : level];
    html += fmt::format(
        " <span class=\"step\"><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"l{}\" "
        "width=\"1\" height=\"1\"/></svg> {} {}</span>",
        level, is_last ? "above" : "to", duration_text(in_milliseconds(bound)));
  }
  return html;
}

}  // namespace tributary::control
