// SPDX-License-Identifier: Apache-2.0
// Method: the API's commands with a JobControl that records its calls and refuses as it is told:
//         each URL once, then each error.
#include "server/control/job_routes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/job_keys.h"

namespace tributary::control {
namespace {

using nlohmann::json;
using server::JobFault;
using server::JobResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Records each call as a line.
class Recorder : public server::JobControl {
 public:
  [[nodiscard]] std::optional<server::RunningJob> find_job(uint32_t) const override { return {}; }
  JobResult add_job(const trio_ml::JobConfig& job) override {
    added = job;
    return answer(fmt::format("add {}", job.id));
  }
  JobResult remove_job(uint32_t id, bool force) override {
    return answer(fmt::format("remove {} {}", id, force));
  }
  JobResult drain_job(uint32_t id) override { return answer(fmt::format("drain {}", id)); }
  JobResult change_job(uint32_t id, const server::JobChange& change) override {
    std::string call = fmt::format("change {}", id);
    if (change.timeout) call += fmt::format(" timeout {}", in_nanoseconds(*change.timeout));
    if (change.silence) call += fmt::format(" silence {}", trio_ml::to_string(*change.silence));
    return answer(call);
  }
  JobResult evict_source(uint32_t id, uint32_t source) override {
    return answer(fmt::format("evict {} {}", id, source));
  }

  std::vector<std::string> calls;
  trio_ml::JobConfig added;
  JobResult result;

 private:
  JobResult answer(std::string call) {
    calls.push_back(std::move(call));
    return result;
  }
};

class JobRoutes : public ::testing::Test {
 protected:
  Reply ask(const std::string& method, const std::string& path, const std::string& body = "",
            const std::string& query = "") {
    return api_.handle({.method = method, .path = path, .query = query, .body = body});
  }
  /// Expects an error that says `text`, and that no command was carried out.
  void expect_refused(const Reply& reply, int status, const std::string& text) {
    EXPECT_EQ(reply.status, status) << text;
    const json body = json::parse(reply.body, nullptr, false);
    ASSERT_TRUE(body.is_object()) << reply.body;
    EXPECT_EQ(body.size(), 1U);
    EXPECT_THAT(body.value("error", ""), HasSubstr(text));
    EXPECT_THAT(jobs_.calls, IsEmpty()) << text;
    jobs_.calls.clear();
  }

