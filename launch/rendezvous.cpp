// Finds rank 0's host and port in the variables of the launcher: torchrun's, Slurm's, or mpirun's.
// Ranks of mpirun can meet by MPI itself, and need no host and port.
#include "launch/rendezvous.h"

#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <utility>

#include "base/csv.h"

namespace tandem {
namespace {

// Returns the value of the first of these variables that is set and not empty, or "".
std::string text(const Environment& get, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = get(name); value != nullptr && *value != 0) return value;
  }
  return "";
}

// Returns the port in the first of these variables that is set, or 0 if none is.
Result<int> first_port(const Environment& get, std::initializer_list<const char*> names) {
  constexpr int kMost = 65535;
  for (const char* name : names) {
    const std::string value = text(get, {name});
    if (value.empty()) continue;
    const auto port = parse_integer(value);
    if (!port.ok() || *port < 1 || *port > kMost)
      return Error{fmt::format("{}: found '{}', expected a port, 1 to {}", name, value, kMost)};
    return static_cast<int>(*port);
  }
  return 0;
}

// Derives a port from the job's number: job 12345 gets 20345. It is below 32768, where Linux's
// ephemeral ports begin. Returns 0 if `job` is not a number.
int port_of_job(const std::string& job) {
  constexpr int kFirst = 20000, kPorts = 12000;
  const auto number = parse_integer(job);
  return number.ok() && *number >= 0 ? kFirst + static_cast<int>(*number % kPorts) : 0;
}

Result<Rendezvous> torchrun(const Environment& get, Rendezvous rendezvous) {
  rendezvous.run = text(get, {"TORCHELASTIC_RUN_ID"});
  ASSIGN_OR_RETURN(const int own, first_port(get, {"TANDEM_PORT"}));
  ASSIGN_OR_RETURN(const int master, first_port(get, {"MASTER_PORT"}));
  const auto missing = [](const char* name) {
    return Error{
        fmt::format("found RANK and WORLD_SIZE, and no {}, expected it as torchrun sets it", name)};
  };
  if (rendezvous.host.empty()) return missing("MASTER_ADDR");
  if (own == 0 && master == 0) return missing("MASTER_PORT");
  // If torchrun's agent keeps the store, it listens at MASTER_PORT itself: rank 0 takes the next.
  const bool is_taken = text(get, {"TORCHELASTIC_USE_AGENT_STORE"}) == "True";
  const int next = master == 65535 ? master - 1 : master + 1;
  rendezvous.port = is_taken ? next : master;
  if (own != 0) rendezvous.port = own;
  return rendezvous;
}

Result<Rendezvous> slurm(const Environment& get, Rendezvous rendezvous) {
  const std::string job = text(get, {"SLURM_JOB_ID", "SLURM_JOBID"});
  rendezvous.run = job + "." + text(get, {"SLURM_STEP_ID"});
  const std::string nodes = text(get, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  if (rendezvous.host.empty()) rendezvous.host = first_host(nodes);
  if (rendezvous.host.empty())
    return Error{
        fmt::format("found no MASTER_ADDR and no host in SLURM_STEP_NODELIST '{}', "
                    "expected rank 0's host in one of them",
                    nodes)};
  ASSIGN_OR_RETURN(rendezvous.port, first_port(get, {"TANDEM_PORT", "MASTER_PORT"}));
  if (rendezvous.port == 0) rendezvous.port = port_of_job(job);
  if (rendezvous.port == 0)
    return Error{
        fmt::format("found no TANDEM_PORT, no MASTER_PORT and SLURM_JOB_ID '{}', expected "
                    "a port or a job's number",
                    job)};
  return rendezvous;
}

// Reads host, port and run from the launcher's variables. An empty host: ranks meet by MPI.
Result<Rendezvous> rendezvous_by_launcher(const Environment& get) {
  const std::optional<LaunchedRank> launched = launched_rank(get);
  if (!launched)
    return Error{"found no rank in the environment, expected torchrun's, mpirun's or srun's"};
  Rendezvous rendezvous;
  rendezvous.host = text(get, {"MASTER_ADDR"});
  if (launched->family == "torchrun") return torchrun(get, std::move(rendezvous));
  if (launched->family == "Slurm") return slurm(get, std::move(rendezvous));
  if (rendezvous.host.empty()) return rendezvous;
  ASSIGN_OR_RETURN(rendezvous.port, first_port(get, {"TANDEM_PORT", "MASTER_PORT"}));
  if (rendezvous.port == 0)
    return Error{
        fmt::format("found MASTER_ADDR '{}' and no MASTER_PORT, expected both or neither: mpirun "
                    "-x MASTER_ADDR -x MASTER_PORT ...",
                    rendezvous.host)};
  return rendezvous;
}

}  // namespace

Result<Rendezvous> rendezvous_of(const Environment& get) {
  ASSIGN_OR_RETURN(Rendezvous rendezvous, rendezvous_by_launcher(get));
  rendezvous.interfaces = chosen_interfaces(get);
  return rendezvous;
}

// Copies the list up to its first comma, but of each bracket only the first number.
std::string first_host(const std::string& node_list) {
  std::string host;
  bool in_list = false, past_first = false;  // inside brackets; after their first number
  for (const char c : node_list) {
    if (c == ',' && !in_list) break;
    if (c == '[') {
      in_list = true;
      past_first = false;
    } else if (c == ']') {
      in_list = false;
    } else {
      past_first |= in_list && (c == '-' || c == ',');
      if (!in_list || !past_first) host += c;
    }
  }
  return in_list ? "" : host;
}

}  // namespace tandem
