// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks JSON against the schemas of the OpenAPI description, as far as that uses them.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace tributary::testing {

class SchemaCheck {
 public:
  /// @param description The OpenAPI description.
  explicit SchemaCheck(nlohmann::json description) : description_(std::move(description)) {}

  /// Returns the first place where the value breaks the schema, as in "/jobs/0/id: is no integer";
  /// empty if it matches.
  [[nodiscard]] std::string fault(const nlohmann::json& value, const nlohmann::json& schema,
                                  const std::string& at = "") const {
    if (schema.contains("$ref")) {
      const auto name = schema["$ref"].get<std::string>().substr(1);
      return fault(value, description_.at(nlohmann::json::json_pointer(name)), at);
    }
    if (value.is_null() && schema.value("nullable", false)) return {};
    const auto type = schema.value("type", "no type");
    if (!has_type(value, type)) return at + ": is no " + type + ": " + value.dump();
    if (schema.contains("enum") &&
        std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
      return at + ": is none of " + schema["enum"].dump() + ": " + value.dump();
    }
    if (value.is_number() &&
        (value < schema.value("minimum", value) || value > schema.value("maximum", value))) {
      return at + ": is out of bounds: " + value.dump();
    }
    if (value.is_array()) return fault_of_items(value, schema, at);
    return value.is_object() ? fault_of_object(value, schema, at) : std::string();
  }

 private:
  static bool has_type(const nlohmann::json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    return type == "number" && value.is_number();
  }
  [[nodiscard]] std::string fault_of_items(const nlohmann::json& value,
                                           const nlohmann::json& schema,
                                           const std::string& at) const {
    for (size_t i = 0; i < value.size(); i++) {
      std::string found = fault(value[i], schema.at("items"), at + "/" + std::to_string(i));
      if (!found.empty()) return found;
    }
    return {};
  }
  [[nodiscard]] std::string fault_of_object(const nlohmann::json& value,
                                            const nlohmann::json& schema,
                                            const std::string& at) const {
    for (const nlohmann::json& name : schema.value("required", nlohmann::json::array())) {
      if (!value.contains(name)) return at + ": lacks " + name.dump();
    }
    const nlohmann::json properties = schema.value("properties", nlohmann::json::object());
    const nlohmann::json others = schema.value("additionalProperties", nlohmann::json(true));
    for (const auto& [name, member] : value.items()) {
      const std::string place = at + "/" + name;
      if (properties.contains(name)) {
        std::string found = fault(member, properties[name], place);
        if (!found.empty()) return found;
      } else if (others.is_object()) {
        std::string found = fault(member, others, place);
        if (!found.empty()) return found;
      } else if (others == false) {
        return place + ": is not described";
      }
    }
    return {};
  }

  const nlohmann::json description_;
};

/// Returns the schema of an operation's answer; null if the answer is not JSON.
inline nlohmann::json answer_schema(const nlohmann::json& operation) {
  const nlohmann::json& content = operation.at("responses").at("200").at("content");
  return content.contains("application/json") ? content["application/json"].at("schema")
                                              : nlohmann::json();
}

}  // namespace tributary::testing
