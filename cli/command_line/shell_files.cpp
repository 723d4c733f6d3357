// Makes the manual page (roff) and the completions for bash, zsh and fish from the commands and
// options that CLI11 knows.
#include "cli/command_line/shell_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <span>

#include "cli/command_line/version.h"
#include "keys/key.h"

namespace tandem {
namespace {

// One command and the names that lead to it. The list holds a command with subcommands itself, then
// each of them: ("bench"), ("bench", "comm").
struct CommandAt {
  std::vector<std::string> path;  // without the program
  const CLI::App* app = nullptr;
};

void collect(const CLI::App& app, const std::vector<std::string>& path,
             std::vector<CommandAt>* all) {
  all->push_back({path, &app});
  for (const CLI::App* below : app.get_subcommands({})) {
    std::vector<std::string> longer = path;
    longer.push_back(below->get_name());
    collect(*below, longer, all);
  }
}

std::vector<CommandAt> commands_of(const CLI::App& app) {
  std::vector<CommandAt> all;
  collect(app, {}, &all);
  return all;
}

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* below : app.get_subcommands({})) names.push_back(below->get_name());
  return names;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

// Gives the option's names: "--op", and "-o" where it has a short name.
std::vector<std::string> words_of(const CLI::Option& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
  for (const std::string& name : option.get_snames()) words.push_back("-" + name);
  return words;
}

// Gives the values that the option may have, separated by blanks; "" where its type lists none.
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  if (begin == std::string::npos) return "";
  std::string values = type.substr(begin + 1, type.find('}', begin) - begin - 1);
  for (char& c : values) c = c == ',' ? ' ' : c;
  return values;
}

// Says whether the option takes KEY=VALUE of a scenario.
bool takes_key(const CLI::Option& option) {
  return option.check_lname("set") || option.check_lname("among");
}

