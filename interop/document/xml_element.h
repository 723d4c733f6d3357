// XmlElement: an element of an XML file, with the line where it begins. All readers of XML use this
// form, so that the parser library is named in one file only.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem {

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;  // elements only: texts and comments are left out
  int line = 0;

  // Returns the attribute's text; empty: there is none of that name.
  std::string_view text(std::string_view attribute) const;
  bool has(std::string_view attribute) const;
  // Returns the attribute's number; `otherwise`: it has none.
  double number(std::string_view attribute, double otherwise = 0) const;
  // Returns the first child of that name; null: there is none.
  const XmlElement* child(std::string_view child_name) const;
};

// Returns the root element. Errors begin with "path:line": text that is no XML or cut off, and a
// build without the library.
Result<XmlElement> parse_xml(const std::string& text, const std::string& path);

}  // namespace tandem
