// Hostlists as Slurm writes them, and the order of names.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/hostlist.h"

using namespace tandem;

namespace {

using Hosts = std::vector<std::string>;

Hosts hosts_in(std::string_view text) {
  const auto hosts = parse_hostlist(text);
  INFO((hosts.ok() ? "" : hosts.error().text()));
  REQUIRE(hosts.ok());
  return *hosts;
}

std::string fault_in(std::string_view text) {
  const auto hosts = parse_hostlist(text);
  REQUIRE(!hosts.ok());
  return hosts.error().text();
}

}  // namespace

TEST_CASE("a hostlist's ranges are names, with their zeros, in the order as written") {
  CHECK(hosts_in("a[0-2,12],b7") == Hosts{"a0", "a1", "a2", "a12", "b7"});
  CHECK(hosts_in("n[08-10].x") == Hosts{"n08.x", "n09.x", "n10.x"});
  CHECK(hosts_in("r[1-2]n[3-4]") == Hosts{"r1n3", "r1n4", "r2n3", "r2n4"});
  CHECK(hosts_in("login") == Hosts{"login"});
}

TEST_CASE("a malformed hostlist is refused with the part that is wrong") {
  CHECK(fault_in("a[0-3") == "found 'a[0-3' among host names, expected each [ closed by a ]");
  CHECK(fault_in("a]0[") == "found 'a]0[' among host names, expected each [ closed by a ]");
  CHECK(fault_in("a,,b") == "found 'a,,b' among host names, expected a name between commas");
  for (const char* list : {"a[]", "a[3-1]", "a[1-x]", "a[-3]", "a[1,]", "a[0-9999999]"}) {
    INFO(list);
    CHECK(fault_in(list).ends_with("numbers and rising ranges in brackets, as [0-3,12]"));
  }
  CHECK(fault_in("a1,a[0-2]") == "found 'a1' among host names, expected each name once");
  CHECK(fault_in("a[0-999]b[0-9999]").ends_with("expected a million at most"));
  CHECK(fault_in("a[0-999999,0-999999,0-999999]").ends_with("expected a million at most"));
  CHECK(fault_in("a\nb").ends_with("expected names without blanks and quotes"));
  CHECK(fault_in("a b") ==
        "found 'a b' among host names, expected names without blanks and quotes");
}

TEST_CASE("a hostlist of very many brackets, or a very long name, is refused in a short line") {
  std::string brackets = "a";
  for (int i = 0; i < 200'000; ++i) brackets += "[1]";
  for (const std::string& list : {brackets, std::string(300, 'n')}) {
    CHECK(fault_in(list).ends_with("expected names of at most 253 characters"));
    CHECK(fault_in(list).size() < 200);
  }
}

TEST_CASE("names in short are a hostlist of the same names") {
  for (const Hosts& hosts :
       {Hosts{"a0", "a1", "a2", "a12", "b7"}, Hosts{"n08", "n09", "n10", "n011"}, Hosts{"x", "y"},
        Hosts{"r1n1.dc", "r1n2.dc", "r2n1.dc"}, Hosts{"n9", "n10"}, Hosts{"n1", "n2-ib"},
        Hosts{"n0050569912345678", "n0050569912345679"}}) {
    const std::string text = hostlist_of(hosts);
    INFO(text);
    CHECK(hosts_in(text) == hosts);
  }
  CHECK(hostlist_of({"a0", "a1", "a2", "a12", "b7"}) == "a[0-2,12],b7");
  CHECK(hostlist_of({"n8", "n9", "n10"}) == "n[8-10]");
}

TEST_CASE("numbers in names count by their value") {
  Hosts hosts = {"n10", "n2", "m3", "n02", "n1-c10", "n1-c9"};
  std::ranges::sort(hosts, in_natural_order);
  CHECK(hosts == Hosts{"m3", "n1-c9", "n1-c10", "n02", "n2", "n10"});
}