// Gives all keys of a scenario as an option takes them: "parallel.tp= parallel.pp= ...".
std::string keys_to_set() {
  std::string all;
  for (const std::span<const KeyRow> rows : kKeyTables) {
    for (const KeyRow& row : rows) all += fmt::format("{}{}=", all.empty() ? "" : " ", row.name);
  }
  return all;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

// Puts the text into single quotes, in which a shell keeps everything but a quote as it is.
std::string in_single_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Makes a function that finds the command in the words typed so far, and offers its subcommands and
// options. After an option whose values are listed, it offers those.
std::string bash(const CLI::App& app) {
  const std::string name = app.get_name();
  std::string function = "_" + name;
  for (char& c : function) c = c == '-' ? '_' : c;
  std::string paths, options;
  for (const CommandAt& at : commands_of(app)) {
    std::vector<std::string> words = names_below(*at.app);
    for (const CLI::Option* option : options_of(*at.app)) {
      for (const std::string& word : words_of(*option)) words.push_back(word);
      const std::string values =
          takes_key(*option) ? "$keys" : in_single_quotes(values_of(*option));
      if (values != "''")
        options += fmt::format(
            "    '{} '{}) words={} ;;\n", fmt::join(at.path, " "),
            fmt::join(words_of(*option), fmt::format("|'{} '", fmt::join(at.path, " "))), values);
    }
    paths += fmt::format("    '{}') words={} ;;\n", fmt::join(at.path, " "),
                         in_single_quotes(fmt::format("{}", fmt::join(words, " "))));
  }
  return fmt::format(
      "# Completion of {0} for bash; made by {0} --shell-file bash.\n"
      "{1}() {{\n"
      "  local at='' words='' word i current=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  local keys={5}\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    word=${{COMP_WORDS[i]}}\n"
      "    case \"${{at:+$at }}$word\" in\n"
      "      {2}) at=\"${{at:+$at }}$word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n{3}  esac\n"
      "  case \"$at ${{COMP_WORDS[COMP_CWORD - 1]}}\" in\n{4}    *) ;;\n  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace 2>/dev/null\n"
      "}}\n"
      "complete -o default -F {1} {0}\n",
      name, function,
      [&] {
        std::vector<std::string> all;
        for (const CommandAt& at : commands_of(app)) {
          if (!at.path.empty())
            all.push_back(in_single_quotes(fmt::format("{}", fmt::join(at.path, " "))));
        }
        return fmt::format("{}", fmt::join(all, "|"));
      }(),
      paths, options, in_single_quotes(keys_to_set()));
}

// zsh runs bash's completion by its own bashcompinit.
std::string zsh(const CLI::App& app) {
  return "#compdef " + app.get_name() + "\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash(app);
}

std::string fish(const CLI::App& app) {
  std::string out = fmt::format(
      "# Completion of {0} for fish; made by {0} --shell-file fish.\n"
      "set -g __{0}_keys {1}\n",
      app.get_name(), keys_to_set());
  for (const CommandAt& at : commands_of(app)) {
    std::string when;
    for (const std::string& word : at.path) when += "; and __fish_seen_subcommand_from " + word;
    const std::string below = fmt::format("{}", fmt::join(names_below(*at.app), " "));
    if (!below.empty()) when += "; and not __fish_seen_subcommand_from " + below;
    when = when.empty() ? "" : fmt::format(" -n {}", in_single_quotes(when.substr(6)));
    for (const CLI::App* command : at.app->get_subcommands({}))
      out += fmt::format("complete -c {}{} -f -a {} -d {}\n", app.get_name(), when,
                         command->get_name(), in_single_quotes(command->get_description()));
    for (const CLI::Option* option : options_of(*at.app)) {
      out += fmt::format("complete -c {}{}", app.get_name(), when);
      for (const std::string& name : option->get_lnames()) out += " -l " + name;
      for (const std::string& name : option->get_snames()) out += " -s " + name;
      if (takes_value(*option)) out += " -r";
      if (takes_key(*option)) out += fmt::format(" -f -a '$__{}_keys'", app.get_name());
      if (!values_of(*option).empty()) out += " -f -a " + in_single_quotes(values_of(*option));
      out += " -d " + in_single_quotes(option->get_description()) + "\n";
    }
  }
  return out;
}

// Escapes the text for roff, which reads a backslash, and a point or quote at the begin of a line,
// as its own commands, and a plain "-" as a hyphen.
std::string roff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = i == 0 || text[i - 1] == '\n';
    if (begins && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string man_options(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    const bool named = option->nonpositional();
    std::string title =
        named ? fmt::format("{}", fmt::join(words_of(*option), ", ")) : option->get_name();
    if (named && takes_value(*option)) title += " " + option->get_type_name();
    out += ".TP\n.B " + roff(title) + "\n" + roff(option->get_description()) + "\n";
  }
  return out;
}

std::string man(const CLI::App& app) {
  std::string upper = app.get_name();
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string out = fmt::format(
      ".TH {} 1 \"\" \"{}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n.I COMMAND\n[OPTIONS]\n",
      upper, roff(version()), roff(app.get_name()), roff(app.get_description()),
      roff(app.get_name()));
  out += ".SH OPTIONS\n" + man_options(app) + ".SH COMMANDS\n";
  for (const CommandAt& at : commands_of(app)) {
    if (at.path.empty()) continue;
    out += fmt::format(".SS {}\n{}\n{}", roff(fmt::format("{}", fmt::join(at.path, " "))),
                       roff(at.app->get_description()), man_options(*at.app));
    if (!at.app->get_footer().empty()) out += ".PP\n.nf\n" + roff(at.app->get_footer()) + "\n.fi\n";
  }
  return out + ".SH EXIT STATUS\n.nf\n" + roff(app.get_footer()) + "\n.fi\n";
}

}  // namespace

std::vector<std::string> shell_file_kinds() { return {"man", "bash", "zsh", "fish"}; }

std::string shell_file(const CLI::App& app, const std::string& kind) {
  if (kind == "man") return man(app);
  if (kind == "bash") return bash(app);
  return kind == "zsh" ? zsh(app) : fish(app);
}

}  // namespace tandem
