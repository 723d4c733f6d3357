// Interfaces: which of this host's addresses the ranks of a run use to reach it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launch/launch.h"

namespace tandem {

// Names of network interfaces as NCCL_SOCKET_IFNAME chooses them: those that begin with one of
// "ib,eth"; "=eth0,eth1": exactly these; "^docker,lo": none that begin so; "^=lo": all but these.
struct InterfaceChoice {
  bool exclude = false, exact = false;
  std::vector<std::string> names;  // none: every interface
  std::string said;                // "NCCL_SOCKET_IFNAME=ib"

  bool takes(std::string_view interface) const;
};

// TANDEM_SOCKET_IFNAME goes before NCCL_SOCKET_IFNAME; neither: every interface.
InterfaceChoice chosen_interfaces(const Environment& get);

// Loopback alone.
InterfaceChoice loopback_alone();

// The names of this host's interfaces that are chosen, in the system's order.
std::vector<std::string> own_interfaces(const InterfaceChoice& choice);

// The addresses of those that are up: IPv4 before IPv6, loopback last; none that hold on one link
// only. An Error::Failed where an interface was chosen and none is there.
Result<std::vector<std::string>> own_addresses(const InterfaceChoice& choice);

}  // namespace tandem
