// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tells whether a sanitizer slows the tests down, so that long walks can be shorter.
#pragma once

namespace tributary::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kIsSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace tributary::testing
