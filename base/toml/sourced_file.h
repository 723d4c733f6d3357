// SourcedFile: a TOML file of data in which each number has its source, as in key = {value = 1,
// source = "where it comes from"}.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/key_value.h"
#include "base/result.h"

namespace tandem {

// Pairs such as {"intra_GBps", "NVIDIA DGX A100 data sheet, ..."}, in the order of reading.
using Sources = std::vector<std::pair<std::string, std::string>>;

// A file that is read key by key. finish() returns an Error if it has other keys than those that
// were read. All Errors name file, line and key.
class SourcedFile {
 public:
  static Result<SourcedFile> read(const std::string& path);
  SourcedFile(SourcedFile&&) noexcept;
  SourcedFile& operator=(SourcedFile&&) noexcept;
  ~SourcedFile();

  bool has(const std::string& key) const;
  const Sources& sources() const { return sources_; }

  // Reads a plain text without a source: a name, not a number.
  Result<std::string> text(const std::string& key);

  Result<double> number(const std::string& key);
  Result<double> share(const std::string& key);  // above 0, at most 1
  Result<bool> flag(const std::string& key);
  Result<std::string> word(const std::string& key);
  Result<int> count(const std::string& key);  // 0 to 1,000,000

  // Sets the member of a BoundKey (keys/bind.h) if the file has the key's last word. bound.set()
  // returns the text of what it expected if it refuses the value.
  template <class Bound, class Target>
  Status set(const Bound& bound, Target* target) {
    const std::string name(bound.key.last_word());
    if (!has(name)) return Done{};
    ASSIGN_OR_RETURN(const KeyValue found, value(name));
    if (const auto what = bound.set(found, target)) return expected(name, *what);
    return Done{};
  }

  // Returns the keys that end in `suffix`, without it.
  std::vector<std::string> stems(std::string_view suffix) const;

  // Returns an Error if an entry was never read.
  Status finish() const;

  // Returns the Error "file:line: found no 'key', expected ...".
  Error expected(const std::string& key, std::string_view what) const;

 private:
  struct Table;  // hides toml++ from includers
  SourcedFile(std::string path, std::unique_ptr<Table> table);

  Result<KeyValue> value(const std::string& key);

  template <class T>
  Result<T> sourced(const std::string& key, std::string_view what);

  std::string path_;
  std::unique_ptr<Table> table_;
  std::vector<std::string> read_;
  Sources sources_;
};

}  // namespace tandem
