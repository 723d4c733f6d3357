// SwitchTree: switches, with the names of the switches and hosts below each, and blocks of hosts
// that NVLink joins, as Slurm's and topograph's files state them. Checks the names and that the
// switches form trees.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/topology/imported_topology.h"

namespace tandem {

class SwitchTree {
 public:
  // `path` and `kind`: in Errors and notes.
  SwitchTree(std::string path, std::string kind) : path_(std::move(path)), kind_(std::move(kind)) {}

  // Adds a switch with hostlists ("n[1-4]") of the switches and of the hosts below it. Errors: a
  // malformed list, two empty lists, a switch that was added before, a name with blanks or quotes.
  Status add_switch(int line, const std::string& name, const std::string& switches,
                    const std::string& hosts);
  Status add_block(int line, const std::string& name, const std::string& hosts);

  // Adds the switches and blocks to a topology. Errors: there are none, a switch below two others
  // or below itself, a host at two switches or in two blocks, a name of both a host and a switch.
  Status add_to(ImportedTopology* topology) const;

 private:
  struct Switch {
    std::string name;
    int line = 0;
    std::vector<std::string> switches, hosts;
  };
  struct Block {
    int line = 0;
    NvlinkDomain domain;
  };

  std::string at(int line) const { return path_ + ':' + std::to_string(line); }
  Result<std::vector<std::string>> names(int line, const std::string& list) const;
  Status check_name(int line, std::string_view kind, const std::string& name,
                    std::map<std::string, int>* lines) const;
  Result<ImportedFabric> fabric() const;
  Status check_no_cycle(const std::map<std::string, std::string>& above) const;

  std::string path_, kind_;
  std::vector<Switch> switches_;
  std::vector<Block> blocks_;
  std::map<std::string, int> switch_lines_, block_lines_;
};

}  // namespace tandem
