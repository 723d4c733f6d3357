// MegatronArguments: Megatron-LM's arguments by the names of its fields, from a log, from flags or
// from a YAML file. Other tools' settings too, by their dotted names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

class MegatronArguments {
 public:
  // `path`: of the file, for Errors about what is missing in it.
  explicit MegatronArguments(std::string path) : path_(std::move(path)) {}

  // Adds a flag under its field's name: "--no-bias-swiglu-fusion", "--window-size 128 0". The last
  // one of a name wins. `where`: "train.sh:12".
  void add_flag(const std::string& flag, const std::vector<std::string>& values,
                const std::string& where);
  // Adds a field as a log or a configuration writes it. "None" counts as if it were not there.
  // `spelled`: how messages call it, if not by its name.
  void add_field(const std::string& name, const std::string& value, const std::string& where,
                 const std::string& spelled = "");
  // Moves the fields whose names begin with `prefix` to `to`, by the rest of their names.
  void move_fields(std::string_view prefix, MegatronArguments* to);
  // Drops the fields whose names match one of the globs.
  void leave_out(std::string_view globs);
  // Gives fields that refer to others, "${data.seq_length}", these fields' values.
  void resolve_references();

  // Return a field's value and count it as taken. A value of another kind sets the error of
  // status(), and returns nothing.
  std::optional<std::int64_t> whole(std::string_view name, std::int64_t least = 0);
  std::optional<double> number(std::string_view name);
  bool flag(std::string_view name, bool otherwise = false);
  std::optional<std::string> text(std::string_view name);
  // Reads "[0, 1]", "([0]*3+[1]*58)" and "0 1".
  std::optional<std::vector<std::int64_t>> wholes(std::string_view name);

  // Returns where a field stands whose value is a variable that nobody sets, and how it is written:
  // "--num-layers ${LAYERS}"; nothing: it has a value, or is not there.
  struct OpenValue {
    std::string where, text;
  };
  std::optional<OpenValue> open_value(std::string_view name) const;

  bool has(std::string_view name) const;
  bool has_any(std::string_view prefix) const;  // a field whose name begins so
  // Returns the name as the file writes it, "--num-layers" or "num_layers"; else "default of
  // --num-layers".
  std::string spelled(std::string_view name) const;
  // Returns where a field stands, found by its name or as it is written; empty: nowhere.
  std::string place_of(std::string_view name) const;
  void fail(std::string_view name, std::string_view expected);
  Status status() const;

  // Lists in the plan the arguments that have not been taken. Those that change nothing are only
  // counted.
  void list_unread_flags(ImportedPlan* plan) const;
  // Does the same for another tool's settings, of which `quiet` change nothing.
  void list_unread_settings(std::string_view quiet, ImportedPlan* plan) const;

 private:
  struct Argument {
    std::string value, spelled, where;
  };
  const Argument* take(std::string_view name);
  void put(const std::string& name, Argument argument);

  std::string path_;
  std::map<std::string, Argument, std::less<>> arguments_;
  // Arguments whose value is a variable that nobody sets.
  std::map<std::string, Argument, std::less<>> open_;
  std::set<std::string, std::less<>> taken_;
  std::optional<Error> fault_;
};

// Reads a list as Python writes it, sums and multiples of lists too; nothing: it is none.
std::optional<std::vector<std::int64_t>> python_list(std::string_view text);

// Return whether a value as a log or a flag has it is none; or none, false or an empty list.
bool is_none(std::string_view value);
bool is_off(std::string_view value);

// Returns whether an argument changes neither time nor memory.
bool is_quiet_argument(std::string_view name);
// Says what a scenario cannot express of an argument with this value. Empty: nothing, as the value
// is the usual one. Nothing: the argument is none of these.
std::optional<std::string_view> not_expressed_argument(std::string_view name,
                                                       std::string_view value);

}  // namespace tandem
