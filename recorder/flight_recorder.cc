// SPDX-License-Identifier: Apache-2.0
#include "recorder/flight_recorder.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/time.h"

namespace tributary::recorder {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  static_cast<void>(clock_gettime(clock, &now));
  return now.tv_sec * kNanosecondsPerSecond + now.tv_nsec;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

/// Names the clock of this process: see FileHeader::boot. A process whose time namespace is unknown
/// shares its clock with none.
void put_clock(std::array<char, 40>& boot) {
  // The number of the machine's own namespace. Source: Linux, TIME_NS_INIT_INO.
  constexpr uint64_t kMachineNamespace = 0xEFFFFFFA;
  put_text(boot, boot_id().c_str());
  struct stat status {};
  const bool is_known = ::stat("/proc/self/ns/time", &status) == 0;
  // Kernels before 5.6 have no time namespaces.
  if (!is_known && errno != ENOENT) boot[0] = '\0';
  if (!is_known || status.st_ino == kMachineNamespace) return;
  for (uint32_t i = kTimeNamespaceAt; i < boot.size(); i++) {
    boot[i] = static_cast<char>(status.st_ino >> (8 * (i - kTimeNamespaceAt)));
  }
}

class StringSink final : public Sink {
 public:
  explicit StringSink(std::string& text) : text_(text) {}
  bool put(std::span<const std::byte> bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }

 private:
  std::string& text_;
};

}  // namespace

const char* name_of(Cause cause) {
  switch (cause) {
    case Cause::kCommand:
      return "command";
    case Cause::kSignal:
      return "signal";
    case Cause::kStall:
      return "stall";
    case Cause::kAbnormalEnd:
      return "abnormal_end";
    case Cause::kEnd:
      return "end";
    case Cause::kFailure:
      return "failure";
    case Cause::kSilence:
      return "silence";
  }
  return "unknown";
}

void add_label(std::vector<Label>& labels, Domain domain, uint8_t code, const char* text) {
  Label label{.domain = domain, .code = code};
  put_text(label.text, text);
  labels.push_back(label);
}

FlightRecorder::FlightRecorder(RecorderConfig config) : config_(std::move(config)) {
  TRIB_ASSERT(config_.labels.size() <= kLabelsMax);
  header_.label_count = static_cast<uint32_t>(config_.labels.size());
  header_.pid = static_cast<uint32_t>(getpid());
  header_.is_worker = config_.is_worker ? 1 : 0;
  header_.rank = config_.rank;
  put_clock(header_.boot);
  std::array<char, 64> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  header_.host = host;
  put_text(header_.name, config_.name.c_str());
  static_cast<void>(monotonic_now());  // Starts the clock, so that a signal handler may read it.
}

Writer* FlightRecorder::add_writer(uint32_t track) {
  const std::lock_guard lock(mutex_);
  const uint32_t index = writer_count_.load(std::memory_order_relaxed);
  if (index == writers_.size()) return nullptr;
  writers_[index] = std::make_unique<Writer>(config_.events, track);
  writer_count_.store(index + 1, std::memory_order_release);  // Pairs with writer_count().
  return writers_[index].get();
}

bool FlightRecorder::write(Cause cause, Sink& sink, uint32_t signal) const {
  FileHeader header = header_;
  header.section_count = writer_count();
  header.cause = cause;
  header.signal = signal;
  header.at_ns = in_nanoseconds(monotonic_now().since_start());
  header.to_monotonic_ns = clock_ns(CLOCK_MONOTONIC) - header.at_ns;
  header.to_realtime_ns = clock_ns(CLOCK_REALTIME) - header.at_ns;
  if (!sink.put(bytes_of(header))) return false;
  if (!sink.put(std::as_bytes(std::span(config_.labels)))) return false;
  for (uint32_t i = 0; i < header.section_count; i++) {
    if (!write_section(writer(i), sink)) return false;
  }
  return true;
}

bool FlightRecorder::write_section(const Writer& writer, Sink& sink) {
  const Ring& ring = writer.ring();
  const uint64_t end = ring.put_count();
  const uint64_t first = Ring::first_whole(end, ring.capacity());
  const SectionHeader header{.track = writer.track(),
                             .capacity = ring.capacity(),
                             .count = static_cast<uint32_t>(end - first),
                             .first = first};
  if (!sink.put(bytes_of(header))) return false;
  std::array<Words, 64> chunk;  // 2 KB, so that the stack of a signal handler holds it.
  for (uint64_t next = first; next < end;) {
    const auto part = std::span(chunk).first(std::min<uint64_t>(chunk.size(), end - next));
    ring.copy(next, part);
    if (!sink.put(std::as_bytes(part))) return false;
    next += part.size();
  }
  std::array<Words, kRunKinds> runs;
  for (uint32_t kind = 0; kind < kRunKinds; kind++) {
    runs[kind] = to_words(writer.begun_run(static_cast<Kind>(kind)));
  }
  const SectionEnd section_end{.put_count = ring.put_count(), .left_out = writer.left_out()};
  return sink.put(bytes_of(section_end)) && sink.put(std::as_bytes(std::span(runs)));
}

std::string recording_of(const FlightRecorder& recorder, Cause cause) {
  std::string text;
  StringSink sink(text);
  static_cast<void>(recorder.write(cause, sink));
  return text;
}

}  // namespace tributary::recorder
