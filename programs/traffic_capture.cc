// SPDX-License-Identifier: Apache-2.0
#include "programs/traffic_capture.h"

#include <chrono>

#include "io/capture/capture_writer.h"

namespace tributary::programs {

Result<void> write_traffic(traffic::Generator& generator, const std::string& path,
                           io::CaptureTime start,
                           const std::function<void(uint64_t written)>& progress) {
  auto writer = io::CaptureWriter::open(path);
  if (!writer) return tl::unexpected(writer.error());
  for (uint64_t done = 0;; done++) {
    progress(done);
    const auto packet = generator.next();
    if (!packet) break;
    const auto since_start = std::chrono::nanoseconds(in_nanoseconds(packet->at.since_start()));
    const auto written = writer->write({.at = start + since_start,
                                        .bytes = packet->frame,
                                        .wire_bytes = static_cast<uint32_t>(packet->frame.size())});
    if (!written) return written;
  }
  return writer->finish();
}

}  // namespace tributary::programs
