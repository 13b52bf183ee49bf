// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes a recording when a bug or a signal ends the process: SIGSEGV, SIGBUS, SIGFPE, SIGILL,
/// SIGABRT (a failed assertion, systemd's watchdog). Unless the process handles them itself,
/// SIGTERM and SIGUSR2 also write a recording; the process survives SIGUSR2.
///
/// Model:   The handler uses system calls only and writes the file. Then the handler that was there
///          before takes the signal, or ends the process. One object at a time is armed.
/// Threads: Any thread may fail. The first one writes; others wait for the end.
/// Errors:  The handler prints one line: the file, or the number of the error (errno).
/// Tests:   tests/recorder/abnormal_end_test.cc, tests/system/record_test.cc
#pragma once

#include <memory>
#include <string>

#include "recorder/flight_recorder.h"

namespace tributary::recorder {

class AbnormalEnd {
 public:
  /// @param recorder Must outlive this object.
  /// @param path     Path of the file, which is made by the handler; cut to 500 bytes.
  /// @param signal_path Path of the file for SIGTERM and SIGUSR2, likewise; the newest one stays.
  ///                    Empty: these signals keep their handlers.
  AbnormalEnd(const FlightRecorder& recorder, const std::string& path,
              const std::string& signal_path = {});
  /// Makes an object unless another one is armed. @return null if another one is.
  static std::unique_ptr<AbnormalEnd> arm_if_free(const FlightRecorder& recorder,
                                                  const std::string& path,
                                                  const std::string& signal_path);
  /// Restores the handlers that were there before, except where another has been installed since.
  /// Waits for a thread that writes the file of SIGTERM or SIGUSR2.
  ~AbnormalEnd();
  AbnormalEnd(const AbnormalEnd&) = delete;
  AbnormalEnd& operator=(const AbnormalEnd&) = delete;

 private:
  AbnormalEnd() = default;  ///< @pre The caller has claimed `armed`.
  static void arm(const FlightRecorder& recorder, const std::string& path,
                  const std::string& signal_path);
};

}  // namespace tributary::recorder
