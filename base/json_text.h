// Writes JSON as text. Bytes that are not UTF-8, which a command line may contain, become U+FFFD.
#pragma once

#include <string>

namespace tandem {

// Returns the JSON on one line, without its end.
template <class Json>
std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns the JSON indented, with the end of its last line: what --json prints.
template <class Json>
std::string json_document(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace tandem
