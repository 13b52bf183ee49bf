// SPDX-License-Identifier: Apache-2.0
/// @file
/// A value that a thread keeps in one register. On a metered machine it counts its reads and
/// writes. On other machines it is a plain variable.
///
///   auto ir0 = microcode::make_register<Drop>(m);
///   ir0 = Drop::kNonIp;        // A register write of the current instruction.
///   const Drop reason = ir0;   // A register read.
///
/// Tests: tests/microcode/access_meter_test.cc
#pragma once

#include <source_location>

#include "microcode/access_meter.h"

namespace tributary::microcode {

template <class T>
class MeteredRegister {
  static_assert(sizeof(T) <= kRegisterBytes, "one register holds the value");

 public:
  MeteredRegister(AccessMeter& meter, const AccessMeter::Place& place)
      : meter_(meter), place_(place) {}
  MeteredRegister(const MeteredRegister&) = delete;  // The address names the register.

  MeteredRegister& operator=(const T& value) {
    meter_.write_register(this, place_);
    value_ = value;
    return *this;
  }
  operator T() const {
    meter_.read_register(this, place_);
    return value_;
  }

 private:
  AccessMeter& meter_;
  AccessMeter::Place place_;
  T value_{};
};

/// Returns a register of the current thread.
/// @param place Its definition, by which reports name it.
template <class T, class M>
[[nodiscard]] auto make_register(
    M& m, const std::source_location& place = std::source_location::current()) {
  if constexpr (requires { m.access_meter(); }) {
    return MeteredRegister<T>(m.access_meter(), place);
  } else {
    return T{};
  }
}

}  // namespace tributary::microcode
