// SPDX-License-Identifier: Apache-2.0
// A libtributary that is older than the package supports.
#include <cstdint>

extern "C" uint32_t tributary_abi() { return 0; }
extern "C" const char* tributary_version() { return "0.0.9"; }
