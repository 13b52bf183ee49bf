// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the flow records of IPFIX messages: as JSON lines, one for each record, and as an IPFIX
/// file (RFC 5655), which holds the messages as they are.
///
/// Units:   Times in nanoseconds since 1970.
/// Threads: One.
/// Errors:  create() refuses a path that cannot be written. write() reports a failed write, which
///          ends its file only, and a message that is malformed.
/// Tests:   tests/programs/flow_records_test.cc
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/result.h"
#include "wire/ipfix.h"

namespace tributary::programs {

/// Returns a record as an object: addresses as text, times, counts, flags and end reason.
[[nodiscard]] nlohmann::ordered_json as_json(const wire::IpfixFlow& flow);

class FlowRecords {
 public:
  /// @param json_lines Path of the JSON lines; empty: none, "-": standard output.
  /// @param ipfix      Path of the IPFIX file, alike.
  [[nodiscard]] static Result<FlowRecords> create(const std::string& json_lines,
                                                  const std::string& ipfix);

  /// Appends the records of a message.
  [[nodiscard]] Result<void> write(std::span<const std::byte> message);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct File {
    std::string path;
    std::unique_ptr<std::FILE, Close> owned;
    std::FILE* stream = nullptr;  ///< `owned`, or standard output; null: no file, or it failed.
  };
  [[nodiscard]] static Result<File> open(const char* flag, const std::string& path);
  [[nodiscard]] static Result<void> append(File& file, std::string_view bytes);
  [[nodiscard]] Result<void> append_lines(std::span<const std::byte> message);

  File json_lines_;
  File ipfix_;
};

}  // namespace tributary::programs
