// SPDX-License-Identifier: Apache-2.0
#include "net/topology_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/number_text.h"
#include "base/toml_file.h"

namespace tributary::net {
namespace {

constexpr double kBitsPerGigabit = 1e9;
constexpr double kTicksPerNanosecond = 1'000.0 / kPicosecondsPerTick;
constexpr double kDelayNanosecondsMax = 3.6e12;  // One hour, as in check(LinkConfig).
constexpr uint64_t kNodesMax = 65'536;           // The number of addresses that a generator has.
constexpr uint64_t kCablesMax = 65'536;  // Of a shape. Assumed: bounds its memory to some MB.

KeySpec share(std::string_view name, std::string_view help) {
  return {.name = name, .type = KeyType::kNumber, .help = help, .number_max = 1};
}
KeySpec delay(std::string_view name, std::string_view help) {
  return {.name = name, .type = KeyType::kNumber, .help = help, .number_max = kDelayNanosecondsMax};
}
KeySpec count(std::string_view name, std::string_view help) {
  return {.name = name, .type = KeyType::kUint, .help = help, .min = 1, .max = kNodesMax};
}
KeySpec text(std::string_view name, std::string_view help, bool required = false) {
  return {.name = name, .type = KeyType::kText, .help = help, .required = required};
}

const KeyTable& shape_keys() {
  static const std::array<KeySpec, 8> kKeys{
      text("shape", "star, chassis, two-level or leaf-spine", true),
      count("workers", "star: workers"),
      count("leaves", "leaves, racks or PFEs with workers"),
      count("workers_per_leaf", "workers at each of them"),
      count("spines", "leaf-spine: spines"),
      text("worker_kind", "kind of the workers"),
      text("leaf_kind", "kind of the leaves, and of a star's middle"),
      text("top_kind", "kind of the node above the leaves")};
  static const KeyTable kTable("topology", kKeys);
  return kTable;
}

const KeyTable& node_keys() {
  static const std::array<KeySpec, 3> kKeys{
      text("name", "its name", true), text("kind", "switch, or a kind of the program", true),
      KeySpec{.name = "address", .type = KeyType::kEndpoint, .help = "its address and UDP port"}};
  static const KeyTable kTable("node", kKeys);
  return kTable;
}

const KeyTable& cable_keys() {
  static const std::array<KeySpec, 2> kKeys{text("a", "NODE or NODE.PORT", true),
                                            text("b", "NODE or NODE.PORT", true)};
  static const KeyTable kTable("cable", kKeys);
  return kTable;
}

const KeyTable& group_keys() {
  static const std::array<KeySpec, 3> kKeys{KeySpec{.name = "address",
                                                    .type = KeyType::kEndpoint,
                                                    .help = "multicast address and UDP port",
                                                    .required = true},
                                            text("receivers", "names of nodes", true),
                                            text("senders", "names of nodes")};
  static const KeyTable kTable("group", kKeys);
  return kTable;
}

tl::unexpected<Error> again(const Error& error) { return failure(error.text); }

bool is_key_of(const KeyTable& table, const WrittenKey& key) {
  return table.index_of(key.name) >= 0;
}

/// Removes the keys for which `is_taken` holds and returns them in order.
template <class Predicate>
std::vector<WrittenKey> take_if(std::vector<WrittenKey>& keys, Predicate is_taken) {
  std::vector<WrittenKey> taken;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(taken), is_taken);
  std::erase_if(keys, is_taken);
  return taken;
}

/// Removes the keys of `table` from `keys` and returns them.
std::vector<WrittenKey> take_keys(const KeyTable& table, std::vector<WrittenKey>& keys) {
  return take_if(keys, [&](const WrittenKey& key) { return is_key_of(table, key); });
}

/// Removes the keys that begin with `prefix` and returns them without it.
std::vector<WrittenKey> take_prefixed(std::string_view prefix, std::vector<WrittenKey>& keys) {
  auto taken = take_if(keys, [&](const WrittenKey& key) { return key.name.starts_with(prefix); });
  for (WrittenKey& key : taken) key.name.erase(0, prefix.size());
  return taken;
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

/// Parses "leaf-0" or "leaf-0.3".
Result<CableEnd> cable_end(std::string_view key, const std::string& written,
                           const std::string& where) {
  const size_t dot = written.find('.');
  if (dot == std::string::npos) return CableEnd{written, std::nullopt};
  const auto port = parse_number<uint32_t>(std::string_view(written).substr(dot + 1));
  if (!port || *port > kPortMax) {
    return failure(
        fmt::format("{}: {}='{}' is not a port; allowed: NODE or NODE.PORT, ports 0 to {}", where,
                    key, written, kPortMax));
  }
  return CableEnd{written.substr(0, dot), *port};
}

/// Reads the parts of one file.
class Reader {
 public:
  Reader(const toml::table& file, const std::string& path) : file_(file), path_(path) {}

  Result<Topology> read() {
    for (const auto& step : {&Reader::read_names, &Reader::read_links, &Reader::read_shape,
                             &Reader::read_nodes, &Reader::read_cables, &Reader::read_groups}) {
      if (auto good = (this->*step)(); !good) return again(good.error());
    }
    if (auto good = check(topology_); !good) {
      const bool placed = good.error().text.starts_with(path_);
      return failure((placed ? "" : path_ + ": ") + good.error().text);
    }
    return std::move(topology_);
  }

 private:
  Result<void> read_names() {
    static const std::array<std::string, 6> kTables{"topology", "link",  "uplink",
                                                    "node",     "cable", "group"};
    for (const auto& [key, value] : file_) {
      const std::string name(key.str());
      if (std::find(kTables.begin(), kTables.end(), name) == kTables.end()) {
        return failure(
            fmt::format("{}: {}", place_of(path_, value), unknown_name("table", name, kTables)));
      }
      const bool is_list = name == "node" || name == "cable" || name == "group";
      if (is_list ? !value.is_array_of_tables() : !value.is_table()) {
        return failure(fmt::format("{}: {} is not a table; allowed: {}", place_of(path_, value),
                                   name, is_list ? "[[" + name + "]]" : "[" + name + "]"));
      }
    }
    return {};
  }

  Result<LinkConfig> link_of(const std::vector<WrittenKey>& keys, const std::string& where,
                             const LinkConfig& base) const {
    const auto row = link_keys().read(keys, where);
    if (!row) return again(row.error());
    const LinkConfig link = link_from(*row, base);
    if (auto good = check(link); !good) return failure(where + ": " + good.error().text);
    return link;
  }

  Result<void> read_links() {
    for (const auto& [name, link, base] :
         {std::tuple("link", &link_, &link_), std::tuple("uplink", &uplink_, &link_)}) {
      *link = *base;
      const toml::table* table = file_[name].as_table();
      if (table == nullptr) continue;
      const auto read = link_of(keys_of(*table, path_), place_of(path_, *table), *base);
      if (!read) return again(read.error());
      *link = *read;
    }
    return {};
  }

  Result<void> read_shape() {
    const toml::table* table = file_["topology"].as_table();
    if (table == nullptr) return {};
    const auto row = shape_keys().read(keys_of(*table, path_), place_of(path_, *table));
    if (!row) return again(row.error());
    return use_shape(*row);
  }

  /// Refuses keys that belong to another shape.
  static Result<void> check_shape_keys(const KeyValues& row,
                                       std::initializer_list<std::string_view> allowed) {
    for (const KeySpec& key : shape_keys().keys()) {
      if (key.name == "shape" || !row.has(key.name)) continue;
      if (std::find(allowed.begin(), allowed.end(), key.name) != allowed.end()) continue;
      return failure(fmt::format("{}: {} does not belong to shape='{}'; allowed: {}", row.where(),
                                 key.name, row.text("shape"), fmt::join(allowed, ", ")));
    }
    return {};
  }

  Result<void> use_shape(const KeyValues& row) {
    const std::string& shape = row.text("shape");
    const auto number = [&](std::string_view key, uint32_t fallback) {
      return row.has(key) ? static_cast<uint32_t>(row.uint(key)) : fallback;
    };
    const auto kind = [&](std::string_view key, std::string fallback) {
      return row.has(key) ? row.text(key) : fallback;
    };
    if (shape == "star") {
      const StarShape base;
      topology_ = star({number("workers", base.workers), kind("worker_kind", base.worker_kind),
                        kind("leaf_kind", base.switch_kind), link_});
      return name_places(row, check_shape_keys(row, {"workers", "worker_kind", "leaf_kind"}));
    }
    if (shape == "leaf-spine") {
      const LeafSpineShape base;
      const LeafSpineShape asked{number("leaves", base.leaves),
                                 number("workers_per_leaf", base.workers_per_leaf),
                                 number("spines", base.spines),
                                 kind("worker_kind", base.worker_kind),
                                 kind("leaf_kind", base.leaf_kind),
                                 kind("top_kind", base.spine_kind),
                                 link_,
                                 uplink_};
      if (auto good = check_size(row, asked.leaves, asked.workers_per_leaf, asked.spines); !good) {
        return good;
      }
      topology_ = leaf_spine(asked);
      return name_places(row, check_shape_keys(row, {"leaves", "workers_per_leaf", "spines",
                                                     "worker_kind", "leaf_kind", "top_kind"}));
    }
    if (shape != "chassis" && shape != "two-level") {
      return failure(
          fmt::format("{}: shape='{}' is unknown; allowed: star, chassis, two-level, "
                      "leaf-spine",
                      row.where(), shape));
    }
    const TwoLevelShape base;
    const TwoLevelShape asked{number("leaves", base.leaves),
                              number("workers_per_leaf", base.workers_per_leaf),
                              kind("worker_kind", base.worker_kind),
                              kind("leaf_kind", base.leaf_kind),
                              kind("top_kind", base.top_kind),
                              link_,
                              uplink_};
    if (auto good = check_size(row, asked.leaves, asked.workers_per_leaf, /*tops=*/1); !good) {
      return good;
    }
    topology_ = shape == "chassis" ? chassis(asked) : two_level(asked);
    return name_places(row, check_shape_keys(row, {"leaves", "workers_per_leaf", "worker_kind",
                                                   "leaf_kind", "top_kind"}));
  }

  /// Checks the size of a shape before it is built. Each leaf has a cable to each of the tops.
  static Result<void> check_size(const KeyValues& row, uint64_t leaves, uint64_t each,
                                 uint64_t tops) {
    const uint64_t workers = leaves * each;
    if (workers > kNodesMax) {
      return failure(fmt::format("{}: workers_per_leaf={} makes {} workers; allowed: at most {}",
                                 row.where(), each, workers, kNodesMax));
    }
    if (workers + leaves + tops > kNodesMax) {
      return failure(fmt::format("{}: leaves={} makes {} workers and switches; allowed: at most {}",
                                 row.where(), leaves, workers + leaves + tops, kNodesMax));
    }
    if (workers + leaves * tops > kCablesMax) {
      return failure(
          fmt::format("{}: leaves={} with {} spines makes {} cables; allowed: at most {}",
                      row.where(), leaves, tops, workers + leaves * tops, kCablesMax));
    }
    return {};
  }

  /// Gives the shape's parts the place of the shape.
  Result<void> name_places(const KeyValues& row, const Result<void>& checked) {
    if (!checked) return checked;
    for (NodeSpec& node : topology_.nodes) node.where = row.where();
    for (CableSpec& cable : topology_.cables) cable.where = row.where();
    return {};
  }

  /// Calls `read_one` for each [[name]].
  template <class F>
  Result<void> each(const char* name, F&& read_one) {
    const toml::array* list = file_[name].as_array();
    if (list == nullptr) return {};
    for (const toml::node& entry : *list) {
      const toml::table& table = *entry.as_table();
      Result<void> good = read_one(keys_of(table, path_), place_of(path_, table));
      if (!good) return good;
    }
    return {};
  }

  Result<void> read_nodes() {
    return each("node", [this](std::vector<WrittenKey> keys, const std::string& where) {
      return read_node(std::move(keys), where);
    });
  }

  Result<void> read_node(std::vector<WrittenKey> keys, const std::string& where) {
    const auto row = node_keys().read(take_keys(node_keys(), keys), where);
    if (!row) return again(row.error());
    NodeSpec node{row->text("name"), row->text("kind"), {}, std::move(keys), where};
    if (row->has("address")) node.address = row->endpoint("address");
    if (node.kind == kSwitchKind && !node.parameters.empty()) {
      std::vector<std::string> allowed;
      for (const KeySpec& key : node_keys().keys()) allowed.emplace_back(key.name);
      const WrittenKey& first = node.parameters.front();
      return failure(fmt::format("{}: {}", first.where, unknown_name("key", first.name, allowed)));
    }
    topology_.nodes.push_back(std::move(node));
    return {};
  }

  Result<void> read_cables() {
    return each("cable", [this](std::vector<WrittenKey> keys, const std::string& where) {
      return read_cable(std::move(keys), where);
    });
  }

  Result<void> read_cable(std::vector<WrittenKey> keys, const std::string& where) {
    const auto row = cable_keys().read(take_keys(cable_keys(), keys), where);
    if (!row) return again(row.error());
    const auto a = cable_end("a", row->text("a"), where);
    if (!a) return again(a.error());
    const auto b = cable_end("b", row->text("b"), where);
    if (!b) return again(b.error());
    const auto back_keys = take_prefixed("back.", keys);
    const auto forth = link_of(keys, where, link_);
    if (!forth) return again(forth.error());
    const auto back = link_of(back_keys, where, *forth);
    if (!back) return again(back.error());
    topology_.cables.push_back({*a, *b, *forth, *back, where});
    return {};
  }

  Result<void> read_groups() {
    return each("group", [this](const std::vector<WrittenKey>& keys, const std::string& where) {
      return read_group(keys, where);
    });
  }

  Result<void> read_group(const std::vector<WrittenKey>& keys, const std::string& where) {
    const auto row = group_keys().read(keys, where);
    if (!row) return again(row.error());
    GroupSpec group{row->endpoint("address"), names_in(row->text("receivers")), {}, where};
    if (row->has("senders")) group.senders = names_in(row->text("senders"));
    topology_.groups.push_back(std::move(group));
    return {};
  }

  const toml::table& file_;
  const std::string& path_;
  LinkConfig link_;
  LinkConfig uplink_;
  Topology topology_;
};

}  // namespace

const KeyTable& link_keys() {
  static const std::array<KeySpec, 14> kKeys{
      KeySpec{.name = "rate_gbps",
              .type = KeyType::kNumber,
              .help = "rate in Gbit/s",
              .number_min = 1e-6,
              .number_max = 10'000},
      delay("propagation_ns", "propagation delay"),
      KeySpec{.name = "queue_bytes", .type = KeyType::kUint, .help = "bound of the output queue"},
      KeySpec{.name = "ecn_bytes",
              .type = KeyType::kUint,
              .help = "packets that find more than this queued are marked"},
      share("loss", "probability that a packet is lost"),
      KeySpec{.name = "loss_run",
              .type = KeyType::kNumber,
              .help = "mean number of packets lost in a row",
              .number_min = 1},
      share("corrupt", "probability that a bit of a packet flips"),
      share("undetected", "probability that the checksum misses it"),
      KeySpec{.name = "flip_begin",
              .type = KeyType::kUint,
              .help = "first byte that an undetected flip may hit",
              .max = UINT32_MAX - 1},
      KeySpec{.name = "flip_end",
              .type = KeyType::kUint,
              .help = "the first byte after these",
              .max = UINT32_MAX},
      share("duplicate", "probability that a packet is delivered twice"),
      share("reorder", "probability that a packet is held back"),
      delay("jitter_ns", "further delay, uniform from 0; keeps the order"),
      delay("reorder_max_ns", "longest time that a packet is held back")};
  static const KeyTable kTable("link", kKeys);
  return kTable;
}

LinkConfig link_from(const KeyValues& row, const LinkConfig& base) {
  LinkConfig link = base;
  LinkFaults& faults = link.faults;
  if (row.has("rate_gbps")) {
    link.rate_bits_per_s = static_cast<uint64_t>(row.number("rate_gbps") * kBitsPerGigabit + 0.5);
  }
  for (const auto& [name, to] :
       {std::pair("queue_bytes", &link.queue_bytes_max), std::pair("ecn_bytes", &link.ecn_bytes)}) {
    if (row.has(name)) *to = row.uint(name);
  }
  for (const auto& [name, to] :
       {std::pair("flip_begin", &faults.flip_begin), std::pair("flip_end", &faults.flip_end)}) {
    if (row.has(name)) *to = static_cast<uint32_t>(row.uint(name));
  }
  for (const auto& [name, to] :
       {std::pair("loss", &faults.loss), std::pair("loss_run", &faults.loss_run),
        std::pair("corrupt", &faults.corrupt), std::pair("undetected", &faults.undetected),
        std::pair("duplicate", &faults.duplicate), std::pair("reorder", &faults.reorder)}) {
    if (row.has(name)) *to = row.number(name);
  }
  for (const auto& [name, to] :
       {std::pair("propagation_ns", &link.propagation), std::pair("jitter_ns", &faults.jitter),
        std::pair("reorder_max_ns", &faults.reorder_max)}) {
    if (row.has(name)) {
      *to =
          Duration::from_ticks(static_cast<int64_t>(row.number(name) * kTicksPerNanosecond + 0.5));
    }
  }
  return link;
}

Result<Topology> read_topology(const toml::table& file, const std::string& path) {
  return Reader(file, path).read();
}

Result<Topology> read_topology_file(const std::string& path) {
  const auto file = parse_toml_file(path, path);
  if (!file) return again(file.error());
  return read_topology(*file, path);
}

}  // namespace tributary::net
