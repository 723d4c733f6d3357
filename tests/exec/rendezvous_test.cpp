// Where the ranks of a job find each other.
#include "launch/rendezvous.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

using namespace tandem;

namespace {

using Names = std::map<std::string, std::string>;

Environment environment(const Names& names) {
  return [&names](const char* name) {
    const auto at = names.find(name);
    return at == names.end() ? nullptr : at->second.c_str();
  };
}

Result<Rendezvous> rendezvous_in(const Names& names) { return rendezvous_of(environment(names)); }

// "host:port", "MPI", or the Error.
std::string place(Names names, const Names& more) {
  names.insert(more.begin(), more.end());
  const auto rendezvous = rendezvous_in(names);
  if (!rendezvous.ok()) return rendezvous.error().text();
  return rendezvous->host.empty() ? "MPI"
                                  : rendezvous->host + ":" + std::to_string(rendezvous->port);
}

const Names kTorchrun = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}};
const Names kSlurm = {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}};
const Names kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Names kMaster = {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}};

Names with(Names names, const std::string& name, const std::string& value) {
  names[name] = value;
  return names;
}

}  // namespace

TEST_CASE("the first host of a node list is the first number of its first name") {
  CHECK(first_host("node7") == "node7");
  CHECK(first_host("node[003-007,009],gpu12") == "node003");
  CHECK(first_host("node[9,3-7]") == "node9");
  CHECK(first_host("gpu12,node[1-2]") == "gpu12");
  CHECK(first_host("rack[0-1]node[02-03]") == "rack0node02");
  CHECK(first_host("rack-1-[4-7]-ib,x") == "rack-1-4-ib");
  CHECK(first_host("a.b-c.d") == "a.b-c.d");
  CHECK(first_host("").empty());
  CHECK(first_host("node[1-2").empty());
}

TEST_CASE("ranks of torchrun meet at the master, beside its agent where that listens") {
  CHECK(place(kTorchrun, kMaster) == "n1:29500");
  const Names agent = with(kMaster, "TORCHELASTIC_USE_AGENT_STORE", "True");
  CHECK(place(kTorchrun, agent) == "n1:29501");
  CHECK(place(kTorchrun, with(agent, "MASTER_PORT", "65535")) == "n1:65534");
  CHECK(place(kTorchrun, with(agent, "TANDEM_PORT", "4000")) == "n1:4000");
  CHECK(place(kTorchrun, with(kMaster, "TORCHELASTIC_USE_AGENT_STORE", "False")) == "n1:29500");
  CHECK(place(kTorchrun, {}) ==
        "found RANK and WORLD_SIZE, and no MASTER_ADDR, expected it as torchrun sets it");
  CHECK(place(kTorchrun, {{"MASTER_ADDR", "n1"}}) ==
        "found RANK and WORLD_SIZE, and no MASTER_PORT, expected it as torchrun sets it");
  CHECK(place(kTorchrun, with(kMaster, "MASTER_PORT", "70000")) ==
        "MASTER_PORT: found '70000', expected a port, 1 to 65535");
  const auto rendezvous = rendezvous_in({{"RANK", "1"},
                                         {"WORLD_SIZE", "4"},
                                         {"LOCAL_RANK", "1"},
                                         {"MASTER_ADDR", "n1"},
                                         {"MASTER_PORT", "1"},
                                         {"TORCHELASTIC_RUN_ID", "job 5"}});
  REQUIRE(rendezvous.ok());
  CHECK(rendezvous->run == "job 5");
}

TEST_CASE("ranks of Slurm meet at the step's first node, at a port of the job's") {
  const Names job = {{"SLURM_JOB_ID", "1234567"}, {"SLURM_JOB_NODELIST", "n[4-7]"}};
  CHECK(place(kSlurm, job) == "n4:30567");  // 20000 + 1234567 % 12000
  CHECK(place(kSlurm, with(job, "SLURM_STEP_NODELIST", "n[6-7]")) == "n6:30567");
  CHECK(place(kSlurm, with(job, "MASTER_ADDR", "ib4")) == "ib4:30567");
  CHECK(place(kSlurm, with(job, "MASTER_PORT", "29500")) == "n4:29500");
  CHECK(place(kSlurm, with(with(job, "MASTER_PORT", "29500"), "TANDEM_PORT", "4000")) == "n4:4000");
  CHECK(place(kSlurm, {}) ==
        "found no MASTER_ADDR and no host in SLURM_STEP_NODELIST '', expected rank 0's host in "
        "one of them");
  CHECK(place(kSlurm, {{"SLURM_JOB_NODELIST", "n4"}}) ==
        "found no TANDEM_PORT, no MASTER_PORT and SLURM_JOB_ID '', expected a port or a job's "
        "number");
}

TEST_CASE("ranks of mpirun meet at the master where one is named, else by MPI") {
  CHECK(place(kOpenMpi, {}) == "MPI");
  CHECK(place(kOpenMpi, {{"MASTER_PORT", "29500"}}) == "MPI");
  CHECK(place(kOpenMpi, kMaster) == "n1:29500");
  CHECK(place(kOpenMpi, with(kMaster, "TANDEM_PORT", "4000")) == "n1:4000");
  CHECK(place(kOpenMpi, {{"MASTER_ADDR", "n1"}}) ==
        "found MASTER_ADDR 'n1' and no MASTER_PORT, expected both or neither: mpirun -x "
        "MASTER_ADDR -x MASTER_PORT ...");
  // An mpirun inside a job of Slurm's or torchrun's is the nearer one.
  Names both = kSlurm;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  CHECK(place(both, {{"SLURM_JOB_NODELIST", "n4"}, {"SLURM_JOB_ID", "1"}}) == "MPI");
}

TEST_CASE("who was started by nobody meets nobody") {
  CHECK(place({}, kMaster) ==
        "found no rank in the environment, expected torchrun's, mpirun's or srun's");
}

TEST_CASE("an mpirun stays on this host where nobody gives it others") {
  const auto stays = [](const Names& names) { return mpirun_is_local(environment(names)); };
  CHECK(stays({}));
  CHECK(stays({{"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "1"}}));
  CHECK(!stays({{"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "2"}}));
  CHECK(!stays({{"SLURM_JOBID", "7"}}));
  for (const char* name :
       {"PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile"})
    CHECK(!stays({{name, "7"}}));
}
