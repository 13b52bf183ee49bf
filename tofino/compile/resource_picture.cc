// SPDX-License-Identifier: Apache-2.0
// Draws the resource report as a picture.
#include <fmt/format.h>

#include "tofino/compile/resource_report.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

/// Layout in pixels.
constexpr uint32_t kCellWidth = 46;
constexpr uint32_t kCellHeight = 24;
constexpr uint32_t kLabelWidth = 200;
constexpr uint32_t kTop = 64;

/// Draws one cell. A fuller cell has a stronger colour, readable on light and dark backgrounds.
std::string cell(uint32_t column, uint32_t row, uint32_t used, uint32_t limit) {
  const uint32_t x = kLabelWidth + column * kCellWidth;
  const uint32_t y = kTop + row * kCellHeight;
  const uint32_t percent = used == 0 ? 0 : 10 + 80 * std::min(used, limit) / limit;
  std::string svg = fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#1f77b4\" "
      "fill-opacity=\"0.{:02}\" stroke=\"#888\" stroke-width=\"0.5\"/>\n",
      x, y, kCellWidth, kCellHeight, percent);
  if (used > 0) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       x + kCellWidth / 2, y + kCellHeight - 7, used);
  }
  return svg;
}

}  // namespace

std::string resources_svg(const Program& program, const Placement& placement) {
  const uint32_t width = kLabelWidth + (kStages + 2) * kCellWidth;
  const uint32_t height = kTop + (kResourceCount + 2) * kCellHeight;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>text{{fill:#222}}@media(prefers-color-scheme:dark){{text{{fill:#eee}}}}</style>\n"
      "<title>{}</title>\n"
      "<text x=\"8\" y=\"22\" font-size=\"16\">{}: {} of {} stages</text>\n",
      width, height, width, height, program.name, program.name, placement.stages.size(), kStages);
  for (uint32_t stage = 0; stage < kStages; stage++) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       kLabelWidth + stage * kCellWidth + kCellWidth / 2, kTop - 8, stage);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\">of a stage</text>\n",
                     kLabelWidth + kStages * kCellWidth + 8, kTop - 8);
  for (uint32_t row = 0; row < kResourceCount; row++) {
    const auto resource = static_cast<Resource>(row);
    const ResourceInfo& info = info_of(resource);
    const uint32_t baseline = kTop + row * kCellHeight + kCellHeight - 7;
    svg += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n", baseline, info.name);
    for (uint32_t stage = 0; stage < kStages; stage++) {
      const bool used = stage < placement.stages.size();
      svg += cell(stage, row, used ? placement.stages[stage][resource] : 0, info.limit);
    }
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n",
                       kLabelWidth + kStages * kCellWidth + 8, baseline, info.limit);
  }
  svg += fmt::format(
      "<text x=\"8\" y=\"{}\">PHV: {} of {} bits (ingress {}, egress {}); tagalong {} of "
      "{}</text>\n</svg>\n",
      kTop + kResourceCount * kCellHeight + 20, placement.phv.bits(), kPhvBits,
      placement.phv.ingress.bits(), placement.phv.egress.bits(), placement.phv.tagalong_bits,
      kTagalongBits);
  return svg;
}

}  // namespace tributary::tofino
