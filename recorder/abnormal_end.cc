// SPDX-License-Identifier: Apache-2.0
#include "recorder/abnormal_end.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/assert.h"

namespace tributary::recorder {
namespace {

constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/// What the handler needs. Set before the handlers are installed.
struct Armed {
  std::atomic<const FlightRecorder*> recorder{nullptr};
  std::atomic<pid_t> failed{0};  ///< The thread that writes; 0: none has failed.
  std::array<char, 512> path{};
  std::array<struct sigaction, kSignals.size()> before{};
};
Armed armed;

class FileSink final : public Sink {
 public:
  explicit FileSink(int file) : file_(file) {}
  bool put(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return true;
  }

 private:
  const int file_;
};

void say(std::string_view text) {
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

void say_number(int number) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  say({digits.data(), static_cast<size_t>(end - digits.data())});
}

void restore_handlers() {
  for (size_t i = 0; i < kSignals.size(); i++) {
    static_cast<void>(sigaction(kSignals[i], &armed.before[i], nullptr));
  }
}

void write_recording(const FlightRecorder& recorder, int signal) {
  const int file =
      ::open(armed.path.data(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  FileSink sink(file);
  const bool written =
      file >= 0 && recorder.write(Cause::kAbnormalEnd, sink, static_cast<uint32_t>(signal));
  const int error = errno;
  say("tributary: signal ");
  say_number(signal);
  say(written ? ": the last events are in " : ": cannot write the last events to ");
  say(armed.path.data());
  if (!written) {
    say(", error ");
    say_number(error);
  }
  say("\n");
  if (file >= 0) ::close(file);
}

void on_signal(int signal) {
  const int error = errno;
  pid_t writer = 0;
  if (!armed.failed.compare_exchange_strong(writer, ::gettid())) {
    // Another thread writes the file and then ends the process. If it is this one, writing failed.
    while (writer != ::gettid()) ::pause();
  } else if (const FlightRecorder* recorder = armed.recorder.load(); recorder != nullptr) {
    write_recording(*recorder, signal);
  }
  restore_handlers();
  errno = error;
  // Blocked until this handler returns; then it ends the process.
  ::raise(signal);
}

}  // namespace

AbnormalEnd::AbnormalEnd(const FlightRecorder& recorder, const std::string& path) {
  TRIB_ASSERT(armed.recorder.load() == nullptr);
  put_text(armed.path, path.substr(0, 500).c_str());
  armed.recorder.store(&recorder);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); i++) {
    static_cast<void>(sigaction(kSignals[i], &action, &armed.before[i]));
  }
}

AbnormalEnd::~AbnormalEnd() {
  restore_handlers();
  armed.recorder.store(nullptr);
}

}  // namespace tributary::recorder
