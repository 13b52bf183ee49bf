// SPDX-License-Identifier: Apache-2.0
/// @file
/// The colours of systems, the same in every plot, and how series of one system differ.
///
/// Model:   A series' name holds the name of its system as a word: "switchml-256 resending". Series
///          of one system in a plot are its variants: one colour, and a dash and a marker each. A
///          name without a known system gets the first colour that its plot does not use.
/// Source:  Hues: Okabe and Ito, "Color Universal Design" (2008), and P. Tol, "Colour Schemes"
///          (2021), "muted"; both are made for colour-blind readers. Lightness is adapted so that
///          each colour has a contrast of at least 3 : 1 to its background (WCAG 2.1, 1.4.11).
/// Threads: None; pure functions.
/// Tests:   tests/lab/report/series_style_test.cc
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::lab {

struct SystemColour {
  std::string_view words;  ///< Names of the system, with '|' between them. Lower case.
  std::string_view light;  ///< On kLightBackground, as "#rrggbb".
  std::string_view dark;   ///< On kDarkBackground.
};

inline constexpr std::string_view kLightBackground = "#ffffff";
inline constexpr std::string_view kDarkBackground = "#0d1117";

/// All colours. The first entry whose words stand in a name decides.
[[nodiscard]] std::span<const SystemColour> system_colours();

struct SeriesStyle {
  size_t colour = 0;   ///< Place in system_colours().
  size_t variant = 0;  ///< Number of earlier series with the same colour in the plot.
};

/// Returns the styles of a plot's series, in the order of their names.
[[nodiscard]] std::vector<SeriesStyle> styles_of(std::span<const std::string> names);

/// Returns rules of a style sheet for the classes sN (stroke), fN (fill) of each colour N.
[[nodiscard]] std::string colour_rules(bool dark);

}  // namespace tributary::lab
