// Fields: every key of a scenario, how its value is checked and where it goes. Data, not code.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/key.h"
#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/config/setting.h"

namespace tandem {

struct Field {
  std::string key;   // dotted
  std::string help;  // type, unit, default: as docs/scenario.md gives it
  std::function<Status(const Setting&, Scenario*)> set;

  Field(std::string name, std::string help_text,
        std::function<Status(const Setting&, Scenario*)> setter)
      : key(std::move(name)), help(std::move(help_text)), set(std::move(setter)) {}

  // A key of the scenario, or of one of its parts: "PREFIX.NAME", and where that part is.
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

// In the order in which they are applied: what comes later may change what came before.
const std::vector<Field>& fields();

// Its parts: what is trained and how; on what, and the rest; how it is held against reality.
std::vector<Field> job_fields();
std::vector<Field> cluster_fields();
std::vector<Field> validate_fields();

// A place in a Scenario, to be set.
#define AT(expression) \
  [](Scenario & s) -> auto& { return s.expression; }

}  // namespace tandem
