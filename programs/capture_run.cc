// SPDX-License-Identifier: Apache-2.0
#include "programs/capture_run.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "base/result_file.h"

namespace tributary::programs {
namespace {

struct NamedFile {
  const char* option;
  const std::string& path;
};

/// Refuses an output that would overwrite the input or another output.
Result<void> check_distinct(const RunRequest& request) {
  const std::array<NamedFile, 4> files{{{"--in", request.in},
                                        {"--out", request.out},
                                        {"--records", request.records},
                                        {"--ipfix", request.ipfix}}};
  for (size_t i = 1; i < files.size(); i++) {
    for (size_t earlier = 0; earlier < i; earlier++) {
      const bool is_stream = earlier == 0 && files[earlier].path == "-";  // Standard input.
      if (files[i].path.empty() || files[earlier].path.empty() || is_stream) continue;
      if (!is_same_file(files[i].path, files[earlier].path)) continue;
      return failure(fmt::format("{} {}: it is the file of {}; allowed: another file",
                                 files[i].option, files[i].path, files[earlier].option));
    }
  }
  return {};
}

}  // namespace

Result<CaptureFiles> open_input(const RunRequest& request) {
  const auto distinct = check_distinct(request);
  if (!distinct) return tl::unexpected(distinct.error());
  auto reader = io::CaptureReader::open(request.in);
  if (!reader) return failure("--in " + reader.error().text);
  CaptureFiles files{CaptureFeed(*std::move(reader), request.packet_bytes_max), std::nullopt};
  files.feed.read_ahead();
  return files;
}

Result<void> open_output(const RunRequest& request, CaptureFiles& files) {
  if (request.out.empty()) return {};
  auto writer = io::CaptureWriter::open(request.out);
  if (!writer) return failure("--out " + writer.error().text);
  files.writer = *std::move(writer);
  return {};
}

}  // namespace tributary::programs
