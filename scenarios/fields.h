// Fields: binds the keys of the tables in keys/ to the members of a Scenario that they set, each
// with the check of its value.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "keys/bind.h"
#include "scenarios/scenario.h"
#include "scenarios/setting.h"

namespace tandem {

// Sets the key's member of `target` to the value. Errors name the key `name`.
template <class Target>
Status set_by(const BoundKey<Target>& bound, std::string_view name, const Setting& setting,
              Target* target) {
  // If the value is wrong, set() returns what it expected.
  if (const auto expected = bound.set(setting.value, target)) return setting.error(name, *expected);
  return Done{};
}

struct Field {
  std::string key;   // "parallel.tp"
  std::string help;  // as docs/scenario.md prints it
  std::function<Status(const Setting&, Scenario*)> set;

  Field(AnyKey of, std::function<Status(const Setting&, Scenario*)> setter)
      : key(of.name()), help(of.help()), set(std::move(setter)) {}

  // A key of the Scenario itself, or of the part that `part` finds in it.
  Field(const BoundKey<Scenario>& bound)
      : Field(bound, [](Scenario& s) -> Scenario& { return s; }) {}
  template <class Target, class Part>
  Field(const BoundKey<Target>& bound, Part part)
      : Field(bound.key, [=](const Setting& setting, Scenario* s) {
          return set_by(bound, bound.key.name(), setting, &part(*s));
        }) {}

  // Replaces each {} of the table's help by a text.
  template <class... Args>
  Field filled(const Args&... args) const {
    Field field = *this;
    field.help = fmt::format(fmt::runtime(help), args...);
    return field;
  }
};

// All keys in the order in which they are applied: a later key may change what an earlier one has
// set.
const std::vector<Field>& fields();

// The parts of fields(): the job and how it is trained; the cluster, costs, variability and
// reports; the comparison with measured runs.
std::vector<Field> job_fields();
std::vector<Field> cluster_fields();
std::vector<Field> validate_fields();

// A function that finds this member in a Scenario, so that a key can set it.
#define AT(expression) \
  [](Scenario & s) -> auto& { return s.expression; }

}  // namespace tandem
