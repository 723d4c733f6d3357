#include "interop/log/log_line.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace tandem {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Returns how many digits stand in the text from `at` on.
std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

// Leaves out "\x1b[...m" and the like, and the end of a line of Windows.
std::string without_colours(std::string_view raw) {
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '\x1b') {
      while (i < raw.size() && std::isalpha(static_cast<unsigned char>(raw[i])) == 0) ++i;
    } else if (raw[i] != '\r') {
      text += raw[i];
    }
  }
  return text;
}

// Returns the length of "2026-11-25T10:11:12.345Z stdout F " at the beginning; 0: there is none.
std::size_t time_size(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() < kForm.size()) return 0;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '0' ? !is_digit(text[i]) : kForm[i] != text[i]) return 0;
  }
  std::size_t end = kForm.size();
  while (end < text.size() && text[end] != ' ') ++end;
  for (const std::string_view stream : {" stdout F", " stderr F"}) {
    if (text.substr(end).starts_with(stream)) end += stream.size();
  }
  return std::min(end + 1, text.size());
}

// Returns the length of "12: ", which srun --label writes; 0: there is none.
std::size_t number_size(std::string_view text) {
  std::size_t end = text.find_first_not_of(' ');
  const std::size_t begin = end;
  while (end < text.size() && is_digit(text[end])) ++end;
  const bool is_label = end > begin && end < text.size() && text[end] == ':' &&
                        (end + 1 == text.size() || text[end + 1] == ' ');
  return is_label ? std::min(end + 2, text.size()) : 0;
}

// Returns the length of "[default3]:" or "[node0:7]:", which torchrun writes by role and number, or
// of "[1,31]<stdout>:", which mpirun writes; 0: there is none.
std::size_t bracket_size(std::string_view text) {
  const std::size_t end = text.find(']');
  if (!text.starts_with('[') || end == std::string_view::npos || !is_digit(text[end - 1])) return 0;
  const std::string_view inside = text.substr(1, end - 1), behind = text.substr(end + 1);
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.:").find(c) != std::string_view::npos;
  };
  const bool has_name = std::isalpha(static_cast<unsigned char>(inside.front())) != 0;
  if (behind.starts_with(':'))
    return has_name && std::all_of(inside.begin(), inside.end(), is_of_name) ? end + 2 : 0;
  for (const std::string_view stream : {"<stdout>:", "<stderr>:"}) {
    if (behind.starts_with(stream) &&
        inside.find_first_not_of("0123456789,") == std::string_view::npos)
      return end + 1 + stream.size();
  }
  return 0;
}

}  // namespace

LogLine log_line(std::string_view raw) {
  LogLine line{"", without_colours(raw)};
  for (bool again = true; again;) {
    again = false;
    if (const std::size_t time = time_size(line.text)) {
      line.text.erase(0, time);
      again = true;
    }
    for (const auto size : {number_size(line.text), bracket_size(line.text)}) {
      if (size == 0) continue;
      std::string label = line.text.substr(0, size);
      std::erase_if(
          label, [](char c) { return std::string_view(" []:").find(c) != std::string_view::npos; });
      line.label += (line.label.empty() ? "" : " ") + label;
      line.text.erase(0, size);
      again = true;
      break;
    }
  }
  return line;
}

std::vector<RawLine> raw_lines(std::string_view text) {
  std::vector<RawLine> lines;
  int number = 1;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    lines.push_back({text.substr(begin, end - begin), number});
    if (end < text.size() && text[end] == '\n') ++number;
    begin = end + 1;
  }
  const bool is_open = !text.empty() && text.back() != '\n' && text.back() != '\r';
  if (is_open) {
    std::string_view& last = lines.back().text;
    const std::size_t word = last.find_last_of(" :=") + 1;  // 0: the line is one word
    const bool is_number =
        word < last.size() && is_digit(last[word]) &&
        last.substr(word).find_first_not_of("0123456789.,eE+-") == std::string_view::npos;
    if (is_number) last = last.substr(0, word);
  }
  return lines;
}

std::optional<double> count_behind(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = text.find_first_not_of(' ', at + word.size());
  if (begin == std::string_view::npos) return std::nullopt;
  std::string digits;  // without commas between thousands
  for (std::size_t i = begin; i < text.size() && digits.size() < 40; ++i) {
    if (text[i] == ',') {
      const std::size_t behind = digits_at(text, i + 1);
      if (behind == 0) break;
      const bool is_whole = std::ranges::all_of(digits, is_digit);
      if (behind != 3 || digits_at(text, begin) > 3 || !is_whole) return std::nullopt;
      continue;
    }
    if (!is_digit(text[i]) && std::string_view(".eE+-").find(text[i]) == std::string_view::npos)
      break;
    digits += text[i];
  }
  double value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

std::optional<double> number_behind(std::string_view text, std::string_view word) {
  const auto value = count_behind(text, word);
  return value && *value > 0 ? value : std::nullopt;
}

}  // namespace tandem
