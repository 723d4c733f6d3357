// Generates the manual page (roff) and the completions for bash, zsh and fish from the commands and
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

// A command and the names that lead to it, such as {"bench", "comm"}.
struct CommandAt {
  std::vector<std::string> path;  // without the program; empty: the program itself
  const CLI::App* app = nullptr;

  std::string name() const { return fmt::format("{}", fmt::join(path, " ")); }
};

// Adds the command, then all commands below it, depth first.
void add_commands(const CLI::App& app, const std::vector<std::string>& path,
                  std::vector<CommandAt>* all) {
  all->push_back({path, &app});
  for (const CLI::App* subcommand : app.get_subcommands({})) {
    std::vector<std::string> longer = path;
    longer.push_back(subcommand->get_name());
    add_commands(*subcommand, longer, all);
  }
}

std::vector<CommandAt> commands_of(const CLI::App& app) {
  std::vector<CommandAt> all;
  add_commands(app, {}, &all);
  return all;
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands({}))
    names.push_back(subcommand->get_name());
  return names;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

// Returns the option's names: "--op", and "-o" if it has a short name.
std::vector<std::string> words_of(const CLI::Option& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
  for (const std::string& name : option.get_snames()) words.push_back("-" + name);
  return words;
}

// Returns the values that the option may have, separated by blanks. Empty: it takes any. CLI11
// lists them in the name of the option's type: "TEXT:{ideal,simgrid}".
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  if (begin == std::string::npos) return "";
  std::string values = type.substr(begin + 1, type.find('}', begin) - begin - 1);
  for (char& c : values) c = c == ',' ? ' ' : c;
  return values;
}

// Returns whether the option takes KEY=VALUE of a scenario.
bool takes_key(const CLI::Option& option) {
  return option.check_lname("set") || option.check_lname("among");
}

// Returns all keys of a scenario as an option takes them: "parallel.tp= parallel.pp= ...".
std::string keys_to_set() {
  std::string all;
  for (const std::span<const KeyRow> rows : kKeyTables) {
    for (const KeyRow& row : rows) all += fmt::format("{}{}=", all.empty() ? "" : " ", row.name);
  }
  return all;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

// Puts the text into single quotes, in which a shell changes nothing but a quote.
std::string in_single_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Generates a shell function. It finds the command (`at`) in the words typed so far, then completes
// by two case statements: one offers the subcommands and options of the command; the other, after
// an option whose values are listed, offers these values. A branch of the latter is, for example,
//   'explain --engine') words='ideal simgrid' ;;
std::string bash(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string function = "_" + name;
  for (char& c : function) c = c == '-' ? '_' : c;
  std::string words_by_command, values_by_option;  // branches of the case statements
  std::vector<std::string> quoted_commands;
  for (const CommandAt& command : commands_of(app)) {
    if (!command.path.empty()) quoted_commands.push_back(in_single_quotes(command.name()));
    std::vector<std::string> words = subcommands_of(*command.app);
    for (const CLI::Option* option : options_of(*command.app)) {
      for (const std::string& word : words_of(*option)) words.push_back(word);
      const std::string values =
          takes_key(*option) ? "$keys" : in_single_quotes(values_of(*option));
      if (values != "''")
        values_by_option += fmt::format(
            "    '{} '{}) words={} ;;\n", command.name(),
            fmt::join(words_of(*option), fmt::format("|'{} '", command.name())), values);
    }
    words_by_command += fmt::format("    '{}') words={} ;;\n", command.name(),
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
      name, function, fmt::join(quoted_commands, "|"), words_by_command, values_by_option,
      in_single_quotes(keys_to_set()));
}

// Generates bash's completion, which zsh runs with its bashcompinit.
std::string zsh(const CLI::App& app) {
  return "#compdef " + app.get_name() + "\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash(app);
}

// Generates a line for each subcommand and option, with the condition under which it is offered:
// the words that lead to its command have been typed, and none of the command's subcommands.
std::string fish(const CLI::App& app) {
  std::string out = fmt::format(
      "# Completion of {0} for fish; made by {0} --shell-file fish.\n"
      "set -g __{0}_keys {1}\n",
      app.get_name(), keys_to_set());
  constexpr std::string_view kAnd = "; and ";
  for (const CommandAt& command : commands_of(app)) {
    std::string condition;
    for (const std::string& word : command.path)
      condition += fmt::format("{}__fish_seen_subcommand_from {}", kAnd, word);
    if (const std::vector<std::string> names = subcommands_of(*command.app); !names.empty())
      condition += fmt::format("{}not __fish_seen_subcommand_from {}", kAnd, fmt::join(names, " "));
    if (!condition.empty()) condition = " -n " + in_single_quotes(condition.substr(kAnd.size()));
    for (const CLI::App* subcommand : command.app->get_subcommands({}))
      out += fmt::format("complete -c {}{} -f -a {} -d {}\n", app.get_name(), condition,
                         subcommand->get_name(), in_single_quotes(subcommand->get_description()));
    for (const CLI::Option* option : options_of(*command.app)) {
      out += fmt::format("complete -c {}{}", app.get_name(), condition);
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

// Escapes the text for roff: a backslash, and a point or quote at the beginning of a line, would be
// commands, and "-" would be a hyphen.
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
  for (const CommandAt& command : commands_of(app)) {
    if (command.path.empty()) continue;
    out += fmt::format(".SS {}\n{}\n{}", roff(command.name()), roff(command.app->get_description()),
                       man_options(*command.app));
    const std::string footer = command.app->get_footer();
    if (!footer.empty()) out += ".PP\n.nf\n" + roff(footer) + "\n.fi\n";
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
