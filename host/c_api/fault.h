// SPDX-License-Identifier: Apache-2.0
/// @file
/// How errors leave the C interface: inside the library's C functions they are exceptions, at its
/// edge status codes with a text for each thread.
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

/// Of the thread's latest call.
[[nodiscard]] inline std::string& error_text() {
  thread_local std::string text;
  return text;
}

/// Keeps the text for tributary_error_text(), as far as memory allows.
inline tributary_status keep(tributary_status status, const char* text) noexcept {
  try {
    error_text() = text;
  } catch (...) {
    error_text().clear();
  }
  return status;
}

/// Runs the body of a C function, from which no exception escapes.
/// @param body Returns a tributary_status; throws Fault, or whatever the standard library throws.
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
