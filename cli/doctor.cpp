// tandem doctor: says which engines, backends and libraries can be used on this machine, and why
// the others cannot.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/data_dir.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/text_width.h"
#include "exec/backends/backends.h"
#include "launch/standard_output.h"
#include "report/text/text_table.h"
#include "sim/engines.h"
#include "topology/preset.h"

namespace tandem {
namespace {

// Each of these returns the state of a thing: "found ..." or "missing: ...".
std::string library(const std::string& name) {
  if (void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    dlclose(handle);
    return fmt::format("found {}", name);
  }
  return fmt::format("missing: {} cannot be loaded", name);
}

std::string program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::filesystem::path candidate = std::filesystem::path(rest.substr(0, end)) / name;
    if (access(candidate.c_str(), X_OK) == 0) return fmt::format("found {}", candidate.string());
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return fmt::format("missing: {} is not in PATH", name);
}

std::string found(const BackendNeed& need) {
  const std::string file(need.file);
  return need.is_program ? program(file) : library(file);
}

// Returns "ready" if a cluster of network namespaces can be made, else the reason that its script
// gives.
std::string shaped_cluster() {
  const std::string script = data_dir() + "/validation/shaped-cluster";
  if (access(script.c_str(), X_OK) != 0) return fmt::format("missing: {}", script);
  std::FILE* check = popen(fmt::format("'{}' --check 2>&1", script).c_str(), "r");
  if (check == nullptr) return "unknown: no process can be started";
  char line[256] = "unknown: its check says nothing";
  if (std::fgets(line, sizeof line, check) != nullptr) line[std::strcspn(line, "\n")] = '\0';
  return pclose(check) == 0 ? "ready" : line;
}

Status examine(bool wide) {
  const Status simgrid = simgrid_available();
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  std::vector<Cells> rows;
  const auto add = [&](std::string thing, std::string state, std::string use) {
    rows.push_back({std::move(thing), std::move(state), std::move(use)});
  };
  add("cores", fmt::format("{}", std::thread::hardware_concurrency()), "--jobs");
  add("memory", fmt::format("{:.1f} GiB", static_cast<double>(pages) * page_bytes / GiB), "");
  add("engine ideal", "ready", "simulate --engine ideal");
  add("engine simgrid", simgrid.ok() ? "ready" : simgrid.error().text(),
      "simulate --engine simgrid");
  for (const Backend& backend : backends()) {
    add(fmt::format("backend {}", backend.name), backend.state(),
        fmt::format("run --backend {}", backend.name));
    for (const BackendNeed& need : backend.needs)
      add(std::string(need.thing), found(need), std::string(need.used_by));
    if (backend.parts == nullptr) continue;
    for (const BackendPart& part : backend.parts())
      add(part.thing, part.state, fmt::format("backend {}", backend.name));
  }
  add("OpenBLAS", library("libopenblas.so.0"), "run --compute gemm");
  add("presets", fmt::format("{} in {}", preset_names().size(), data_dir()),
      "cluster.preset, topology");
  add("shaped cluster", shaped_cluster(), "validation/shaped-cluster");
  fmt::print(standard_output(), "{}",
             laid_out({{"thing", Place::Name},
                       {"state", Place::First, Align::Left},
                       {"used by", Place::First, Align::Left}},
                      rows, text_width(wide)));
  return Done{};
}

}  // namespace

void add_doctor(const Command& app) {
  const Command command =
      app.subcommand("doctor", "Says what of this machine can be used, and why not.");
  auto wide = std::make_shared<bool>(false);
  add_wide(command, wide.get());
  command.footer("Example: tandem doctor");
  command.run([wide] { return examine(*wide); });
}

}  // namespace tandem
