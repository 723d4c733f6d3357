// Fields of a word of a shell's command, as it expands.
#pragma once

#include <cctype>
#include <string>
#include <vector>

namespace tandem {

// The fields that one word becomes: mostly one, but none or several after an expansion.
struct WordFields {
  std::vector<std::string> texts;
  bool open = false;         // the last one goes on
  bool quotes_star = false;  // a * stands between quotes, so that it is none of a pattern

  void add(const std::string& text) {
    if (!open) texts.emplace_back();
    texts.back() += text;
    open = true;
  }
  // Splits a text at blanks, as the shell does outside of quotes.
  void add_split(const std::string& text) {
    std::string word;
    for (const char c : text) {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) {
        word += c;
        continue;
      }
      if (!word.empty()) add(word);
      word.clear();
      open = false;
    }
    if (!word.empty()) add(word);
  }
  void add_all(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) open = false;
      add(words[i]);
    }
  }
  // Returns all fields as one text, with a blank between two.
  std::string joined() const {
    std::string all;
    for (const std::string& text : texts) all += (all.empty() ? "" : " ") + text;
    return all;
  }
};

}  // namespace tandem
