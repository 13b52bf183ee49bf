// SPDX-License-Identifier: Apache-2.0
/// @file
/// The files of server/control/web/, which cmake/EmbedFiles.cmake embeds into the program.
///
/// Tests:   through tests/server/control/pages_test.cc
#pragma once

#include <string_view>

namespace tributary::control {

extern const std::string_view kDashboardHtml;
extern const std::string_view kEventsHtml;
extern const std::string_view kJobHtml;
extern const std::string_view kLayoutHtml;
extern const std::string_view kLiveJs;
extern const std::string_view kStyleCss;

}  // namespace tributary::control
