// SPDX-License-Identifier: Apache-2.0
#include "programs/capture_run.h"

#include <string>

namespace tributary::programs {

Result<CaptureFiles> open_input(const RunRequest& request) {
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
