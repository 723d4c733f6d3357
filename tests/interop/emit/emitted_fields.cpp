// Reads emitted texts into fields. Declared in tests/interop/emit/emit_rules.h.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/interop/emit/emit_rules.h"

namespace tandem {
namespace {

// Returns a value without quotes, and YAML's switches in Python's words.
std::string plain(std::string value) {
  while (!value.empty() && value.front() == ' ') value.erase(0, 1);
  if (value.size() > 1 && (value.front() == '\'' || value.front() == '"') &&
      value.back() == value.front())
    value = value.substr(1, value.size() - 2);
  return value == "true" ? "True" : value == "false" ? "False" : value;
}

// Adds "--name value", "--name", "--no-name" and "policy:choice".
void add_flag(const std::string& line, Fields* fields) {
  const std::string word = line.substr(line.find_first_not_of(' '));
  if (!word.starts_with("--")) {
    const std::size_t colon = word.find(':');
    if (colon != std::string::npos) (*fields)[word.substr(0, colon)] = word.substr(colon + 1);
    return;
  }
  std::string name = word.substr(2, word.find(' ') - 2);
  std::ranges::replace(name, '-', '_');
  const std::size_t blank = word.find(' ');
  std::string value = blank == std::string::npos ? "True" : plain(word.substr(blank + 1));
  if (blank == std::string::npos && name.starts_with("no_")) {
    name = name.substr(3);
    value = "False";
  }
  (*fields)[name] = value;
}

void add_json(const nlohmann::json& json, const std::string& prefix, Fields* fields) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      add_json(value, prefix + key + ".", fields);
    } else {
      (*fields)[prefix + key] = plain(value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

// Adds "key: value" by its indentation, two blanks a level.
void add_yaml(const std::string& line, std::vector<std::string>* path, Fields* fields) {
  const std::size_t indent = line.find_first_not_of(' '), colon = line.find(':');
  path->resize(indent / 2);
  const std::string key = line.substr(indent, colon - indent);
  const std::string value = line.substr(colon + 1);
  std::string name;
  for (const std::string& part : *path) name += part + ".";
  path->push_back(key);
  if (value.empty()) return;
  (*fields)[name + key] = plain(value);
  if (plain(value) != "null") (*fields)[key] = plain(value);
}

}  // namespace

std::string Fields::text(const std::string& name, const std::string& otherwise) const {
  const auto found = find(name);
  return found == end() ? otherwise : found->second;
}

long long Fields::num(const std::string& name, long long otherwise) const {
  const std::string value = text(name);
  return value.empty() ? otherwise : std::stoll(value);
}

Fields fields_of(const std::string& framework, const std::string& text) {
  Fields fields;
  if (framework == "deepspeed") {
    add_json(nlohmann::json::parse(text), "", &fields);
    return fields;
  }
  std::vector<std::string> path;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::string environment = "# environment: ";
    if (line.starts_with(environment)) {
      const std::string name = line.substr(environment.size());
      const std::size_t end = name.find_first_of("= ");
      fields["env." + name.substr(0, end)] =
          name.substr(end + 1, name.find(' ', end + 1) - end - 1);
    }
    if (line.starts_with('#') || line.empty()) continue;
    const bool flags = framework == "megatron" || framework == "torchtitan";
    if (flags && line.starts_with("    ")) add_flag(line, &fields);
    if (!flags) add_yaml(line, &path, &fields);
  }
  return fields;
}

}  // namespace tandem
