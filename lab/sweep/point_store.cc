// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/point_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/errno_text.h"
#include "lab/sweep/plain_file.h"

namespace tributary::lab {
namespace {

namespace fs = std::filesystem;

/// Largest file of kept outcomes. Assumed: far above any sweep; an outcome of 1,024 workers has 1
/// MB.
constexpr uint64_t kFileBytesMax = uint64_t{4} << 30;

/// Removes the text after the last newline: a line that was cut short.
Result<void> cut_half_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};  // Not there yet.
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole == text.size()) return {};
  std::error_code error;
  fs::resize_file(path, whole, error);
  if (error) return failure(fmt::format("{}: cannot be written: {}", path, error.message()));
  return {};
}

}  // namespace

Result<PointStore> PointStore::open(const std::string& directory, uint32_t rank,
                                    const std::string& model) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return failure(fmt::format("{}: cannot be made: {}", directory, error.message()));
  PointStore store;
  store.directory_ = directory;
  store.model_ = model;
  store.own_path_ = fmt::format("{}/points-{}.jsonl", directory, rank);
  if (const Result<void> good = check_plain_file(store.own_path_, kFileBytesMax); !good) {
    return tl::unexpected(good.error());
  }
  if (const Result<void> cut = cut_half_line(store.own_path_); !cut) {
    return tl::unexpected(cut.error());
  }
  store.own_file_.open(store.own_path_, std::ios::binary | std::ios::app);
  if (!store.own_file_) {
    return system_failure(errno, fmt::format("{}: cannot be written", store.own_path_));
  }
  if (const Result<void> read = store.reload(); !read) return tl::unexpected(read.error());
  return store;
}

const PointOutcome* PointStore::find(const std::string& key) const {
  const auto found = outcomes_.find(key);
  return found == outcomes_.end() ? nullptr : &found->second;
}

const std::string* PointStore::find_failure(const std::string& key) const {
  const auto found = failures_.find(key);
  return found == failures_.end() ? nullptr : &found->second;
}

Result<void> PointStore::write_line(const Json& line) {
  if (directory_.empty()) return {};
  own_file_ << line.dump() + "\n" << std::flush;
  if (own_file_) return {};
  return system_failure(errno, fmt::format("{}: cannot be written", own_path_));
}

Result<void> PointStore::append(const std::string& key, const std::string& label,
                                PointOutcome outcome) {
  const auto written = write_line(
      {{"key", key}, {"label", label}, {"model", model_}, {"outcome", outcome_json(outcome)}});
  if (written) outcomes_[key] = std::move(outcome);
  return written;
}

Result<void> PointStore::append_failure(const std::string& key, const std::string& label,
                                        const std::string& reason) {
  const auto written =
      write_line({{"key", key}, {"label", label}, {"model", model_}, {"failure", reason}});
  if (written) failures_[key] = reason;
  return written;
}

Result<void> PointStore::reload() {
  if (directory_.empty()) return {};
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("points-") && name.ends_with(".jsonl")) paths.push_back(entry.path());
  }
  if (error) return failure(fmt::format("{}: cannot be read: {}", directory_, error.message()));
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    if (const Result<void> read = read_file(path); !read) return read;
  }
  return {};
}

Result<void> PointStore::read_file(const std::string& path) {
  if (Result<void> good = check_plain_file(path, kFileBytesMax); !good) return good;
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_failure(errno, fmt::format("{}: cannot be read", path));
  std::string line;
  while (std::getline(file, line)) {
    // A partial line is not JSON: a process is writing it, or ended while it did.
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("key") || !json["key"].is_string()) continue;
    const auto key = json["key"].get<std::string>();
    if (!json.contains("model") || json["model"] != model_) {
      outdated_.insert(key);
      continue;
    }
    if (json.contains("failure") && json["failure"].is_string()) {
      failures_[key] = json["failure"].get<std::string>();
    }
    if (!json.contains("outcome")) continue;
    auto outcome = read_outcome(json["outcome"]);
    if (outcome) outcomes_[key] = *std::move(outcome);
  }
  return {};
}

}  // namespace tributary::lab
