// Interfaces: chooses the addresses of this host by which the ranks of a run reach it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launch/launch.h"

namespace tandem {

// A choice of network interfaces by name, written as for NCCL_SOCKET_IFNAME:
//   ib,eth       names that begin with "ib" or "eth"
//   =eth0,eth1   exactly these names
//   ^docker,lo   all names but those that begin so
//   ^=lo         all names but exactly these
struct InterfaceChoice {
  bool exclude = false, exact = false;
  std::vector<std::string> names;  // empty: every interface
  std::string source;              // where the choice comes from: "NCCL_SOCKET_IFNAME=ib"

  bool takes(std::string_view interface) const;
};

// Reads TANDEM_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME. Without either it chooses every interface.
InterfaceChoice chosen_interfaces(const Environment& get);

// Chooses loopback alone.
InterfaceChoice loopback_alone();

// Returns the names of this host's chosen interfaces, in the system's order.
std::vector<std::string> own_interfaces(const InterfaceChoice& choice);

// Returns the addresses of the chosen interfaces that are up: IPv4, then IPv6, then loopback.
// Leaves out IPv6 addresses that are valid on one link only. Error::Failed if interfaces were
// chosen by name and none of them has an address.
Result<std::vector<std::string>> own_addresses(const InterfaceChoice& choice);

}  // namespace tandem
