// The simgrid engine: a Playback whose flows SimGrid solves. SimGrid itself is in the plugin.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/engines.h"
#include "sim/playback.h"
#include "sim/trace_of.h"

namespace tandem {
namespace {

// Beside the program, in lib/ beside its folder, or where the loader looks.
Result<MakeFlowSolver> open_plugin() {
  constexpr const char* kPlugin = "libtandem_simgrid.so";
  std::error_code ignored;
  const std::filesystem::path here =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string why;
  for (const std::string& path :
       {(here / kPlugin).string(), (here / "../lib/tandem" / kPlugin).string(),
        (here / ".." / kPlugin).string(), std::string(kPlugin)}) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      if (why.empty() || std::filesystem::exists(path)) why = dlerror();
      continue;
    }
    if (void* symbol = dlsym(library, kSolverSymbol))
      return reinterpret_cast<MakeFlowSolver>(symbol);
    why = dlerror();
  }
  return Error{
      fmt::format("the simgrid engine is unavailable: {}; --engine ideal needs no SimGrid", why),
      Error::Missing};
}

}  // namespace

Status simgrid_available() {
  const auto plugin = open_plugin();
  if (!plugin.ok()) return plugin.error();
  return Done{};
}

Result<Trace> simgrid(const Program& program, const Cluster& cluster, const Placement& placement,
                      const SimOptions& options) {
  ASSIGN_OR_RETURN(const MakeFlowSolver make_solver, open_plugin());
  const Cast cast = options.folded() ? fold(program) : unfold(program);
  std::vector<double> link_bytes_per_s;
  for (int i = 0; i < cluster.links(); ++i)
    link_bytes_per_s.push_back(cluster.link(static_cast<LinkId>(i)).bytes_per_s);
  const TrafficOf traffic_of = [&](const Channel& channel, CommKind kind) {
    return channel_traffic(program, channel, kind, cluster, placement);
  };
  Playback playback(program, cast, traffic_of, link_bytes_per_s,
                    {{options.jitter, options.seed}, options.closed_forms, options.on_progress});
  const std::unique_ptr<FlowSolver> solver(make_solver(playback.network()));
  ASSIGN_OR_RETURN(Replay played, playback.run(solver.get()));
  return trace_of(program, cast, std::move(played), "simgrid", options);
}

}  // namespace tandem
