// The keys of [costs], [variability], [report], [limits], [published] and [validate].
#pragma once

#include "keys/key_row.h"

namespace tandem {

inline constexpr KeyRow kRunRows[] = {
    {"costs.source",
     "text: analytic (from shapes), table (what costs.table measured), or uniform: seconds an "
     "action, and nothing else costs anything; default analytic"},
    {"costs.software",
     "text: whose constants price the model, a file's name in workload/frameworks or a file of "
     "your own, relative to the scenario; default the GPU's, with costs.source = uniform none"},
    {"costs.table",
     "text: a file that tandem calibrate device wrote, relative to the scenario; with costs.source "
     "= table it prices compute, and the cluster communication"},
    {"costs.forward_s", "number: seconds of a stage's forward"},
    {"costs.backward_s", "number: seconds of a full backward; default input_s + weight_s"},
    {"costs.input_s", "number: seconds of an input gradient; default half of backward_s"},
    {"costs.weight_s", "number: seconds of a weight gradient; default half of backward_s"},
    {"costs.p2p_s", "number: seconds of a transfer between stages; default 0"},
    {"costs.p2p_MB",
     "number: MB of a transfer between stages, instead of costs.p2p_s: [cluster] says what it "
     "takes, and transfers may contend"},
    {"variability.jitter",
     "number: each compute op takes its time times a log-normal factor of mean 1 with this sigma; "
     "default 0"},
    {"variability.seed", "integer: of the jitter and of drawn stragglers; default 1"},
    {"variability.straggler_factor", "number: how many times as long stragglers' compute takes"},
    {"variability.straggler_ranks", "list of integers: ranks that are stragglers"},
    {"variability.straggler_nodes", "list of integers: nodes whose GPUs all are"},
    {"variability.straggler_stages", "list of integers: stages whose compute all is"},
    {"variability.straggler_share",
     "number: each node is one with this probability, drawn by the seed; default 0"},
    {"variability.background",
     "number: the share of the bandwidth between nodes that other traffic takes; default 0"},
    {"variability.slow_link",
     "text: links that are slow for a while, by a name (n0.nic0.up) or what names begin with "
     "(n0.nic0, n0); engine simgrid only, but for those that fail for good"},
    {"variability.slow_link_rate",
     "number: the share of its bandwidth that a slow link has; 0: it has failed, for good without "
     "slow_link_to_s: routes go round it; needed with slow_link"},
    {"variability.slow_link_from_s", "number: seconds into the iteration from which on; default 0"},
    {"variability.slow_link_to_s", "number: seconds until which; default to the end"},
    {"variability.runs",
     "integer: how often the run is played, with seed, seed + 1, ...; default 1"},
    {"report.least_bandwidth",
     "true or false: look for the least bandwidth between nodes at which exposed communication "
     "between nodes is under 5 % of the iteration, on the ideal engine; default false"},
    {"report.baseline",
     "text: a point's name on an axis; below the table stands what every other run saves against "
     "the one with that point instead of its own"},
    {"report.kind",
     "text: tensor, pipeline, data, context, expert or all: the communication that a saving is "
     "compared with; default all"},
    {"report.causal_flops",
     "true or false: FLOPs, of the model and of the hardware alike, count of attention's products "
     "the half that a causal mask leaves; default false: whole, as Megatron-LM and PaLM's appendix "
     "B count"},
    {"report.traffic",
     "true or false: columns of what a GPU sends (of unequal experts: the busiest rank) and of the "
     "communication that is exposed; default false"},
    {"report.note", "text: printed below the table"},
    {"limits.runs", "number: most runs of a file, the product of its axes; default 1e5"},
    {"limits.ops",
     "number: most ops of a run, of all ranks that are played; default 5e7: 6 GB and a minute"},
    {"validate.backend", "text: what tandem validate measures with: {}; default {}"},
    {"validate.compute",
     "text: timed (ops take their priced time) or gemm (they multiply matrices); default timed"},
    {"validate.share_gpu",
     "true or false: with cuda, all ranks on one GPU, each on SMs of its own; default false"},
    {"validate.transfers",
     "text: with validate.share_gpu, nccl, copy or priced: as tandem run --transfers; default "
     "nccl"},
    {"validate.launch",
     "text: a shell's words before the command that runs the ranks, with {preset}, {placement}, "
     "{ranks} and {folder} (the scenario's) filled in; default none: mpirun on this machine"},
    {"validate.iteration_percent",
     "number: what a simulated iteration, and its ratio to the baseline's, may differ from the "
     "measured one where compute takes longer than exposed communication; default 2"},
    {"validate.communicating_percent", "number: the same where it does not; default 4"},
    {"validate.bubble_points",
     "number: percentage points that the bubble may differ by; default 2"},
    {"validate.overlap_points",
     "number: percentage points that the overlap of report.kind may differ by; default 3"},
    {"validate.own_iteration_percent",
     "number: what the iteration may differ by that is simulated with the measured op times; "
     "default any"},
    {"validate.own_bubble_points",
     "number: percentage points, the same of its bubble; default any"},
    {"validate.own_overlap_points",
     "number: percentage points, the same of its overlap; default any"},
    {"published.tflops_per_gpu",
     "number: what was measured, hardware FLOPs as report.causal_flops says"},
    {"published.cluster", "text: the cluster's point that it was measured on"}};

}  // namespace tandem
