#include "launch/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/split.h"

namespace tandem {
namespace {

// Returns the address as text, or "" if it is neither IPv4 nor an IPv6 address that is valid beyond
// one link.
std::string numeric_address(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(),
              text.size());
  if (address->sa_family == AF_INET6) {
    const in6_addr& own = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&own)) inet_ntop(AF_INET6, &own, text.data(), text.size());
  }
  return text.data();
}

}  // namespace

bool InterfaceChoice::takes(std::string_view interface) const {
  if (names.empty()) return true;
  const bool is_named = std::ranges::any_of(names, [&](const std::string& name) {
    return exact ? interface == name : interface.starts_with(name);
  });
  return exclude ? !is_named : is_named;
}

InterfaceChoice chosen_interfaces(const Environment& get) {
  for (const char* variable : {"TANDEM_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const char* value = get(variable);
    std::string_view list = value == nullptr ? "" : value;
    if (list.empty()) continue;
    InterfaceChoice choice;
    choice.source = fmt::format("{}={}", variable, list);
    choice.exclude = list.starts_with('^');
    if (choice.exclude) list.remove_prefix(1);
    choice.exact = list.starts_with('=');
    if (choice.exact) list.remove_prefix(1);
    for (const std::string& name : split(std::string(list), ",")) {
      if (!name.empty()) choice.names.push_back(name);
    }
    return choice;
  }
  return {};
}

InterfaceChoice loopback_alone() { return {.exact = true, .names = {"lo"}, .source = "loopback"}; }

std::vector<std::string> own_interfaces(const InterfaceChoice& choice) {
  std::vector<std::string> names;
  struct if_nameindex* const all = if_nameindex();
  for (const auto* one = all; one != nullptr && one->if_index != 0; ++one) {
    if (choice.takes(one->if_name)) names.emplace_back(one->if_name);
  }
  if (all != nullptr) if_freenameindex(all);
  return names;
}

Result<std::vector<std::string>> own_addresses(const InterfaceChoice& choice) {
  std::vector<std::string> ipv4, ipv6, loopback;
  std::set<std::string> names;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) all = nullptr;
  for (const ifaddrs* own = all; own != nullptr; own = own->ifa_next) {
    if (own->ifa_addr == nullptr || (own->ifa_flags & IFF_UP) == 0) continue;
    const std::string text = numeric_address(own->ifa_addr);
    if (text.empty()) continue;
    names.insert(own->ifa_name);
    if (!choice.takes(own->ifa_name)) continue;
    if ((own->ifa_flags & IFF_LOOPBACK) != 0)
      loopback.push_back(text);
    else
      (own->ifa_addr->sa_family == AF_INET ? ipv4 : ipv6).push_back(text);
  }
  if (all != nullptr) freeifaddrs(all);
  std::vector<std::string> found = std::move(ipv4);
  found.insert(found.end(), ipv6.begin(), ipv6.end());
  found.insert(found.end(), loopback.begin(), loopback.end());
  if (!found.empty()) return found;
  if (choice.names.empty()) return std::vector<std::string>{"127.0.0.1"};
  return Error{fmt::format("{}: found none of these interfaces, expected some of {}", choice.source,
                           fmt::join(names, ", ")),
               Error::Failed};
}

}  // namespace tandem
