// MegatronArguments: Megatron-LM's arguments by the names of its fields, wherever they stand: in a
// log, as flags, in a YAML file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/imported_plan.h"

namespace tandem {

class MegatronArguments {
 public:
  // `path`: the file's, for what is missing in it.
  explicit MegatronArguments(std::string path) : path_(std::move(path)) {}

  // "--no-bias-swiglu-fusion", "--window-size 128 0": as a flag, under its field's name. The last
  // one of a name wins. `where`: "train.sh:12".
  void add_flag(const std::string& flag, const std::vector<std::string>& values,
                const std::string& where);
  // A field as a log or a configuration has it: "None" is as if it were not there.
  void add_field(const std::string& name, const std::string& value, const std::string& where);

  // Those counted as taken; a value of another kind is a fault(), and nothing.
  std::optional<std::int64_t> whole(std::string_view name, std::int64_t least = 0);
  std::optional<double> number(std::string_view name);
  bool flag(std::string_view name, bool otherwise = false);
  std::optional<std::string> text(std::string_view name);
  // "[0, 1]", "([0]*3+[1]*58)", "0 1".
  std::optional<std::vector<std::int64_t>> wholes(std::string_view name);

  bool has(std::string_view name) const;
  // As it is written in the file: "--num-layers", "num_layers"; else "default of --num-layers".
  std::string spelled(std::string_view name) const;
  // Where a field stands, by its name or as it is written; empty: nowhere.
  std::string place_of(std::string_view name) const;
  void fail(std::string_view name, std::string_view expected);
  Status status() const;

  // What nobody took goes into the plan's lists, or is counted where it changes nothing.
  void list_left(ImportedPlan* plan) const;

 private:
  struct Argument {
    std::string value, spelled, where;
  };
  const Argument* take(std::string_view name);
  void put(const std::string& name, Argument argument);

  std::string path_;
  std::map<std::string, Argument, std::less<>> arguments_;
  std::vector<Argument> open_;  // whose value is a variable that nobody sets
  std::set<std::string, std::less<>> taken_;
  std::optional<Error> fault_;
};

// A list as Python writes it, sums and multiples of lists too; nothing: it is none.
std::optional<std::vector<std::int64_t>> python_list(std::string_view text);

// Arguments that change neither time nor memory.
bool is_quiet_argument(std::string_view name);
// What a scenario cannot say of an argument with this value; empty: nothing, as it is the usual
// one; nothing: the argument is none of these.
std::optional<std::string_view> not_expressed_argument(std::string_view name,
                                                       std::string_view value);

}  // namespace tandem
