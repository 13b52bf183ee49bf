// SPDX-License-Identifier: Apache-2.0
/// @file
/// The files of server/control/web/, which cmake/EmbedFiles.cmake embeds into the program.
///
/// Tests:   through tests/server/control/pages_test.cc
#pragma once

#include <string_view>

namespace tributary::control {

extern const std::string_view kAggregatorHtml;
extern const std::string_view kBlocksHtml;
extern const std::string_view kCountsHtml;
extern const std::string_view kDashboardHtml;
extern const std::string_view kEventsHtml;
extern const std::string_view kJobHtml;
extern const std::string_view kLayoutHtml;
extern const std::string_view kLiveJs;
extern const std::string_view kProgramHtml;
extern const std::string_view kSessionsHtml;
extern const std::string_view kStyleCss;
extern const std::string_view kTrafficHtml;

}  // namespace tributary::control
