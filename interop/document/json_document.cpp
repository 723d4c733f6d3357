// JSON as a DocumentNode: the only file of this module that names the JSON library's parser.
// Declared in interop/document/document.h.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "interop/document/document.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// Reads characters and counts the lines that it has passed.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  int* line_;
};

// Replaces Infinity and NaN, which Python writes but JSON does not have, by null.
std::string without_infinities(std::string text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;  // skips an escaped character, such as a quote
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    if (quoted) continue;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (text.compare(i, word.size(), word) == 0) {
        text.replace(i, word.size(),
                     word.size() < 4 ? "null" : "null" + std::string(word.size() - 4, ' '));
        break;
      }
    }
  }
  return text;
}

// Builds the nodes while the parser reads.
class NodeBuilder : public nlohmann::json_sax<Json> {
 public:
  NodeBuilder(DocumentNode* root, const int* line) : root_(root), line_(line) {}

  bool null() override { return put({}); }
  bool boolean(bool flag) override { return put(flag); }
  bool number_integer(number_integer_t whole) override { return put(std::int64_t{whole}); }
  bool number_unsigned(number_unsigned_t whole) override {
    if (whole > static_cast<number_unsigned_t>(INT64_MAX)) return put(static_cast<double>(whole));
    return put(static_cast<std::int64_t>(whole));
  }
  bool number_float(number_float_t number, const string_t&) override { return put(number); }
  bool string(string_t& word) override { return put(word); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(DocumentNode::Map{}); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(DocumentNode::List{}); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    std::get<DocumentNode::Map>(open_.back()->value).push_back({name, {{}, *line_}});
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    why = error.what();
    return false;
  }

  std::string why;

 private:
  // Returns the node that the next value belongs into.
  DocumentNode* next() {
    if (open_.empty()) return root_;
    if (auto* list = std::get_if<DocumentNode::List>(&open_.back()->value))
      return &list->emplace_back(DocumentNode{{}, *line_});
    return &std::get<DocumentNode::Map>(open_.back()->value).back().value;
  }
  bool put(decltype(DocumentNode::value) value) {
    next()->value = std::move(value);
    return true;
  }
  // A node does not move while it is open: its list grows only after it has been closed.
  bool open(decltype(DocumentNode::value) value) {
    if (open_.size() >= kMostDepth) {
      why = fmt::format("nested more than {} levels deep", kMostDepth);
      return false;
    }
    DocumentNode* node = next();
    node->value = std::move(value);
    open_.push_back(node);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  DocumentNode* root_;
  const int* line_;
  std::vector<DocumentNode*> open_;
};

}  // namespace

Result<DocumentNode> parse_json(const std::string& text, const std::string& path) {
  const std::string strict = without_infinities(text);
  int line = 1;
  DocumentNode root{{}, 1};
  NodeBuilder builder(&root, &line);
  const CountingIterator first(strict.data(), &line), last(strict.data() + strict.size(), &line);
  if (Json::sax_parse(first, last, &builder)) return root;
  // Keeps the end of "[json.exception.parse_error.101] parse error at line 3, column 5: syntax
  // error ...".
  const std::size_t column = builder.why.rfind("column ");
  const std::size_t colon = column == std::string::npos ? column : builder.why.find(": ", column);
  std::string why = colon == std::string::npos ? builder.why : builder.why.substr(colon + 2);
  std::replace(why.begin(), why.end(), '\n', ' ');
  return Error::at(fmt::format("{}:{}", path, line),
                   fmt::format("found text that is not JSON ({}), expected JSON", why));
}

}  // namespace tandem