  Recorder jobs_;
  bool ready_ = true;
  Api api_{{.name = "box",
            .version = "1.2",
            .snapshot = [] { return server::Snapshot(); },
            .is_ready = [this] { return ready_; },
            .settings = {},
            .jobs = &jobs_}};
};

TEST_F(JobRoutes, EachUrlCallsItsCommand) {
  EXPECT_EQ(ask("POST", "/v1/jobs", R"({"id": 3, "sources": 4})").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/jobs/3").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/jobs/3", "", "force=true").status, 200);
  EXPECT_EQ(ask("POST", "/v1/jobs/3/drain").status, 200);
  EXPECT_EQ(ask("PATCH", "/v1/jobs/3", R"({"timeout_ms": 25})").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/jobs/3/sources/2").status, 200);
  EXPECT_THAT(jobs_.calls, ElementsAre("add 3", "remove 3 false", "remove 3 true", "drain 3",
                                       "change 3 timeout 25000000", "evict 3 2"));
}

TEST_F(JobRoutes, AddTakesTheKeysOfTheConfigurationFile) {
  const Reply reply = ask("POST", "/v1/jobs", R"({"id": 7, "sources": 2, "window": 64,
      "block_grad_max": 100, "history": 2, "shared_buffers": false, "mitigation": true,
      "timeout_ms": 30, "clients": "sessions", "group": "239.0.0.1:5000"})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  const json job = json::parse(reply.body)["job"];
  EXPECT_EQ(job["block_cnt_max"], 64);
  EXPECT_EQ(job["shared_buffers"], false);
  EXPECT_EQ(job["clients"], "sessions");
  for (const KeySpec& key : server::job_keys().keys()) {
    const bool is_shown = key.name != "window" && key.name != "secret_file";
    EXPECT_EQ(job.contains(key.name), is_shown) << key.name;
  }
  EXPECT_EQ(jobs_.added.id, 7);
  EXPECT_EQ(jobs_.added.block_cnt_max, 64U);
  EXPECT_EQ(jobs_.added.history, 2U);
  EXPECT_FALSE(jobs_.added.shared_buffers);
  EXPECT_EQ(jobs_.added.timeout, milliseconds(30));
  EXPECT_EQ(jobs_.added.clients, trio_ml::Clients::kSessions);
  EXPECT_EQ(jobs_.added.group.to_string(), "239.0.0.1:5000");
}

TEST_F(JobRoutes, AddRefusesABadBody) {
  const auto add = [this](const std::string& body) { return ask("POST", "/v1/jobs", body); };
  expect_refused(add(""), 400, "the body is not JSON");
  expect_refused(add("{\"id\": 3"), 400, "the body is not JSON");
  expect_refused(add("\xff"), 400, "the body is not JSON");
  expect_refused(add(R"({"id": 3, "sources": 2, "id": 4})"), 400,
                 "key 'id' is given twice; allowed: once");
  expect_refused(add(std::string(8000, '[')), 400, "the body is not JSON");
  expect_refused(add("[3]"), 400, "not a JSON object");
  expect_refused(add(R"({"id": 3})"), 400, "sources");
  expect_refused(add(R"({"id": 3, "sorces": 4})"), 400, "did you mean 'sources'?");
  expect_refused(add(R"({"id": 3, "sources": 300})"), 400, "a whole number from 1 to 256");
  expect_refused(add(R"({"id": 256, "sources": 4})"), 400, "0 to 255");
  expect_refused(add(R"({"id": -1, "sources": 4})"), 400, "0 to 255");
  expect_refused(add(R"({"id": 3, "sources": "4"})"), 400, "sources");
  expect_refused(add(R"({"id": 3, "sources": 4.5})"), 400, "sources");
  expect_refused(add(R"({"id": 3, "sources": [4]})"), 400, "sources");
  expect_refused(add(R"({"id": 3, "sources": null})"), 400, "sources");
  expect_refused(add(R"({"id": 3, "sources": 4, "timeout_ms": 5})"), 400, "needs mitigation=on");
  expect_refused(add(R"({"id": 3, "sources": 4, "window": 100})"), 400, "a power of two");
  expect_refused(add(R"({"id": 3, "sources": 4, "auth": "full", "secret_file": "/none/x"})"), 400,
                 "/none/x");
  ready_ = false;
  expect_refused(add(R"({"id": 3, "sources": 4})"), 503, "the server ends");
}

TEST_F(JobRoutes, PatchChangesTheEffectOfSilence) {
  const Reply reply = ask("PATCH", "/v1/jobs/3", R"({"silence": "exclude", "timeout_ms": 7})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(json::parse(reply.body), (json{{"id", 3}, {"silence", "exclude"}, {"timeout_ms", 7}}));
  EXPECT_THAT(jobs_.calls, ElementsAre("change 3 timeout 7000000 silence exclude"));
}

TEST_F(JobRoutes, PatchRefusesEverythingButATimeoutAndSilence) {
  const auto patch = [this](const std::string& body) { return ask("PATCH", "/v1/jobs/3", body); };
  expect_refused(patch("timeout_ms=5"), 400, "the body is not JSON");
  expect_refused(patch("{}"), 400, "timeout_ms or silence is missing");
  expect_refused(patch(R"({"silence": "ignore"})"), 400, "allowed: auto, wait, exclude, end");
  expect_refused(patch(R"({"silence": 3})"), 400, "silence");
  expect_refused(patch(R"({"sources": 5})"), 400, "key 'sources' of a running job cannot change");
  expect_refused(patch(R"({"timeout_ms": 0})"), 400, "1 to 60000");
  expect_refused(patch(R"({"timeout_ms": 60001})"), 400, "1 to 60000");
  expect_refused(patch(R"({"timeout_ms": "5"})"), 400, "timeout_ms");
}

TEST_F(JobRoutes, RefusesNumbersAndQueriesThatAreNone) {
  expect_refused(ask("DELETE", "/v1/jobs/three"), 404, "job 'three' does not exist");
  expect_refused(ask("POST", "/v1/jobs/-1/drain"), 404, "job '-1' does not exist");
  expect_refused(ask("PATCH", "/v1/jobs/3x", R"({"timeout_ms": 5})"), 404, "job '3x'");
  expect_refused(ask("DELETE", "/v1/jobs/3/sources/x"), 404, "source 'x' does not exist");
  expect_refused(ask("DELETE", "/v1/jobs/x/sources/1"), 404, "job 'x' does not exist");
  // GET knows the job as 1 only.
  expect_refused(ask("DELETE", "/v1/jobs/01"), 404, "job '01' does not exist");
  expect_refused(ask("DELETE", "/v1/jobs/3/sources/00"), 404, "source '00' does not exist");
  expect_refused(ask("DELETE", "/v1/jobs/3", "", "force=yes"), 400, "allowed: force=true");
  expect_refused(ask("POST", "/v1/jobs/3/drain", "", "force=true"), 400,
                 "POST /v1/jobs/3/drain takes no query");
  expect_refused(ask("GET", "/v1/who", "", "job=7"), 400, "GET /v1/who takes no query");
  EXPECT_EQ(ask("DELETE", "/v1/jobs/0").status, 200);
  jobs_.calls.clear();
  // A number that no job can have reaches the server, which knows its jobs.
  static_cast<void>(ask("DELETE", "/v1/jobs/99999999999999999999"));
  EXPECT_THAT(jobs_.calls, ElementsAre("remove 4294967295 false"));
}

TEST_F(JobRoutes, EachFaultHasItsStatus) {
  const auto status = [this](JobFault fault) {
    jobs_.result = tl::unexpected(server::JobError{fault, "why"});
    const Reply reply = ask("DELETE", "/v1/jobs/3");
    EXPECT_EQ(json::parse(reply.body), (json{{"error", "why"}}));
    return reply.status;
  };
  EXPECT_EQ(status(JobFault::kUnknownJob), 404);
  EXPECT_EQ(status(JobFault::kUnknownSource), 404);
  EXPECT_EQ(status(JobFault::kExists), 409);
  EXPECT_EQ(status(JobFault::kInUse), 409);
  EXPECT_EQ(status(JobFault::kNotAllowed), 409);
  EXPECT_EQ(status(JobFault::kEnding), 503);
  EXPECT_EQ(status(JobFault::kNoMemory), 507);
}

TEST_F(JobRoutes, OtherMethodsAreRefusedWithThoseAllowed) {
  const auto expect_allowed = [this](const std::string& method, const std::string& path,
                                     const std::string& allowed) {
    const Reply reply = ask(method, path);
    expect_refused(reply, 405, "allowed: " + allowed);
    const std::vector<std::pair<std::string, std::string>> headers{{"Allow", allowed}};
    EXPECT_EQ(reply.headers, headers);
  };
  expect_allowed("PUT", "/v1/jobs", "GET, POST");
  expect_allowed("DELETE", "/v1/jobs", "GET, POST");
  expect_allowed("POST", "/v1/jobs/3", "GET, PATCH, DELETE");
  expect_allowed("GET", "/v1/jobs/3/drain", "POST");
  expect_allowed("GET", "/v1/jobs/3/sources/1", "DELETE");
  expect_refused(ask("DELETE", "/v1/jobs/3/sources/"), 404, "no such URL");
  expect_refused(ask("DELETE", "/v1/jobs//sources/1"), 404, "no such URL");
  expect_refused(ask("POST", "/v1/jobs/3/drain/x"), 404, "no such URL");
}

}  // namespace
}  // namespace tributary::control
