// SPDX-License-Identifier: Apache-2.0
#include "recorder/abnormal_end.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/assert.h"
#include "base/signal_safe_text.h"

namespace tributary::recorder {
namespace {

/// The signals of bugs, then those of an operator.
constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGUSR2};
constexpr size_t kBugs = 5;

using Path = std::array<char, 512>;

/// The data of the handlers. The texts and `before` are set before the recorder and the handlers.
struct Armed {
  std::atomic<bool> is_taken{false};  ///< True while an object owns the handlers.
  std::atomic<const FlightRecorder*> recorder{nullptr};
  std::atomic<pid_t> failed{0};            ///< The thread that writes; 0: none has failed.
  std::atomic<bool> writes_signal{false};  ///< A thread writes the file of an operator's signal.
  Path path{};
  Path signal_path{};
  size_t count = 0;  ///< The first `count` of kSignals have a handler.
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

bool is_bug(size_t index) { return index < kBugs; }

/// Returns the place of a signal in kSignals.
size_t index_of(int signal) {
  return static_cast<size_t>(std::find(kSignals.begin(), kSignals.end(), signal) -
                             kSignals.begin());
}

/// Creates the file, in place of the one of an earlier signal. Opens nothing that exists: a pipe
/// would hold the signal handler. @return -1 with errno.
int create(const char* path) {
  struct stat old {};
  if (::lstat(path, &old) == 0 && S_ISREG(old.st_mode)) ::unlink(path);
  return ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void write_recording(const FlightRecorder& recorder, const Path& path, Cause cause, int signal) {
  const int file = create(path.data());
  FileSink sink(file);
  const bool written = file >= 0 && recorder.write(cause, sink, static_cast<uint32_t>(signal));
  const int error = errno;
  write_error_text("tributary: signal ");
  write_error_number(signal);
  write_error_text(written ? ": the last events are in " : ": cannot write the last events to ");
  write_error_text(path.data());
  if (!written) {
    write_error_text(", error ");
    write_error_number(error);
  }
  write_error_text("\n");
  if (file >= 0) ::close(file);
}

void on_bug(int signal);
void on_operator(int signal, siginfo_t* info, void* context);

bool is_ours(const struct sigaction& action) {
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction == on_operator;
  return action.sa_handler == on_bug;
}

/// Restores an earlier handler, unless another one has been installed since.
void restore_handler(size_t index) {
  struct sigaction present {};
  if (sigaction(kSignals[index], nullptr, &present) != 0 || !is_ours(present)) return;
  static_cast<void>(sigaction(kSignals[index], &armed.before[index], nullptr));
}

void restore_handlers() {
  for (size_t i = 0; i < armed.count; i++) restore_handler(i);
}

void on_bug(int signal) {
  const int error = errno;
  pid_t writer = 0;
  if (!armed.failed.compare_exchange_strong(writer, ::gettid())) {
    // Another thread writes the file and then ends the process. If it is this one, writing failed.
    while (writer != ::gettid()) ::pause();
  } else if (const FlightRecorder* recorder = armed.recorder.load(); recorder != nullptr) {
    write_recording(*recorder, armed.path, Cause::kAbnormalEnd, signal);
  }
  restore_handlers();
  errno = error;
  // Blocked until this handler returns; then it ends the process.
  ::raise(signal);
}

/// Writes the file of an operator's signal. A second one meanwhile gets none.
void on_operator(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (!armed.writes_signal.exchange(true)) {
    // Loaded after the flag is set, in one order with wait_for_writer(): either that function sees
    // the flag, or this one sees that there is no recorder.
    const FlightRecorder* const recorder = armed.recorder.load();
    if (recorder != nullptr) {
      write_recording(*recorder, armed.signal_path, Cause::kSignal, signal);
    }
    armed.writes_signal.store(false);
  }
  const size_t index = index_of(signal);
  const struct sigaction& before = armed.before[index];
  errno = error;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else if (signal == SIGTERM && before.sa_handler == SIG_DFL) {
    restore_handler(index);
    ::raise(signal);
  }
}

/// Waits until no handler of another thread uses the recorder. @pre armed.recorder is null.
void wait_for_writer() {
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
  while (armed.writes_signal.load()) nanosleep(&kPause, nullptr);
}

}  // namespace

AbnormalEnd::AbnormalEnd(const FlightRecorder& recorder, const std::string& path,
                         const std::string& signal_path) {
  TRIB_ASSERT(!armed.is_taken.exchange(true));
  arm(recorder, path, signal_path);
}

std::unique_ptr<AbnormalEnd> AbnormalEnd::arm_if_free(const FlightRecorder& recorder,
                                                      const std::string& path,
                                                      const std::string& signal_path) {
  if (armed.is_taken.exchange(true)) return nullptr;
  arm(recorder, path, signal_path);
  return std::unique_ptr<AbnormalEnd>(new AbnormalEnd());
}

void AbnormalEnd::arm(const FlightRecorder& recorder, const std::string& path,
                      const std::string& signal_path) {
  put_text(armed.path, path.substr(0, 500).c_str());
  put_text(armed.signal_path, signal_path.substr(0, 500).c_str());
  armed.count = signal_path.empty() ? kBugs : kSignals.size();
  // A handler may run as soon as it is installed, and then needs the one before it.
  for (size_t i = 0; i < armed.count; i++) {
    static_cast<void>(sigaction(kSignals[i], nullptr, &armed.before[i]));
  }
  armed.recorder.store(&recorder);
  for (size_t i = 0; i < armed.count; i++) {
    struct sigaction action {};
    if (is_bug(i)) {
      action.sa_handler = on_bug;
      action.sa_flags = SA_ONSTACK;
    } else {
      action.sa_sigaction = on_operator;
      action.sa_flags = SA_ONSTACK | SA_SIGINFO | SA_RESTART;
    }
    sigemptyset(&action.sa_mask);
    static_cast<void>(sigaction(kSignals[i], &action, nullptr));
  }
}

AbnormalEnd::~AbnormalEnd() {
  restore_handlers();
  armed.recorder.store(nullptr);
  wait_for_writer();
  armed.is_taken.store(false);
}

}  // namespace tributary::recorder
