// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors of the C interface. Inside the C functions they are exceptions. At the edge they become
/// status codes, with one error text for each thread.
///
/// Threads: The text belongs to the calling thread.
/// Tests:   tests/host/c_api/c_api_test.cc
#pragma once

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "host/include/tributary.h"

namespace tributary::host {

/// A call that ends with a status other than TRIBUTARY_OK.
struct Fault {
  tributary_status status;
  std::string text;
};

/// Returns the text of the calling thread's latest status.
[[nodiscard]] inline std::string& error_text() {
  thread_local std::string text;
  return text;
}

/// Stores the text for tributary_error_text(), as far as memory allows.
inline tributary_status keep(tributary_status status, const char* text) noexcept {
  try {
    error_text() = text;
  } catch (...) {
    error_text().clear();
  }
  return status;
}

/// Runs the body of a C function. No exception escapes.
/// @param body Returns a tributary_status; may throw Fault or a standard exception.
template <class Body>
tributary_status guarded(Body&& body) noexcept {
  try {
    error_text().clear();
    return std::forward<Body>(body)();
  } catch (const Fault& fault) {
    return keep(fault.status, fault.text.c_str());
  } catch (const std::bad_alloc&) {
    return keep(TRIBUTARY_SYSTEM, "out of memory");
  } catch (const std::system_error& error) {
    return keep(TRIBUTARY_SYSTEM, error.what());
  } catch (const std::exception& error) {
    return keep(TRIBUTARY_INTERNAL, error.what());
  } catch (...) {
    return keep(TRIBUTARY_INTERNAL, "unknown exception");
  }
}

}  // namespace tributary::host
