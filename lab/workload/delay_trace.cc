// SPDX-License-Identifier: Apache-2.0
#include "lab/workload/delay_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/errno_text.h"
#include "base/number_text.h"
#include "host/straggler_pattern.h"

namespace tributary::lab {
namespace {

constexpr std::string_view kHeader = "worker,iteration,point,delay_ms";
/// Some programs write it before UTF-8 text.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Reads a line without its end, LF or CRLF. Stops after kLineBytesMax + 1 bytes.
/// @return false at the end of the stream.
bool next_line(std::istream& lines, std::string& line) {
  line.clear();
  for (int byte = lines.get(); byte != std::istream::traits_type::eof(); byte = lines.get()) {
    if (byte == '\n') {
      if (line.ends_with('\r')) line.pop_back();
      return true;
    }
    line.push_back(static_cast<char>(byte));
    if (line.size() > DelayTrace::kLineBytesMax) return true;
  }
  return !line.empty();
}

/// Splits a line at its commas and removes the quotes around a field.
std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    std::string_view field = line.substr(begin, end - begin);
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') {
      field = field.substr(1, field.size() - 2);
    }
    fields.push_back(field);
    begin = end + 1;
  }
  return fields;
}

/// Returns a whole number from 0 to `max`.
Result<uint64_t> whole_number(std::string_view field, std::string_view name, uint64_t max) {
  const auto number = parse_number<uint64_t>(field);
  if (number && *number <= max) return *number;
  return failure(
      fmt::format("{}={} is not allowed; allowed: a whole number from 0 to {}", name, field, max));
}

Result<Duration> delay_of(std::string_view field) {
  constexpr double kMsMax = in_seconds(DelayTrace::kTotalMax) * 1000;
  const auto ms = parse_number<double>(field);
  if (ms && *ms >= 0 && *ms <= kMsMax) {
    const double ticks = *ms * static_cast<double>(milliseconds(1).ticks());
    return Duration::from_ticks(std::llround(ticks));
  }
  return failure(
      fmt::format("delay_ms={} is not allowed; allowed: a number from 0 to {}", field, kMsMax));
}

}  // namespace

Result<DelayTrace> DelayTrace::read(const std::string& path, uint32_t workers) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_failure(errno, fmt::format("{}: cannot be read", path));
  return read(file, path, workers);
}

Result<DelayTrace> DelayTrace::read(std::istream& lines, const std::string& name,
                                    uint32_t workers) {
  DelayTrace trace;
  std::string line;
  for (size_t number = 1; next_line(lines, line); number++) {
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    Result<void> good;
    if (line.size() > kLineBytesMax) {
      good = failure(fmt::format("is too long; allowed: up to {} bytes", kLineBytesMax));
    } else if (number > kRowsMax + 1) {
      good = failure(fmt::format("is too much; allowed: up to {} rows", kRowsMax));
    } else if (number > 1) {
      good = trace.add(line, workers);
    } else if (line != kHeader) {
      good = failure(fmt::format("'{}' is not the header; allowed: {}", line, kHeader));
    }
    if (!good) return failure(fmt::format("{}:{}: {}", name, number, good.error().text));
  }
  if (lines.bad()) {
    return system_failure(errno, fmt::format("{}: cannot be read to its end", name));
  }
  if (trace.delays_.empty()) {
    return failure(fmt::format("{}: has no row; allowed: the header {} and rows", name, kHeader));
  }
  return trace;
}

Result<void> DelayTrace::add(const std::string& line, uint32_t workers) {
  const auto fields = fields_of(line);
  if (fields.size() != 4) {
    return failure(fmt::format("'{}' has {} fields; allowed: {}", line, fields.size(), kHeader));
  }
  const auto worker = whole_number(fields[0], "worker", workers - 1);
  if (!worker) return tl::unexpected(worker.error());
  const auto iteration = whole_number(fields[1], "iteration", kIterationsMax - 1);
  if (!iteration) return tl::unexpected(iteration.error());
  const auto point = whole_number(fields[2], "point", host::kDelayPoints - 1);
  if (!point) return tl::unexpected(point.error());
  const auto delay = delay_of(fields[3]);
  if (!delay) return tl::unexpected(delay.error());
  if (*delay > kTotalMax - total_) {
    return failure(fmt::format("delay_ms={} is too much; allowed: delays that add up to {} s",
                               fields[3], in_seconds(kTotalMax)));
  }
  const auto place =
      std::pair{static_cast<uint32_t>(*worker), *iteration * host::kDelayPoints + *point};
  if (!delays_.emplace(place, *delay).second) {
    return failure(fmt::format("worker={} has iteration={} point={} twice; allowed: once", *worker,
                               *iteration, *point));
  }
  total_ += *delay;
  return {};
}

uint64_t DelayTrace::first_iteration() const {
  uint64_t first = kIterationsMax;
  for (const auto& [place, delay] : delays_) {
    first = std::min(first, place.second / host::kDelayPoints);
  }
  return first;
}

Duration DelayTrace::delay_at(uint32_t worker, uint64_t delay_point) const {
  const auto row = delays_.find({worker, delay_point});
  return row == delays_.end() ? Duration() : row->second;
}

}  // namespace tributary::lab
