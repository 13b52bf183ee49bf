// SPDX-License-Identifier: Apache-2.0
#include "recorder/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/errno_text.h"
#include "recorder/ring.h"

namespace tributary::recorder {
namespace {

/// Returns the text of a field, without control characters: it goes to a terminal.
template <size_t kSize>
std::string text_of(const std::array<char, kSize>& field) {
  std::string text(field.data(), std::find(field.begin(), field.end(), '\0'));
  for (char& letter : text) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return text;
}

/// Takes values from the front of some bytes.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : left_(bytes) {}
  [[nodiscard]] size_t left() const { return left_.size(); }
  template <class T>
  [[nodiscard]] bool take(T& value) {
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(&value, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return true;
  }

 private:
  std::span<const std::byte> left_;
};

bool is_event(const Event& event) {
  if (name_of(event.kind) == nullptr) return false;
  const bool is_run = static_cast<uint32_t>(event.kind) < kRunKinds;
  return event.count <= kRunBlocksMax && (!is_run || event.count > 0);
}

/// Takes the entries of a section, the end of its copy, and its open runs.
/// @return false if the bytes end before the section does.
bool take_entries(Bytes& bytes, const SectionHeader& header, Section& section) {
  std::vector<Event> events;
  events.reserve(std::min<size_t>(header.count, bytes.left() / sizeof(Words)));
  Words words{};
  bool whole = true;
  for (uint32_t i = 0; i < header.count && whole; i++) {
    whole = bytes.take(words);
    if (whole) events.push_back(to_event(words));
  }
  SectionEnd end{.put_count = header.first + header.count};
  whole = whole && bytes.take(end);
  end.put_count = std::max(end.put_count, header.first + events.size());
  // The writer went on during the copy, and may have changed the oldest entries.
  const uint64_t first_whole = Ring::first_whole(end.put_count, header.capacity);
  const uint64_t changed =
      std::min<uint64_t>(first_whole - std::min(first_whole, header.first), events.size());
  // Events put after the copy began are in no part of this file, so they are not lost.
  section.recorded = header.first + header.count;
  section.left_out = end.left_out;
  section.events.reserve(events.size() - changed + kRunKinds);
  for (uint64_t i = changed; i < events.size(); i++) {
    if (is_event(events[i])) {
      section.events.push_back(events[i]);
    } else {
      section.damaged++;
    }
  }
  section.lost = section.recorded - section.events.size() - section.damaged;
  for (uint32_t i = 0; i < kRunKinds && whole; i++) {
    whole = bytes.take(words);
    const Event event = to_event(words);
    if (whole && event.kind != Kind::kNone && is_event(event)) section.events.push_back(event);
  }
  return whole;
}

/// Takes all sections. @return why it stopped early; empty: it did not.
std::string take_sections(Bytes& bytes, Recording& recording) {
  const char* const cut = "the file ends early: the disk was full, or it is still being written";
  for (uint32_t i = 0; i < recording.header.section_count; i++) {
    SectionHeader header;
    if (!bytes.take(header)) return cut;
    const bool valid = header.magic == kSectionMagic && header.count <= header.capacity &&
                       header.capacity <= kEventsMax && header.capacity > 0 &&
                       header.first <= UINT64_MAX - kEventsMax;
    if (!valid) return fmt::format("section {} is damaged", i);
    Section& section = recording.sections.emplace_back();
    section.track = header.track;
    if (!take_entries(bytes, header, section)) return cut;
  }
  return {};
}

}  // namespace

std::string Recording::title() const {
  if (header.is_worker != 0) return fmt::format("rank {}", header.rank);
  return name.empty() ? "server" : "server " + name;
}

std::string Recording::track_of(const Section& section) const {
  if (section.track == kWatchTrack) return "watch";
  return fmt::format("{} {}", header.is_worker != 0 ? "channel" : "core", section.track);
}

std::string Recording::detail_of(const Event& event) const {
  const Domain domain = domain_of(event.kind, header.is_worker != 0);
  if (domain == Domain::kNone) return {};
  for (const Label& label : labels) {
    if (label.domain == domain && label.code == event.detail) return text_of(label.text);
  }
  // The first reason and the first status mean that there is none.
  return event.detail == 0 ? std::string() : std::to_string(event.detail);
}

uint64_t Recording::event_count() const {
  uint64_t count = 0;
  for (const Section& section : sections) count += section.events.size();
  return count;
}

uint64_t Recording::lost() const {
  uint64_t lost = 0;
  for (const Section& section : sections) lost += section.lost;
  return lost;
}

uint64_t Recording::left_out() const {
  uint64_t left_out = 0;
  for (const Section& section : sections) left_out += section.left_out;
  return left_out;
}

namespace {

bool begins_as_recording(std::string_view text) {
  return text.starts_with(std::string_view(kFileMagic.data(), kFileMagic.size()));
}

}  // namespace

Result<Recording> read_recording(std::span<const std::byte> bytes) {
  Bytes rest(bytes);
  Recording recording;
  FileHeader& header = recording.header;
  if (!rest.take(header) || header.magic != kFileMagic) {
    return failure("is not a recording of tributary");
  }
  if (header.version != kFormatVersion) {
    return failure(fmt::format("has format version {}; this program reads version {}",
                               header.version, kFormatVersion));
  }
  if (header.label_count > kLabelsMax || header.section_count > kSectionsMax) {
    return failure(
        fmt::format("is damaged: it states {} labels and {} sections; allowed: {} "
                    "and {}",
                    header.label_count, header.section_count, kLabelsMax, kSectionsMax));
  }
  recording.host = text_of(header.host);
  recording.name = text_of(header.name);
  recording.boot = text_of(header.boot);
  Label label;
  for (uint32_t i = 0; i < header.label_count && rest.take(label); i++) {
    recording.labels.push_back(label);
  }
  recording.problem = take_sections(rest, recording);
  return recording;
}

Result<Recording> read_recording_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_failure(errno, path);
  std::string text;
  std::error_code unknown;  // A pipe has no size.
  const uintmax_t size_bytes = std::filesystem::file_size(path, unknown);
  if (!unknown) text.reserve(std::min<uintmax_t>(size_bytes, kFileBytesMax));
  std::array<char, 65'536> chunk;
  while (file.read(chunk.data(), chunk.size()) || file.gcount() > 0) {
    text.append(chunk.data(), static_cast<size_t>(file.gcount()));
    if (!begins_as_recording(text)) break;  // It may have no end.
    if (text.size() > kFileBytesMax) {
      return failure(
          fmt::format("{}: more than {} MB, the most that can be read; record "
                      "with fewer --record-events",
                      path, kFileBytesMax >> 20));
    }
  }
  if (file.bad()) return system_failure(errno, path);
  auto recording = read_recording(std::as_bytes(std::span(text)));
  if (!recording) return failure(fmt::format("{}: {}", path, recording.error().text));
  recording->path = path;
  return recording;
}

}  // namespace tributary::recorder
