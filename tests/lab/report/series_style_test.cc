// SPDX-License-Identifier: Apache-2.0
// Method: every name that a figure uses for a system, by hand; then contrasts, computed from the
// table as WCAG 2.1 defines them.
#include "lab/report/series_style.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tributary::lab {
namespace {

size_t colour_of(const std::string& name) { return styles_of(std::span(&name, 1))[0].colour; }

std::string_view words_of(const std::string& name) {
  return system_colours()[colour_of(name)].words;
}

TEST(SeriesStyle, NamesOfASystemShareItsColour) {
  const std::vector<std::vector<std::string>> systems{
      {"trio-ml", "trio-ml skip", "Trio-ML-1024", "trio-ml-wait", "trio-ml, bound", "live",
       "tributary", "tributary-group, 2 spare"},
      {"switchml-256", "switchml-256 resending", "switchml-on-trio", "switchml-256, loss 1 %"},
      {"switchml-64", "switchml-64-timeout"},
      {"waiting-switch", "waiting"},
      {"ring", "all-reduce (ring)", "NVLink, all-reduce", "gloo-ring", "gloo-hd"},
      {"ps", "ps-dedicated", "ps-colocated", "ps, 2 spare", "spare machines only"},
      {"sharded", "sharded-live", "PCIe, sharded", "with spare machines"},
      {"ideal", "optimum (equation 6)", "free mitigation", "most for packets of 256"},
      {"paper", "paper: 1.45 over all-reduce", "2 x timeout (paper's bound)"},
      {"asynchronous", "asynchronous: degraded"},
      {"bounded timeouts", "bounded timeouts: skipped", "optireduce"},
      {"majority", "majority: degraded"},
      {"backup worker", "backup worker: skipped"},
      {"ompi-tcp-ring", "ompi-shm"}};
  std::vector<size_t> colours;
  for (const std::vector<std::string>& names : systems) {
    EXPECT_THAT(colours, ::testing::Not(::testing::Contains(colour_of(names.front()))));
    colours.push_back(colour_of(names.front()));
    for (const std::string& name : names) EXPECT_EQ(colour_of(name), colours.back()) << name;
  }
  // Words, not parts of words.
  EXPECT_EQ(words_of("strings"), words_of("anything"));
  EXPECT_NE(words_of("bounded staleness"), words_of("bound"));
}

TEST(SeriesStyle, VariantsAreCountedInTheirOrder) {
  const std::vector<std::string> names{"trio-ml skip", "ring", "trio-ml compute", "trio-ml-wait"};
  const std::vector<SeriesStyle> styles = styles_of(names);
  EXPECT_EQ(styles[0].variant, 0);
  EXPECT_EQ(styles[1].variant, 0);
  EXPECT_EQ(styles[2].variant, 1);
  EXPECT_EQ(styles[3].variant, 2);
  EXPECT_EQ(styles[3].colour, styles[0].colour);
}

TEST(SeriesStyle, UnknownNamesGetColoursThatAreFree) {
  std::vector<std::string> names{"switchml-64", "switchml-256"};
  for (int i = 0; i < 40; i++) names.push_back("case " + std::to_string(i));
  const std::vector<SeriesStyle> styles = styles_of(names);
  const size_t others = system_colours().size() - 3;  // Without these two and the paper.
  for (size_t i = 2; i < names.size(); i++) {
    EXPECT_NE(styles[i].colour, colour_of("paper"));
    for (size_t j = 0; j < i && i < 2 + others; j++) {
      EXPECT_NE(styles[i].colour, styles[j].colour) << names[i] << ", " << names[j];
    }
  }
}

/// Relative luminance. Source: WCAG 2.1.
double luminance(std::string_view hex) {
  const auto part = [hex](size_t at) {
    const double c = std::stoi(std::string(hex.substr(at, 2)), nullptr, 16) / 255.0;
    return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

double contrast(std::string_view a, std::string_view b) {
  const auto [dark, light] = std::minmax({luminance(a), luminance(b)});
  return (light + 0.05) / (dark + 0.05);
}

TEST(SeriesStyle, ColoursContrastWithTheirBackground) {
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-9);
  for (const SystemColour& colour : system_colours()) {
    EXPECT_GE(contrast(colour.light, kLightBackground), 3) << colour.words;
    EXPECT_GE(contrast(colour.dark, kDarkBackground), 3) << colour.words;
  }
}

TEST(SeriesStyle, RulesNameEveryColour) {
  EXPECT_THAT(colour_rules(false),
              ::testing::HasSubstr("  .s0 { stroke: #000000; } .f0 { fill: #000000; }\n"));
  EXPECT_THAT(colour_rules(true), ::testing::HasSubstr("  .s0 { stroke: #ffffff; }"));
}

}  // namespace
}  // namespace tributary::lab
