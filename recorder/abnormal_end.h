// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes a recording when a bug or a signal ends the process: SIGSEGV, SIGBUS, SIGFPE, SIGILL,
/// SIGABRT (a failed assertion, systemd's watchdog).
///
/// Model:   The handler uses system calls only, writes the file, and lets the signal end the process
///          as it would have. One object at a time is armed.
/// Threads: Any thread may fail. The first one writes; others wait for the end.
/// Errors:  The handler prints one line: the file, or the number of the error (errno).
/// Tests:   tests/recorder/abnormal_end_test.cc, tests/system/record_test.cc
#pragma once

#include <string>

#include "recorder/flight_recorder.h"

namespace tributary::recorder {

class AbnormalEnd {
 public:
  /// @param recorder Must outlive this object.
  /// @param path     Of the file, which is made by the handler; cut to 500 bytes.
  AbnormalEnd(const FlightRecorder& recorder, const std::string& path);
  /// Restores the handlers that were there before.
  ~AbnormalEnd();
  AbnormalEnd(const AbnormalEnd&) = delete;
  AbnormalEnd& operator=(const AbnormalEnd&) = delete;
};

}  // namespace tributary::recorder
