#include "cli/command_line/help_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/split.h"
#include "cli/command_line/text_width.h"
#include "report/text/text_table.h"

namespace tandem {
namespace {

// Widths are in characters.
constexpr int kWithoutTerminal = 100;         // the width in files and pipes, as for timelines
constexpr int kTwoColumns = 64;               // in less, the text is below the option's name
constexpr int kOptions = 30, kCommands = 14;  // where the text beside their names begins

int help_width() {
  const int width = text_width(false);
  return width == kAnyWidth ? kWithoutTerminal : width;
}

std::string blanks(int count) { return std::string(static_cast<std::size_t>(count), ' '); }

// Wraps the text and indents all its lines alike.
std::string indented(const std::string& text, int indent, int width) {
  std::string all;
  for (const std::string& line : split(wrapped(text, width - indent), "\n"))
    all += blanks(indent) + line.substr(std::min(line.find_first_not_of(' '), line.size())) + '\n';
  return all;
}

// Lays out a name with its text beside it, from `column` on, or below it where that is too narrow.
std::string entry(std::string name, const std::string& description, int column) {
  const int width = help_width();
  if (static_cast<int>(name.size()) > width - 4) {  // break "{ideal,simgrid}" at its commas
    for (std::size_t at = 0; (at = name.find(',', at)) != std::string::npos; ++at)
      name.insert(at + 1, " ");
  }
  const bool has_two_columns = width >= kTwoColumns;
  const std::string text = indented(description, has_two_columns ? column : 6, width);
  const bool fits_beside = has_two_columns && static_cast<int>(name.size()) + 4 <= column;
  if (!fits_beside) return wrapped("  " + name, width) + '\n' + text;
  return "  " + name + text.substr(2 + name.size());  // in place of the first line's blanks
}

class HelpText : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return entry(make_option_name(option, is_positional) + make_option_opts(option),
                 option->get_description(), kOptions);
  }

  // The list of commands shows the first sentence of a description; the command's own help shows
  // all.
  std::string make_subcommand(const CLI::App* command) const override {
    std::string sentence = command->get_description();
    sentence.erase(std::min(sentence.find(". "), sentence.size()));
    if (sentence.ends_with('.')) sentence.pop_back();
    return entry(command->get_name(), sentence, kCommands);
  }

  std::string make_description(const CLI::App* app) const override {
    return wrapped(Formatter::make_description(app), help_width());
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    return wrapped(Formatter::make_usage(app, std::move(name)), help_width());
  }

  // Examples are broken so that they can be pasted as they are.
  std::string make_footer(const CLI::App* app) const override {
    std::string all;
    for (const std::string& line : split(app->get_footer(), "\n"))
      all += (line.find("tandem ") == std::string::npos ? wrapped(line, help_width())
                                                        : wrapped_command(line, help_width())) +
             '\n';
    return all;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_text() { return std::make_shared<HelpText>(); }

}  // namespace tandem
