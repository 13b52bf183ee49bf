// SPDX-License-Identifier: Apache-2.0
#include "lab/report/series_style.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace tributary::lab {
namespace {

/// The place of a system also gives its marker, so that systems which figures often compare have
/// different ones.
constexpr std::array<SystemColour, 15> kColours{{
    {"paper", "#000000", "#ffffff"},
    {"switchml-64", "#a87400", "#e69f00"},                  // Okabe-Ito orange.
    {"switchml", "#d55e00", "#ff8a3d"},                     // Vermilion.
    {"asynchronous|async", "#882255", "#d4709f"},           // Tol wine.
    {"optireduce|bounded timeouts", "#c04a5e", "#f08a99"},  // Tol rose.
    {"backup|quorum", "#1b8a7d", "#44aa99"},                // Tol teal.
    {"sgd|staleness|stale", "#117733", "#5ccf7f"},          // Tol green.
    {"ompi|mpi", "#332288", "#a99cf0"},                     // Tol indigo.
    {"sharded|byteps|with spare machines|without spare machines", "#7f7500",
     "#f0e442"},                                     // Okabe-Ito yellow.
    {"ring|all-reduce|gloo", "#b5528f", "#e79ac4"},  // Reddish purple.
    {"ps|parameter server|parameter servers|spare machines only", "#2b8cbe",
     "#9ad5f5"},                                                      // Sky blue.
    {"trio-ml|trio|tributary|live|mitigated", "#0072b2", "#56b4e9"},  // Blue.
    {"waiting|wait", "#00835f", "#1fc79a"},                           // Bluish green.
    {"ideal|optimum|bound|most|free", "#6e7781", "#a0a8b0"},          // Grey.
    {"majority", "#8c564b", "#c9a08f"},                               // Brown.
}};

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Returns whether `text` holds `word`, and not as a part of a longer word.
bool holds_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_letter(text[at - 1]);
    if (begins && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

std::optional<size_t> known_colour(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (size_t i = 0; i < kColours.size(); i++) {
    std::string_view words = kColours[i].words;
    while (!words.empty()) {
      const size_t end = std::min(words.find('|'), words.size());
      if (holds_word(lower, words.substr(0, end))) return i;
      words.remove_prefix(std::min(end + 1, words.size()));
    }
  }
  return std::nullopt;
}

}  // namespace

std::span<const SystemColour> system_colours() { return kColours; }

std::vector<SeriesStyle> styles_of(std::span<const std::string> names) {
  std::vector<std::optional<size_t>> colours;
  std::array<size_t, kColours.size()> uses{};
  for (const std::string& name : names) {
    colours.push_back(known_colour(name));
    if (colours.back()) uses[*colours.back()]++;
  }
  for (std::optional<size_t>& colour : colours) {
    if (colour) continue;
    // The paper's colour stays the paper's. Once all are in use, the least used one gets a variant.
    colour = static_cast<size_t>(std::min_element(uses.begin() + 1, uses.end()) - uses.begin());
    uses[*colour]++;
  }
  std::vector<SeriesStyle> styles;
  uses.fill(0);
  for (const std::optional<size_t>& colour : colours) {
    styles.push_back({.colour = *colour, .variant = uses[*colour]++});
  }
  return styles;
}

std::string colour_rules(bool dark) {
  std::string rules;
  for (size_t i = 0; i < kColours.size(); i++) {
    const std::string_view hex = dark ? kColours[i].dark : kColours[i].light;
    rules += fmt::format("  .s{0} {{ stroke: {1}; }} .f{0} {{ fill: {1}; }}\n", i, hex);
  }
  return rules;
}

}  // namespace tributary::lab
