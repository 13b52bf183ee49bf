// SPDX-License-Identifier: Apache-2.0
#include "lab/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "lab/report/markup.h"
#include "lab/report/series_style.h"

namespace tributary::lab {
namespace {

constexpr std::string_view kStyleSheet = R"(<style>
  :root {{ color-scheme: light dark; }}
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
         color: #1f2328; background: {0}; }}
  img {{ max-width: 100%; }}
  pre {{ padding: 0.5rem; overflow-x: auto; border: 1px solid #8888; }}
  table {{ border-collapse: collapse; font-size: 0.85rem; }}
  td, th {{ padding: 0.15rem 0.6rem; text-align: right; border-bottom: 1px solid #8888; }}
  td:first-child, th:first-child {{ text-align: left; }}
  .wide {{ overflow-x: auto; }}
  .failed {{ border-left: 4px solid #d55e00; padding-left: 0.5rem; }}
  @media (prefers-color-scheme: dark) {{
    body {{ color: #e6edf3; background: {1}; }}
    a {{ color: #56b4e9; }}
  }}
</style>
)";

void add_table(const std::vector<FigureRow>& rows, const std::string& x_name, std::string& html) {
  const RowTable table = table_of(rows, x_name);
  html += "<div class=\"wide\"><table>\n";
  for (size_t i = 0; i < table.lines.size(); i++) {
    const char* cell_name = i == 0 ? "th" : "td";
    html += "<tr>";
    for (const std::string& cell : table.lines[i]) {
      html += fmt::format("<{0}>{1}</{0}>", cell_name, escaped(cell));
    }
    html += "</tr>\n";
  }
  html += "</table></div>\n";
  for (size_t i = 0; i < table.explanations.size(); i++) {
    html += fmt::format("<p>[{}] {}</p>\n", i + 1, escaped(table.explanations[i]));
  }
}

/// Adds the rows with a paper's value, then all rows. Readers open a long table if they want it.
void add_tables(const ReportFigure& figure, std::string& html) {
  constexpr size_t kLong = 12;
  std::vector<FigureRow> stated;
  std::copy_if(figure.rows.begin(), figure.rows.end(), std::back_inserter(stated),
               [](const FigureRow& row) { return row.paper.has_value(); });
  const bool apart = !stated.empty() && stated.size() < figure.rows.size();
  if (apart) add_table(stated, figure.x_name, html);
  const bool open = !apart && figure.rows.size() <= kLong;
  html += fmt::format("<details{}><summary>{} rows</summary>\n", open ? " open" : "",
                      figure.rows.size());
  add_table(figure.rows, figure.x_name, html);
  html += "</details>\n";
}

std::string seeds_text(const ReportFigure& figure) {
  if (figure.seed_first == figure.seed_last) return fmt::format("seed {}", figure.seed_first);
  return fmt::format("seeds {} to {}", figure.seed_first, figure.seed_last);
}

void add_warnings(const ReportFigure& figure, std::string& html) {
  if (figure.warnings.runs() == 0) return;
  const auto out = std::back_inserter(html);
  fmt::format_to(out, "<details><summary>{} of {} runs have warnings, of {} {}</summary>\n<ul>\n",
                 figure.warnings.runs(), figure.points, figure.warnings.kinds().size(),
                 figure.warnings.kinds().size() == 1 ? "kind" : "kinds");
  for (const WarningKind& kind : figure.warnings.kinds()) {
    fmt::format_to(out, "<li>{} times, first in {}</li>\n", kind.count, escaped(kind.first));
  }
  html += "</ul>\n</details>\n";
}

void add_figure(const Report& report, const ReportFigure& figure, std::string& html) {
  const auto out = std::back_inserter(html);
  const std::string name = escaped(figure.name);
  fmt::format_to(out, "<h2 id=\"{0}\">{0}</h2>\n<p>{1}</p>\n", name, escaped(figure.description));
  fmt::format_to(out, "<pre>{}</pre>\n<p>{} runs, {}; version {}, commit {}</p>\n",
                 escaped(figure.command), figure.points, seeds_text(figure),
                 escaped(report.version), escaped(report.commit));
  if (!figure.failures.empty()) {
    fmt::format_to(out,
                   "<p class=\"failed\">{} of {} runs failed; rows that need them show \"-\", and "
                   "means leave out failed seeds:</p>\n<ul>\n",
                   figure.failures.size(), figure.points);
    for (const std::string& failure : figure.failures) {
      fmt::format_to(out, "<li>{}</li>\n", escaped(failure));
    }
    html += "</ul>\n";
  }
  add_warnings(figure, html);
  if (figure.has_plots) {
    fmt::format_to(out, "<p><a href=\"{0}.svg\"><img src=\"{0}.svg\" alt=\"{1}\"></a></p>\n", name,
                   escaped(figure.description));
  }
  add_tables(figure, html);
  if (!figure.notes.empty()) html += "<ul>\n";
  for (const std::string& note : figure.notes) {
    fmt::format_to(out, "<li>{}</li>\n", escaped(note));
  }
  if (!figure.notes.empty()) html += "</ul>\n";
  fmt::format_to(out, "<p>All values: <a href=\"{0}.json\">{0}.json</a></p>\n", name);
}

}  // namespace

std::string report_html(const Report& report) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>Tributary: the papers' figures</title>\n" +
      fmt::format(kStyleSheet, kLightBackground, kDarkBackground) +
      "</head>\n<body>\n<h1>Tributary: the papers' figures</h1>\n";
  const auto out = std::back_inserter(html);
  fmt::format_to(
      out,
      "<p>Version {}, commit {}. All times are virtual: the same command and commit give "
      "the same bytes on every machine. docs/experiments.md explains the differences "
      "from the papers.</p>\n<pre>{}</pre>\n<ul>\n",
      escaped(report.version), escaped(report.commit), escaped(report.command));
  for (const ReportFigure& figure : report.figures) {
    fmt::format_to(out, "<li><a href=\"#{0}\">{0}</a>: {1}{2}</li>\n", escaped(figure.name),
                   escaped(figure.description),
                   figure.failures.empty() ? "" : " (lacks failed runs)");
  }
  html += "</ul>\n";
  for (const ReportFigure& figure : report.figures) add_figure(report, figure, html);
  return html + "</body>\n</html>\n";
}

}  // namespace tributary::lab
