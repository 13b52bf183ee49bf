// SPDX-License-Identifier: Apache-2.0
#include "cli/operate/local_server.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

#include "auth/private_file.h"
#include "base/terminal_text.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "cli/version.h"
#include "server/control/tokens.h"
#include "server/socket_place.h"

namespace tributary::cli {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr const char* kTokenFileFlag = "--token-file";
/// The prefix with which a server refers to the body of a request. See control/job_routes.h.
constexpr std::string_view kOfBody = "body: ";

/// Returns the first token of a file. Skips comments as control::parse_tokens() does, which the
/// server uses for its own file. Empty: there is none.
std::string first_token(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (words >> word && !word.starts_with('#')) return word;
  }
  return {};
}

Result<ChosenServer> server_at(const ServerChoice& choice) {
  std::string url = choice.url;
  while (url.ends_with('/')) url.pop_back();
  if (!url.starts_with(kHttp) || url.find('/', kHttp.size()) != std::string::npos) {
    return failure(
        fmt::format("--url '{}' is not allowed; allowed: http://HOST:PORT, the address "
                    "of the server's --http",
                    choice.url));
  }
  if (choice.token_file.empty()) return ChosenServer{url, {url}};
  const auto text =
      auth::read_private_file(kTokenFileFlag, choice.token_file, control::kTokenFileBytesMax);
  if (!text) return tl::unexpected(text.error());
  const std::string token = first_token(*text);
  if (token.empty()) {
    return failure(
        fmt::format("{} {}: there is no token to read", kTokenFileFlag, choice.token_file));
  }
  return ChosenServer{url, {url, token}};
}

/// Returns the cause of an exception, without the "[json.exception.NAME.NUMBER] " before it.
std::string_view cause_of(const nlohmann::json::exception& exception) {
  std::string_view text = exception.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string_view::npos) {
    text.remove_prefix(end + 2);
  }
  return text;
}

}  // namespace

void add_server_name(CLI::App& command, ServerChoice& choice) {
  auto* const name = command
                         .add_option("--name", choice.name,
                                     "Name of the server; needed only if several run on this "
                                     "machine")
                         ->type_name("NAME");
  auto* const url =
      command
          .add_option("--url", choice.url,
                      "Ask the server that serves --http at this URL, perhaps on another machine: "
                      "http://HOST:PORT")
          ->type_name("URL")
          ->excludes(name);
  command
      .add_option(kTokenFileFlag, choice.token_file,
                  "With --url: file whose first word, after comments, is the token; only its owner "
                  "may read it")
      ->type_name("FILE")
      ->needs(url);
}

void add_json_output(CLI::App& command, ServerChoice& choice) {
  command.add_flag("--json", choice.as_json, "Print JSON instead of text");
}

Result<ChosenServer> find_server(const ServerChoice& choice) {
  if (!choice.url.empty()) return server_at(choice);
  const auto servers = server::find_servers(server::socket_folders());
  if (!servers) return tl::unexpected(servers.error());
  auto found = server::choose_server(*servers, choice.name);
  if (!found) return tl::unexpected(found.error());
  return ChosenServer{found->name, found->path};
}

int ask_server(const char* command, const ServerChoice& choice, const std::string& path,
               const std::function<int(const ChosenServer&)>& ask) {
  const auto server = find_server(choice);
  if (!server) {
    const int failed = fail(command, server.error());
    return choice.url.empty() ? failed : kExitUsage;  // With a URL, only the flags can be wrong.
  }
  try {
    return ask(*server);
  } catch (const nlohmann::json::exception& exception) {
    return fail(command,
                {fmt::format("{}: the answer to {} is not one of tributary {} ({})",
                             server->address.place, path, program_version(), cause_of(exception))});
  }
}

int fail(const char* command, const Error& error) {
  // The server names the part of the request at fault: here that is a flag of this command.
  std::string_view text = error.text;
  if (text.starts_with(kOfBody)) text.remove_prefix(kOfBody.size());
  print_error("tributary {}: {}\n", command, terminal_text(text));
  return 1;
}

void print_answer(std::string_view text) { print("{}", terminal_text(text, LineEnds::kKeep)); }

}  // namespace tributary::cli
