// MegatronArguments: Megatron-LM's arguments by the names of its fields, from a log, flags or a
// YAML file. It also holds other tools' settings, by dotted names such as "actor.optim.lr".
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
  // `path`: of the file, for errors about missing arguments.
  explicit MegatronArguments(std::string path) : path_(std::move(path)) {}

  // Adds a flag such as "--no-bias-swiglu-fusion" or "--window-size 128 0" under its field's name.
  // A later flag of the same name replaces it. `where`: "train.sh:12".
  void add_flag(const std::string& flag, const std::vector<std::string>& values,
                const std::string& where);
  // Adds a field as a log or a configuration writes it; "None" is the same as no field. `spelled`:
  // the name of it in messages, "--actor-num-nodes" for the field nnodes; empty: the field's name.
  void add_field(const std::string& name, const std::string& value, const std::string& where,
                 const std::string& spelled = "");
  // Moves the fields whose names begin with `prefix` to `to`, by the rest of their names.
  void move_fields(std::string_view prefix, MegatronArguments* to);
  // Drops the fields whose names match one of the globs.
  void leave_out(std::string_view globs);
  // Replaces values that refer to other fields, "${data.seq_length}", by these fields' values.
  void resolve_references();

  // Returns an argument that has another value in `other`, as the file writes it; empty: none.
  // Arguments that change neither time nor memory may differ.
  std::string difference(const MegatronArguments& other) const;

  // Return a field's value and mark it as read. A value of another type sets the error of status()
  // and returns nothing.
  std::optional<std::int64_t> whole(std::string_view name, std::int64_t least = 0);
  std::optional<double> number(std::string_view name);
  bool flag(std::string_view name, bool otherwise = false);
  std::optional<std::string> text(std::string_view name);
  // Reads "a b" and "['a', 'b']" as a, b. `otherwise`: the list of a missing field.
  std::vector<std::string> words(std::string_view name, std::string_view otherwise);
  // Reads "[0, 1]", "([0]*3+[1]*58)" and "0 1".
  std::optional<std::vector<std::int64_t>> wholes(std::string_view name);

  // An argument whose value is a shell variable that is never set.
  struct OpenValue {
    std::string where;    // "train.sh:12"
    std::string spelled;  // "--num-layers"
    std::string value;    // "${LAYERS}"
  };
  // Returns nothing if the field has a value or is missing.
  std::optional<OpenValue> open_value(std::string_view name) const;

  bool has(std::string_view name) const;
  bool has_any(std::string_view prefix) const;  // a field whose name begins with `prefix`
  std::vector<std::string> names(std::string_view prefix) const;  // of these fields
  // Returns the name as the file writes it, "--num-layers" or "num_layers"; else "default of
  // --num-layers".
  std::string spelled(std::string_view name) const;
  // Returns a field's file and line, by its name or its spelling; empty: there is no such field.
  std::string place_of(std::string_view name) const;
  void fail(std::string_view name, std::string_view expected);
  Status status() const;

  // Lists in the plan the arguments that were not read; arguments without effect are only counted.
  // `has_experts`: the model has some, here or in an earlier file.
  void list_unread_flags(bool has_experts, ImportedPlan* plan) const;
  // Does the same for another tool's settings. `quiet`: globs of the settings without effect.
  void list_unread_settings(std::string_view quiet, ImportedPlan* plan) const;

 private:
  struct Argument {
    std::string value;
    std::string spelled;              // the name as the file writes it
    std::string where;                // "train.sh:12"
    std::string right_spelling = {};  // "--num-layers" of "--num_layers"; empty: it is right
  };
  // Marks the field as read; null: it is missing or None.
  const Argument* take(std::string_view name);
  void put(const std::string& name, Argument argument);
  // Returns the value with references, "${nodes}" and "${mul:2,8}", replaced as far as possible.
  std::string without_references(std::string value) const;

  std::string path_;
  std::map<std::string, Argument, std::less<>> arguments_;
  // Arguments whose value is a shell variable that is never set.
  std::map<std::string, Argument, std::less<>> open_;
  std::set<std::string, std::less<>> taken_;  // fields that were read
  std::optional<Error> fault_;
};

// Evaluates a Python list, with sums and multiples: "[0]*3+[1]*2"; nothing: it is no list.
std::optional<std::vector<std::int64_t>> python_list(std::string_view text);

// Returns a text without the quotes around it.
std::string unquoted(std::string value);

// Returns whether a log's or a flag's value is none: "None", "null" or empty.
bool is_none(std::string_view value);
// Returns whether it is none, false or an empty list.
bool is_off(std::string_view value);

// Returns whether an argument changes neither time nor memory.
bool is_quiet_argument(std::string_view name);
// Returns the effect of an argument that a scenario cannot express. Empty: this value has none, as
// it is the default. Nothing: the argument is not one of these.
std::optional<std::string_view> not_expressed_argument(std::string_view name,
                                                       std::string_view value);

}  // namespace tandem
