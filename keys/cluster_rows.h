// The keys of [cluster]. A preset's file has some of them as well.
#pragma once

#include "keys/key_row.h"

namespace tandem {

inline constexpr KeyRow kClusterRows[] = {
    {"cluster.preset", "text: a preset's name, see tandem topology"},
    {"cluster.name", "text: shown in tables; default the preset's"},
    {"cluster.gpus", "integer: GPUs of the job; default tp x pp x cp x dp"},
    {"cluster.gpus_per_node", "integer"},
    {"cluster.intra_GBps", "number: GB/s of a GPU to its node's switch, per direction"},
    {"cluster.intra_efficiency", "number: the share of it that NCCL reaches; default 1"},
    {"cluster.intra_latency_us", "number: us a message inside a node"},
    {"cluster.nics_per_node", "integer: NICs, shared evenly by the GPUs"},
    {"cluster.nic_Gbitps", "number: Gbit/s of a NIC, per direction"},
    {"cluster.inter_efficiency", "number: the share of it that NCCL reaches; default 1"},
    {"cluster.inter_latency_us", "number: us a message between nodes"},
    {"cluster.fabric", "text: star (non-blocking), rail-optimised or fat-tree; default star"},
    {"cluster.nodes_per_leaf", "integer: nodes below a leaf switch (rail-optimised, fat-tree)"},
    {"cluster.oversubscription", "number: a leaf's downlinks over its uplinks; default 1"},
    {"cluster.collectives",
     "text: ring (over all ranks), hierarchical (on the nodes, and between them among ranks of "
     "equal place), or auto: the faster of both, group by group; default ring"},
    {"cluster.nics_on_switch",
     "true or false: traffic between nodes crosses the GPU's link to its switch as well, one wire "
     "for both; default false"},
    {"cluster.in_network_reduction",
     "true or false: switches between nodes reduce (SHARP): all-reduce sends each byte up once and "
     "gets it down once; default false"},
    {"cluster.trees",
     "true or false: an all-reduce over nodes may go in double binary trees, where that is faster "
     "for its size; default false"},
    {"cluster.nvls",
     "true or false: an all-reduce may be reduced by the nodes' own switches (NVLS), where that is "
     "faster for its size; default false"},
    {"cluster.nvls_efficiency",
     "number: the share of the rate inside a node that NVLS reaches; default 1"},
    {"cluster.gather_efficiency",
     "number: of what an all-reduce's rings reach inside a node, what all-gathers and "
     "reduce-scatters do; default 1"},
    {"cluster.alltoall_efficiency", "number: of the same, what all-to-alls do; default 1"},
    {"cluster.pair_efficiency",
     "number: what two GPUs of a node reach of what all of them do, in any of these; default 1"},
    {"cluster.nvlinks",
     "text: where no switch joins a node's GPUs, the NVLinks of each to each, as in '0222 2022 "
     "2202 2220'; intra_GBps is then the best joined pair's, and so are, in links_file, the links "
     "of a node's GPUs to its hub; default a switch"},
    {"cluster.ring_efficiency",
     "number: a further share that rings between nodes reach, of the NICs and of "
     "communicator_GBps; default 1"},
    {"cluster.communicator_GBps",
     "number: GB/s that one communicator moves out of a node, or into it, at most, in whatever "
     "operation; several have as much each, until the NICs are full; default what the NICs carry"},
    {"cluster.ring_fill_steps",
     "number: steps that a ring inside a node takes longer to fill and drain, a pass; default 0"},
    {"cluster.intra_base_us",
     "number: us that an all-reduce inside a node takes before its first step, twice what "
     "scattering or gathering does; default 0"},
    {"cluster.intra_ll_latency",
     "number: the share of the latency that a collective inside a node takes in the low-latency "
     "protocol; default 1: there is none"},
    {"cluster.intra_ll_rate", "number: the share of the rate that it reaches then; default 1"},
    {"cluster.inter_base_us", "number: as cluster.intra_base_us, of a collective over nodes"},
    {"cluster.inter_ll_latency", "number: as cluster.intra_ll_latency, of a collective over nodes"},
    {"cluster.inter_ll_rate", "number: as cluster.intra_ll_rate, of a collective over nodes"},
    {"cluster.gpus_of_node",
     "integer: GPUs of each node that the job takes, each with the NIC that it has there; default "
     "all, or equally many of each where the job fills no whole nodes and no links are listed"},
    {"cluster.links_file",
     "text: a CSV of all links, of any graph; in place of the links, NICs and fabric above"},
    {"cluster.hosts",
     "text: a hostlist, n[1-8], of the hosts in order of their GPUs, where NVLink joins several to "
     "a node, or names such as n1 and n3 leave numbers out; default the nodes' names in "
     "links_file"},
    {"cluster.hostfile",
     "text: a file with a host a line (host slots=8, or host:8) that the job runs on, with "
     "links_file; default all hosts in order"},
    {"cluster.from",
     "text: a file that tandem import wrote of a cluster: its [cluster] stands for what this one "
     "does not say"},
    {"cluster.calibration",
     "text: a file that tandem bench comm --fit or tandem calibrate comm wrote; what it has "
     "measured takes that long"},
    {"cluster.placement",
     "text: block (ranks fill node after node) or cyclic (ranks are dealt round over the nodes, as "
     "Slurm says it); default block"},
    {"cluster.gpu", "text: a GPU that is known, such as a100-80gb; default the preset's"},
    {"cluster.gpu_name", "text: the name of a GPU of your own"},
    {"cluster.memory_GiB", "number: GiB of a GPU's memory"},
    {"cluster.memory_reserve_GiB",
     "number: GiB of it that CUDA's context, NCCL's buffers and fragmentation take: a plan fits "
     "into the rest; default by the plan, see memory.md"},
    {"cluster.host_link_GBps",
     "number: GB/s of a GPU's link to its CPU, one direction, for train.optimizer_offload and "
     "train.activation_offload_*; default the GPU's"},
    {"cluster.host_memory_GBps", "number: GB/s of its part of the CPU's memory; default the GPU's"},
    {"cluster.gemm_workspace_MiB",
     "number: MiB of it that GEMM libraries hold as tensors; default the GPU's, 0 for one of your "
     "own"},
    {"cluster.memory_GBps", "number: GB/s of a GPU's memory"},
    {"cluster.sms", "integer: streaming multiprocessors of a GPU"},
    {"cluster.tflops", "number: a GPU's dense peak TFLOP/s, taken for every precision"},
    {"cluster.gemm_efficiency",
     "number: the share of its peak that a GPU's large GEMMs reach, taken for every precision; "
     "default the GPU's, 0.761 for one of your own"},
    {"cluster.gemm_ramp_k",
     "number: what a GEMM's tile costs beside its products, in K of 16-bit numbers; default the "
     "GPU's, 124 for one of your own"},
    {"cluster.gemm_whole_wave",
     "number: the share of a last wave of tiles that costs as if it were full; default the GPU's, "
     "0.59 for one of your own"},
    {"cluster.gemm_launch_us",
     "number: us between two GEMMs; default the GPU's, 3 for one of your own"},
    {"cluster.training_clock",
     "number: what training, at its power limit, leaves of the rate of GEMMs that run alone; "
     "default the GPU's, 1 for one of your own"},
    {"cluster.attention_efficiency",
     "number: the share of its 16-bit peak that a GPU's fused attention reaches forward, with "
     "heads of 128 and long rows; default the GPU's, 0.55 for one of your own"},
    {"cluster.attention_ramp_keys",
     "number: keys a row at which fused attention reaches half of that; default the GPU's, 0 for "
     "one of your own"},
    {"cluster.attention_softmax_size",
     "number: what a head's softmax costs, in numbers of a head's size; default the GPU's, 0 for "
     "one of your own"},
    {"cluster.attention_launch_us",
     "number: us between two fused attentions; default the GPU's, 0 for one of your own"},
    {"cluster.deepep_launch_us",
     "number: us that an exchange by DeepEP takes beside its copies; default the GPU's, 0 for one "
     "of your own"},
    {"cluster.deepep_copy_us",
     "number: us that an SM of DeepEP's takes for a copy of a token beside its bytes; default the "
     "GPU's, 0 for one of your own"},
    {"cluster.deepep_sm_GBps",
     "number: GB/s that an SM of DeepEP's moves; default the GPU's; without it links alone limit "
     "DeepEP"}};

}  // namespace tandem
