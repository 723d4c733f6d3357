// Fields: one table of all keys of a scenario; for each key, its help, the check of its value and
// the member that it sets.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/key.h"
#include "base/result.h"
#include "scenarios/scenario.h"
#include "scenarios/setting.h"

namespace tandem {

struct Field {
  std::string key;   // dotted, as "parallel.tp"
  std::string help;  // its type, unit and default, as docs/scenario.md prints them
  std::function<Status(const Setting&, Scenario*)> set;

  Field(std::string name, std::string help_text,
        std::function<Status(const Setting&, Scenario*)> setter)
      : key(std::move(name)), help(std::move(help_text)), set(std::move(setter)) {}

  // A key of the Scenario itself, or of one of its parts: then the key is "PREFIX.NAME", and `part`
  // finds the part in the Scenario.
  Field(Key<Scenario> own)
      : Field(own.name, own.help, [own](const Setting& setting, Scenario* s) {
          return set_by(own, own.name, setting, s);
        }) {}
  template <class Target, class Part>
  Field(const std::string& prefix, Key<Target> own, Part part)
      : Field(prefix + own.name, own.help,
              [=, name = prefix + own.name](const Setting& setting, Scenario* s) {
                return set_by(own, name, setting, &part(*s));
              }) {}
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
