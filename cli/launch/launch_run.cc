// SPDX-License-Identifier: Apache-2.0
#include "cli/launch/launch_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/cpus.h"
#include "cli/console.h"

namespace tributary::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReadyWithin{10};
/// Time for the other ranks to end after one has failed.
constexpr std::chrono::seconds kEndWithin{5};
/// The same after a signal from the user: enough to write a checkpoint.
constexpr std::chrono::seconds kEndAfterSignalWithin{30};
/// Time for the rank at fault to end, after another rank has failed because of it.
constexpr std::chrono::seconds kBlameWithin{5};

/// Signals as readable events. They stay blocked; child processes unblock them.
class SignalFile {
 public:
  SignalFile() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    file_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~SignalFile() {
    if (file_ >= 0) close(file_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalFile(const SignalFile&) = delete;
  SignalFile& operator=(const SignalFile&) = delete;

  [[nodiscard]] int file() const { return file_; }
  /// The next signal that is not a child's end; 0 if there is none.
  [[nodiscard]] int take() const {
    signalfd_siginfo info{};
    while (read(file_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    }
    return 0;
  }

 private:
  sigset_t before_{};
  int file_ = -1;
};

/// A child process and its state in the loop.
struct Member {
  ChildProcess process;
  std::string prefix;  ///< Printed before its lines.
  std::string share;   ///< See ProgramPlan.
  bool is_aggregator = false;
  bool ready = false;  ///< An aggregator that serves.
  bool stdout_open = true;
  bool stderr_open = true;
  bool settled = false;  ///< Its end has been handled.
};

bool all_settled(const std::vector<Member>& members) {
  return std::all_of(members.begin(), members.end(), [](const Member& one) { return one.settled; });
}

class Launch {
 public:
  Launch(const LaunchPlan& plan, bool keep_going, std::FILE* out, std::FILE* err)
      : plan_(plan), keep_going_(keep_going), out_(out), err_(err) {}

  int run();

 private:
  Result<Member> start(const ProgramPlan& plan, std::string prefix);
  bool check_prerequisites();
  bool start_aggregators();
  bool start_ranks();
  void turn();
  void wait();
  static void pass_line(std::FILE* file, const Member& member, const std::string& line);
  void pass_lines(Member& member);
  void pass_signals();
  void look_at_ends();
  void look_at_failure(const Member& rank);
  void look_at_loss(const Member& aggregator);
  void blame_victim_in_time();
  [[nodiscard]] std::string early_ends() const;
  void fail(const std::string& text, int exit_code);
  void end_all(int signal, Clock::duration within);
  void end_aggregators();
  [[nodiscard]] std::vector<Member*> members();
  void say(const std::string& text) { print_to(err_, "tributary launch: {}\n", text); }

  const LaunchPlan& plan_;
  const bool keep_going_;
  std::FILE* const out_;
  std::FILE* const err_;
  const SignalFile signals_;
  std::vector<Member> aggregators_;
  bool aggregators_asked_to_end_ = false;
  std::vector<std::string> shares_lost_;  ///< Their aggregators have ended while the ranks run.
  std::string loss_;                      ///< The end of the last of these aggregators.
  std::vector<Member> ranks_;
  std::optional<int> exit_code_;  ///< Exit code of the first failure, of a rank at fault if one is.
  /// The first failure that another rank has caused, until that rank has ended, and the exit code.
  std::optional<std::pair<std::string, int>> victim_;
  std::optional<Clock::time_point> blame_victim_at_;
  bool checking_ = false;  ///< ranks_ has the check of the prerequisites.
  bool ending_ = false;
  std::optional<Clock::time_point> kill_at_;
};

Result<Member> Launch::start(const ProgramPlan& plan, std::string prefix) {
  auto child = ChildProcess::start({.name = plan.name,
                                    .program = plan.program,
                                    .arguments = plan.arguments,
                                    .inherited_files = {},
                                    .environment = plan.environment});
  if (!child) return tl::unexpected(child.error());
  return Member{.process = std::move(*child), .prefix = std::move(prefix), .share = plan.share};
}

/// Runs the check of the prerequisites, which prints one line if one is missing.
bool Launch::check_prerequisites() {
  if (!plan_.check) return true;
  auto member = start(*plan_.check, "tributary launch: ");
  if (!member) {
    fail(member.error().text, 1);
    return false;
  }
  checking_ = true;
  ranks_.push_back(std::move(*member));
  while (!all_settled(ranks_)) turn();
  checking_ = false;
  ranks_.clear();
  return !exit_code_;
}

bool Launch::start_aggregators() {
  for (const ProgramPlan& plan : plan_.aggregators) {
    const std::string_view name = plan.name;
    auto member = start(plan, fmt::format("[{}] ", name.substr(name.find("aggregator"))));
    if (!member) {
      fail(member.error().text, 1);
      return false;
    }
    member->is_aggregator = true;
    aggregators_.push_back(std::move(*member));
  }
  if (aggregators_.empty()) return true;
  const auto waiting = [this] {
    return std::find_if(aggregators_.begin(), aggregators_.end(),
                        [](const Member& one) { return !one.ready; });
  };
  kill_at_ = Clock::now() + kReadyWithin;  // Free until an end is requested.
  while (waiting() != aggregators_.end() && !ending_) {
    turn();
    const auto late = waiting();
    if (late != aggregators_.end() && !ending_ && Clock::now() >= *kill_at_) {
      fail(fmt::format("{} did not become ready in time", late->process.name()), 1);
    }
  }
  if (!ending_) kill_at_.reset();
  return !ending_;
}

bool Launch::start_ranks() {
  if (!plan_.rank_cpus.empty()) pin_to_cpus(plan_.rank_cpus);
  for (size_t local = 0; local < plan_.ranks.size(); local++) {
    const ProgramPlan& plan = plan_.ranks[local];
    const std::string number = plan.name.substr(plan.name.find(' ') + 1);
    auto member = start(plan, fmt::format("[{}] ", number));
    if (!member) {
      fail(member.error().text, 1);
      return false;
    }
    ranks_.push_back(std::move(*member));
  }
  return true;
}

void Launch::wait() {
  std::vector<pollfd> files{{signals_.file(), POLLIN, 0}};
  std::vector<bool*> open_flags{nullptr};
  const auto add = [&](Member& member) {
    if (member.settled) return;
    if (member.stdout_open) {
      files.push_back({member.process.stdout_file(), POLLIN, 0});
      open_flags.push_back(&member.stdout_open);
    }
    if (member.stderr_open) {
      files.push_back({member.process.stderr_file(), POLLIN, 0});
      open_flags.push_back(&member.stderr_open);
    }
  };
  for (Member* member : members()) add(*member);

  int timeout_ms = -1;
  for (const auto& until : {kill_at_, blame_victim_at_}) {
    if (!until) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
    const int left_ms = static_cast<int>(std::max<int64_t>(left, 0));
    timeout_ms = timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
  }
  poll(files.data(), files.size(), timeout_ms);
  for (size_t i = 1; i < files.size(); i++) {
    // The child closed the pipe, and it is empty: poll() would always report it.
    if ((files[i].revents & (POLLHUP | POLLERR)) != 0 && (files[i].revents & POLLIN) == 0) {
      *open_flags[i] = false;
    }
  }
}

/// Prints a line of a member. Each step of a progress bar stays one that the next overwrites.
void Launch::pass_line(std::FILE* file, const Member& member, const std::string& line) {
  if (line == "\r") return;
  print_to(file, "{}{}{}", member.prefix, line, line.ends_with('\r') ? "" : "\n");
}

void Launch::pass_lines(Member& member) {
  for (const std::string& line : member.process.take_lines()) {
    if (member.is_aggregator) {
      member.ready = member.ready || line.starts_with("ready");
    } else {
      pass_line(out_, member, line);
    }
  }
  for (const std::string& line : member.process.take_error_lines()) pass_line(err_, member, line);
  std::fflush(out_);
  std::fflush(err_);
}

void Launch::pass_signals() {
  const int signal = signals_.take();
  if (signal == 0) return;
  if (!exit_code_) exit_code_ = 128 + signal;
  if (ending_) {
    kill_at_ = Clock::now();  // A second signal: kill at once.
    return;
  }
  say(fmt::format("{}; passed on to the ranks; a second signal kills them", strsignal(signal)));
  end_all(signal, kEndAfterSignalWithin);
}

void Launch::fail(const std::string& text, int exit_code) {
  // A rank at fault decides, even if a victim of it has ended before.
  const bool has_victim = keep_going_ && exit_code_ == kExitBecauseOfPeer;
  if (!exit_code_ || has_victim) exit_code_ = exit_code;
  if (ending_) return;  // Other ranks end on request or because of the first failure.
  const bool others_left =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Member& rank) { return !rank.settled; });
  if (keep_going_) return say(text);
  say(others_left ? text + "; ending the other ranks" : text);
  end_all(SIGTERM, kEndWithin);
}

void Launch::end_all(int signal, Clock::duration within) {
  ending_ = true;
  kill_at_ = Clock::now() + within;
  for (Member& rank : ranks_) {
    if (!rank.settled) rank.process.signal_group(signal);
  }
  if (!ranks_.empty()) return;
  for (Member& one : aggregators_) one.process.signal(SIGTERM);
}

void Launch::look_at_ends() {
  for (Member& rank : ranks_) {
    if (rank.settled || !rank.process.has_ended()) continue;
    pass_lines(rank);  // Its last lines are still in the pipe.
    if (!rank.process.stdout_rest().empty()) pass_line(out_, rank, rank.process.stdout_rest());
    if (!rank.process.stderr_rest().empty()) pass_line(err_, rank, rank.process.stderr_rest());
    rank.settled = true;
    if (rank.process.ended_well()) continue;
    rank.process.signal_group(SIGTERM);  // End processes that it left behind.
    look_at_failure(rank);
  }
  for (Member& one : aggregators_) {
    if (one.settled || !one.process.has_ended()) continue;
    pass_lines(one);
    one.settled = true;
    if (aggregators_asked_to_end_ && one.process.ended_well()) continue;
    look_at_loss(one);
  }
}

/// Handles the unwanted end of an aggregator. The ranks of several decide themselves: they may join
/// again without it.
void Launch::look_at_loss(const Member& aggregator) {
  const std::string text =
      fmt::format("{} ended with {}", aggregator.process.name(), aggregator.process.end_text());
  const bool ranks_run = !ranks_.empty() && !checking_ && !all_settled(ranks_);
  if (std::ranges::find(shares_lost_, aggregator.share) == shares_lost_.end()) {
    shares_lost_.push_back(aggregator.share);
  }
  if (!ranks_run || ending_ || shares_lost_.size() >= plan_.shares) return fail(text, 1);
  loss_ = text;
  say(
      fmt::format("{}; it had the share of {}; {} of {} shares are left to ranks that join again, "
                  "as with tributary.torch.rejoin()",
                  text, aggregator.share, plan_.shares - shares_lost_.size(), plan_.shares));
}

/// Names the rank at fault: one that failed because of another waits for that one's end.
void Launch::look_at_failure(const Member& rank) {
  const int exit_code = rank.process.exit_code();
  if (checking_) {  // It has said why.
    exit_code_ = exit_code_.value_or(exit_code);
    ending_ = true;
    return;
  }
  const std::string text =
      fmt::format("{} ended with {}", rank.process.name(), rank.process.end_text());
  if (exit_code != kExitBecauseOfPeer || ending_ || keep_going_) return fail(text, exit_code);
  if (!loss_.empty()) return fail(fmt::format("{}, because {}", text, loss_), exit_code);
  if (victim_) return;
  victim_ = {text + ", because of another rank or the aggregator", exit_code};
  blame_victim_at_ = Clock::now() + kBlameWithin;
}

/// Reports the victim if no rank at fault has ended in time.
void Launch::blame_victim_in_time() {
  if (!blame_victim_at_) return;
  if (!ending_ && !all_settled(ranks_) && Clock::now() < *blame_victim_at_) return;
  blame_victim_at_.reset();
  if (!ending_) fail(victim_->first + early_ends(), victim_->second);
}

/// Names the ranks that have ended well, because a victim may have waited for one of them.
std::string Launch::early_ends() const {
  std::string text;
  for (const Member& rank : ranks_) {
    if (!rank.settled || !rank.process.ended_well()) continue;
    text += fmt::format("{} {}", text.empty() ? "; ended with exit status 0:" : ",",
                        rank.process.name());
  }
  return text;
}

void Launch::turn() {
  wait();
  pass_signals();
  for (Member* member : members()) {
    if (!member->settled) pass_lines(*member);
  }
  look_at_ends();
  blame_victim_in_time();
  if (!ending_ || !kill_at_ || Clock::now() < *kill_at_) return;
  for (Member& rank : ranks_) {
    if (!rank.settled) rank.process.signal_group(SIGKILL);
  }
  kill_at_.reset();  // The kernel does the rest.
}

std::vector<Member*> Launch::members() {
  std::vector<Member*> all;
  for (Member& one : aggregators_) all.push_back(&one);
  for (Member& one : ranks_) all.push_back(&one);
  return all;
}

/// Asks the aggregators to end. A signal from the user asks a second time, which ends those that
/// serve ranks on other machines.
void Launch::end_aggregators() {
  aggregators_asked_to_end_ = true;
  for (Member& one : aggregators_) one.process.signal(SIGTERM);
  kill_at_ = Clock::now() + kEndWithin + plan_.aggregators_linger;
  while (!all_settled(aggregators_)) {
    wait();
    if (signals_.take() != 0) {
      for (Member& one : aggregators_) one.process.signal(SIGTERM);
    }
    for (Member& one : aggregators_) {
      if (!one.settled) pass_lines(one);
    }
    look_at_ends();
    if (!all_settled(aggregators_) && Clock::now() >= *kill_at_) {
      return fail("an aggregator did not end when asked to", 1);  // The destructor kills it.
    }
  }
}

int Launch::run() {
  if (!check_prerequisites()) return *exit_code_;
  if (start_aggregators()) start_ranks();
  while (!all_settled(ranks_)) turn();
  end_aggregators();
  return exit_code_.value_or(0);
}

}  // namespace

int run_launch(const LaunchPlan& plan, bool keep_going, std::FILE* out, std::FILE* err) {
  return Launch(plan, keep_going, out, err).run();
}

}  // namespace tributary::cli
