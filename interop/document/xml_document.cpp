// XML as XmlElements: the only file that names the XML library. A build without the library (the
// executor's, which has only headers) gives an Error when an XML file is read. Declared in
// interop/document/xml_element.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "interop/document/document.h"
#include "interop/document/xml_element.h"

#ifdef TANDEM_XML
#include <pugixml.hpp>
#endif

namespace tandem {

bool XmlElement::has(std::string_view attribute) const {
  return std::ranges::any_of(attributes, [&](const auto& pair) { return pair.first == attribute; });
}

std::string_view XmlElement::text(std::string_view attribute) const {
  for (const auto& [key, value] : attributes) {
    if (key == attribute) return value;
  }
  return {};
}

double XmlElement::number(std::string_view attribute, double otherwise) const {
  const std::string_view value = text(attribute);
  double number = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = failed == std::errc{} && end == value.data() + value.size();
  return is_number && !value.empty() ? number : otherwise;
}

const XmlElement* XmlElement::child(std::string_view child_name) const {
  const auto found = std::ranges::find(children, child_name, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

#ifdef TANDEM_XML
namespace {

// Finds the lines of rising offsets into the text, counting from the offset before.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}

  int line_at(std::ptrdiff_t offset) {
    const auto at = std::min(text_.size(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(
                                               offset, static_cast<std::ptrdiff_t>(at_))));
    const std::string_view between = text_.substr(at_, at - at_);
    line_ += static_cast<int>(std::ranges::count(between, '\n'));
    at_ = at;
    return line_;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// Copies an element with its children. Returns false if it is nested deeper than any tool writes.
bool copy_element(const pugi::xml_node& from, int depth, LineCounter* lines, XmlElement* to) {
  if (depth > kMostDepth) return false;
  to->name = from.name();
  to->line = lines->line_at(from.offset_debug());
  for (const pugi::xml_attribute& attribute : from.attributes())
    to->attributes.emplace_back(attribute.name(), attribute.value());
  for (const pugi::xml_node& child : from.children()) {
    if (child.type() != pugi::node_element) continue;
    if (!copy_element(child, depth + 1, lines, &to->children.emplace_back())) return false;
  }
  return true;
}

}  // namespace

Result<XmlElement> parse_xml(const std::string& text, const std::string& path) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  const pugi::xml_node root = document.document_element();
  if (!parsed || !root) {
    const int line = LineCounter(text).line_at(parsed ? 0 : parsed.offset);
    return Error::at(fmt::format("{}:{}", path, line),
                     fmt::format("found no XML ({}), expected a whole file",
                                 parsed ? "it has no element" : parsed.description()));
  }
  for (pugi::xml_node next = root.next_sibling(); next; next = next.next_sibling()) {
    if (next.type() != pugi::node_element) continue;
    return Error::at(fmt::format("{}:{}", path, LineCounter(text).line_at(next.offset_debug())),
                     fmt::format("found <{}> behind the file's <{}>, expected one element that "
                                 "holds all others",
                                 next.name(), root.name()));
  }
  XmlElement element;
  LineCounter lines(text);
  if (!copy_element(root, 0, &lines, &element))
    return Error::at(path, fmt::format("found elements in more than {} others", kMostDepth));
  return element;
}

#else

Result<XmlElement> parse_xml(const std::string&, const std::string& path) {
  return Error{fmt::format("{}: found XML, expected another form: this build has no pugixml", path),
               Error::Missing};
}

#endif

}  // namespace tandem
