// SPDX-License-Identifier: Apache-2.0
#include "base/toml_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/errno_text.h"
#include "base/toml_limits.h"

namespace tributary {
namespace {

struct PlacedKey {
  uint32_t line;
  uint32_t column;
  WrittenKey key;
};

/// Joins the values of a list by commas; empty if one of them is not a plain value.
std::string list_text(const toml::array& list) {
  std::string text;
  for (const toml::node& element : list) {
    if (!element.is_value()) return {};
    text += (text.empty() ? "" : ",") + text_of(element);
  }
  return text;
}

void collect(const toml::table& table, const std::string& path, const std::string& prefix,
             std::vector<PlacedKey>& keys) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      collect(*inner, path, name + ".", keys);
      continue;
    }
    WrittenKey written{
        .name = name, .text = text_of(node), .type = type_of(node), .where = place_of(path, node)};
    const std::string list = node.is_array() ? list_text(*node.as_array()) : std::string();
    if (!list.empty()) {
      written.text = list;
      written.type = WrittenType::kUntyped;
    }
    const toml::source_position begin = node.source().begin;
    keys.push_back({begin.line, begin.column, std::move(written)});
  }
}

/// Reads a file or pipe of at most kTomlBytesMax bytes. A device may have no end.
Result<std::string> read_text(const std::string& path, const std::string& named) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (is_directory(status)) {
    return failure(fmt::format("{}: is a folder; allowed: a TOML file", named));
  }
  if (exists(status) && !is_regular_file(status) && !is_fifo(status)) {
    return failure(fmt::format("{}: is neither a file nor a pipe; allowed: a TOML file", named));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_failure(errno, fmt::format("{}: cannot be read", named));
  std::string text(kTomlBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return failure(fmt::format("{}: cannot be read to its end", named));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= kTomlBytesMax) return text;
  return failure(
      fmt::format("{}: is too large; allowed: a TOML file of {} bytes", named, kTomlBytesMax));
}

}  // namespace

Result<toml::table> parse_toml_file(const std::string& path, const std::string& named) {
  const auto text = read_text(path, named);
  if (!text) return tl::unexpected(text.error());
  if (const auto checked = check_toml_limits(*text, path); !checked) {
    return tl::unexpected(checked.error());
  }
  try {
    return toml::parse(*text, path);
  } catch (const toml::parse_error& error) {
    return failure(fmt::format("{}:{}: is not TOML: {}; texts and addresses need quotes", path,
                               error.source().begin.line, error.description()));
  }
}

std::string place_of(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

WrittenType type_of(const toml::node& node) {
  if (node.is_integer()) return WrittenType::kInteger;
  if (node.is_floating_point()) return WrittenType::kNumber;
  if (node.is_boolean()) return WrittenType::kBool;
  if (node.is_string()) return WrittenType::kText;
  return WrittenType::kOther;
}

std::string text_of(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (const auto* text = node.as_string()) return text->get();
  if (node.is_table()) return "{…}";
  if (node.is_array()) return "[…]";
  return "(a date or time)";
}

std::vector<WrittenKey> keys_of(const toml::table& table, const std::string& path) {
  std::vector<PlacedKey> placed;
  collect(table, path, "", placed);
  std::sort(placed.begin(), placed.end(), [](const PlacedKey& a, const PlacedKey& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  std::vector<WrittenKey> keys;
  for (PlacedKey& entry : placed) keys.push_back(std::move(entry.key));
  return keys;
}

}  // namespace tributary
