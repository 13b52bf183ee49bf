// SPDX-License-Identifier: Apache-2.0
// Method:  requests of the published client in virtual time, on places that only record calls. Then
//          requests that a server with several sessions must refuse.
#include "server/switchml/session_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tributary::server {
namespace {

using ::testing::HasSubstr;

/// Records the calls for each place.
class NotedPlaces final : public SessionPlaces {
 public:
  void begin(uint32_t place, const switchml::SessionConfig& session) override {
    begun[place]++;
    workers[place].assign(session.workers, Endpoint{});
  }
  void set_worker(uint32_t place, uint32_t worker, const Endpoint& address, uint64_t mac) override {
    workers[place].at(worker) = address;
    macs[address.to_string()] = mac;
  }
  void end(uint32_t place) override { workers.erase(place); }
  Instant last_heard_at(uint32_t place) override { return heard[place]; }

  std::map<uint32_t, std::vector<Endpoint>> workers;
  std::map<std::string, uint64_t> macs;
  std::map<uint32_t, uint32_t> begun;
  std::map<uint32_t, Instant> heard;
};

class SessionBookTest : public ::testing::Test {
 protected:
  static Endpoint address(uint32_t host) { return Endpoint::ipv4(0x0a000000 + host, 1); }
  std::string join(uint64_t id, uint32_t rank, uint32_t workers, uint32_t host,
                   uint32_t elements = 256) {
    const auto joined = book_.join({.session_id = id,
                                    .rank = rank,
                                    .num_workers = workers,
                                    .address = address(host),
                                    .elements = elements,
                                    .mac = 0x0200'0000'0000U + host},
                                   now_);
    return joined ? "" : joined.error().text;
  }

  NotedPlaces places_;
  SessionBook book_{{.shard = {.sessions_max = 2, .slots_max = 512}}, places_};
  Instant now_{seconds(10'000)};
};

TEST_F(SessionBookTest, TwoWorkersFormASession) {
  EXPECT_EQ(join(77, 0, 2, 1), "");
  EXPECT_EQ(join(77, 1, 2, 2), "");
  EXPECT_EQ(places_.workers,
            (std::map<uint32_t, std::vector<Endpoint>>{{0, {address(1), address(2)}}}));
  EXPECT_EQ(places_.macs[address(2).to_string()], 0x0200'0000'0002U);
  EXPECT_EQ(book_.entries()[0]->config.elements, 256U);
  EXPECT_EQ(book_.entries()[0]->config.slots, 512U);
  // A repeated request changes nothing. A repeat by rank 0 clears its session, as in the published
  // controller.
  EXPECT_EQ(join(77, 1, 2, 2), "");
  EXPECT_EQ(places_.begun[0], 1U);
  EXPECT_EQ(join(77, 0, 2, 1), "");
  EXPECT_EQ(places_.begun[0], 2U);
  EXPECT_EQ(places_.workers[0][1], Endpoint{});
}

TEST_F(SessionBookTest, SessionsAreIndependent) {
  EXPECT_EQ(join(1, 0, 1, 1), "");
  EXPECT_EQ(join(2, 0, 2, 2, 64), "");
  EXPECT_EQ(join(2, 1, 2, 1, 64), "rank 1: 10.0.0.1 is worker 0 of session 0x1, which is active");
  EXPECT_EQ(join(2, 1, 2, 2, 64),
            "rank 1: 10.0.0.2 is worker 0 of the same session, which is active");
  EXPECT_EQ(join(3, 0, 1, 9), "2 sessions are active; allowed: --sessions 2");
  EXPECT_EQ(join(2, 1, 2, 3, 64), "");
  EXPECT_EQ(join(2, 1, 3, 3, 64),
            "rank 1: num_workers=3 with 64 elements; session 0x2 has 2 with 64");
}

TEST_F(SessionBookTest, RestartedJobReplacesItsSession) {
  join(1, 0, 2, 1);
  join(1, 1, 2, 2);
  EXPECT_EQ(join(5, 0, 2, 1), "");
  EXPECT_EQ(join(5, 1, 2, 2), "");
  EXPECT_EQ(places_.workers.size(), 1U);
  EXPECT_EQ(book_.entries()[0]->id, 5U);
}

// The job returns with fewer workers, then with more. Its own ranks end the old session at once.
TEST_F(SessionBookTest, RestartedJobMayHaveAnotherSize) {
  for (uint32_t rank = 0; rank < 3; rank++) EXPECT_EQ(join(1, rank, 3, 1 + rank), "");
  places_.heard[0] = now_;
  for (uint32_t rank = 0; rank < 2; rank++) EXPECT_EQ(join(2, rank, 2, 1 + rank), "");
  EXPECT_EQ(places_.workers,
            (std::map<uint32_t, std::vector<Endpoint>>{{0, {address(1), address(2)}}}));
  for (uint32_t rank = 0; rank < 3; rank++) EXPECT_EQ(join(3, rank, 3, 1 + rank, 64), "");
  EXPECT_EQ(places_.workers,
            (std::map<uint32_t, std::vector<Endpoint>>{{0, {address(1), address(2), address(3)}}}));
  EXPECT_EQ(book_.entries()[0]->id, 3U);
}

TEST_F(SessionBookTest, SilentSessionIsReplaced) {
  join(1, 0, 1, 1);
  join(2, 0, 1, 2);
  now_ = now_ + seconds(599);
  EXPECT_NE(join(3, 0, 1, 3), "");
  places_.heard[0] = now_;
  now_ = now_ + seconds(1);
  EXPECT_EQ(join(3, 0, 1, 3), "");  // Replaces the second session, which is silent.
  EXPECT_EQ(book_.entries()[1]->id, 3U);
  EXPECT_NE(join(4, 1, 2, 1), "");
  now_ = now_ + seconds(600);
  EXPECT_EQ(join(4, 1, 2, 1), "");
}

TEST_F(SessionBookTest, RefusesSessionsThatAreNotAllowed) {
  EXPECT_THAT(join(1, 0, 33, 1), HasSubstr("workers=33; allowed: 1 to 32"));
  EXPECT_THAT(join(1, 0, 2, 1, 128), HasSubstr("elements=128; allowed: 64 or 256"));
  EXPECT_EQ(join(1, 2, 2, 1), "rank=2; allowed: 0 to 1");
  const auto nobody =
      book_.join({.num_workers = 1, .address = Endpoint::ipv4(0, 1), .elements = 64}, now_);
  EXPECT_EQ(nobody.error().text, "rank 0: ipv4=0.0.0.0; allowed: the address it sends from");
  EXPECT_TRUE(places_.begun.empty());
}

TEST_F(SessionBookTest, ConfiguredSessionsAreNotReplaced) {
  const switchml::SessionConfig two{.workers = 2, .elements = 64, .slots = 16};
  EXPECT_TRUE(book_.configure(two, {address(1), address(2)}, now_).has_value());
  now_ = now_ + seconds(100'000);
  EXPECT_EQ(join(1, 0, 2, 1),
            "rank 0: 10.0.0.1 is worker 0 of a configured session, which is active");
  EXPECT_EQ(book_.configure(two, {address(2), address(3)}, now_).error().text,
            "10.0.0.2 is in another session");
  EXPECT_EQ(book_.configure(two, {address(4), address(4)}, now_).error().text,
            "10.0.0.4 is listed twice");
  EXPECT_TRUE(book_.configure(two, {address(5), address(6)}, now_).has_value());
  EXPECT_EQ(book_.configure(two, {address(7), address(8)}, now_).error().text,
            "more sessions than --sessions 2");
}

}  // namespace
}  // namespace tributary::server
