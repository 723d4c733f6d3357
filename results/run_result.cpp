// The fields of results, a row each: key, member, type or unit (none for a part of an object), and
// help text. These tables give JSON, a sweep's CSV columns, the Python stub and docs/formats.md.
//
//   .in_column(3)          its column is the third behind those in the table's order
//   .in_column(kNoColumn)  it has no column
//   .null_by_default()     the value that a new object has is null in JSON
//   field_value(...)       a computed value; with nullptr it is written and not read back
//   {"Memory", {...}}      the rows of an object that has its own class, Memory, in the stub
#include "results/run_result.h"

#include <algorithm>

#include "results/result_fields.h"

namespace tandem {

template <>
FieldTable<ParallelSizes> make_fields() {
  using Sizes = ParallelSizes;
  return {field("tp", &Sizes::tp),
          field("pp", &Sizes::pp),
          field("vpp", &Sizes::vpp),
          field("cp", &Sizes::cp),
          field("ep", &Sizes::ep),
          field("dp", &Sizes::dp),
          field("microbatches", &Sizes::microbatches, "", "of one replica")};
}

template <>
FieldTable<OrderFinding> make_fields() {
  using Found = OrderFinding;
  return {
      "FoundOrder",
      {field("name", &Found::name, "", "null: one made for these stages").null_by_default(),
       field_value<Found>(
           "placement", [](const Found& o) { return o.in_a_v ? "in a V" : "in order"; },
           [](const Json& json, Found* o) { o->in_a_v = json == "in a V"; }, "",
           "of stages: `in order` or `in a V`"),
       field("ideal_iteration_s", &Found::iteration_s, "", "on the ideal engine"),
       field("named", &Found::named, "", "the best named order that fits").null_by_default(),
       field("named_vpp", &Found::named_vpp).null_by_default(),
       field("named_iteration_s", &Found::named_s).null_by_default(),
       field_value<Found>(
           "gain",
           [](const Found& o) { return o.named.empty() ? std::nullopt : std::optional(o.gain()); },
           nullptr, "", "the share of that iteration that the found order saves")}};
}

template <>
FieldTable<BestMfu> make_fields() {
  return {field("mfu", &BestMfu::mfu), field("on", &BestMfu::on),
          field("run", &BestMfu::run, "", "in `cases.csv`"), field("source", &BestMfu::source)};
}

template <>
FieldTable<MemoryBytes> make_fields() {
  using Memory = MemoryBytes;
  return {
      "Memory",
      {field("weights", &Memory::weights), field("gradients", &Memory::gradients),
       field("optimizer", &Memory::optimizer), field("activations", &Memory::activations),
       field("communication", &Memory::communication, "", "buffers"),
       field("workspace", &Memory::workspace, "", "of GEMM libraries").in_column(5),
       field("total", &Memory::total, "", "of all these"),
       field("by_pipeline_rank", &Memory::by_pipeline_rank, "", "the total of each").in_column(4),
       field("reserve", &Memory::reserve, "",
             "`outside` and `fragmentation`, or `cluster.memory_reserve_GiB`")
           .in_column(3),
       field("capacity", &Memory::capacity, "", "the GPU's whole memory"),
       field("outside", &Memory::outside, "", "CUDA's context, libraries and NCCL's buffers")
           .in_column(6),
       field("fragmentation", &Memory::fragmentation, "", "what the allocator may waste, at worst")
           .in_column(7)}};
}

template <>
FieldTable<MemoryPeak> make_fields() {
  return {field("pipeline_rank", &MemoryPeak::pipeline_rank),
          field("at_s", &MemoryPeak::at_s, "", "into the iteration"),
          field("action", &MemoryPeak::action, "", "that ends then: `forward 7 of stage 3`")};
}

template <>
FieldTable<MemoryPart> make_fields() {
  return {field("kind", &MemoryPart::kind, "", "the field of `memory_bytes` that it belongs to"),
          field("name", &MemoryPart::name, "", "`activations of layers, 8 microbatches`"),
          field("bytes", &MemoryPart::bytes)};
}

template <class T>
FieldTable<T> verdict_field(Verdict T::*member, std::string type = "", std::string help = "") {
  return field_value<T>(
      "verdict", [member](const T& o) { return verdict_text(o.*member); },
      [member](const Json& json, T* o) {
        o->*member = verdict_named(json.get<std::string>()).value();
      },
      std::move(type), std::move(help));
}

template <>
FieldTable<MemoryFix> make_fields() {
  return {field("changes", &MemoryFix::changes, "",
                "`recompute mlp`; two where no single one is enough"),
          field("settings", &MemoryFix::settings, "", "the same as `--set` takes them"),
          verdict_field(&MemoryFix::verdict),
          field("spare_bytes", &MemoryFix::spare_bytes),
          field("ideal_iteration_s", &MemoryFix::ideal_iteration_s, "", "on the ideal engine"),
          field("of_iteration", &MemoryFix::of_iteration, "",
                "how much longer that is than the run itself on that engine, as a share")};
}

template <>
FieldTable<Training> make_fields() {
  return {
      field("tokens_per_s", &Training::tokens_per_s, "1/s",
            "global batch x sequence length / `iteration_s`"),
      field("tokens_per_s_per_gpu", &Training::tokens_per_s_per_gpu, "1/s", "the same over `gpus`")
          .in_column(1),
      field("model_tflops_per_gpu", &Training::model_tflops_per_gpu, "TFLOP/s",
            "the model's FLOPs without recompute / (`iteration_s` x `gpus`)"),
      field("hardware_tflops_per_gpu", &Training::hardware_tflops_per_gpu, "TFLOP/s",
            "the same with what is repeated: recompute, and the scores in fused attention's "
            "backward"),
      field("mfu", &Training::mfu, "share",
            "`model_tflops_per_gpu` over the GPU's dense peak at the run's precision"),
      field("hfu", &Training::hfu, "share",
            "`hardware_tflops_per_gpu` over the same; at least `mfu` unless experts drop tokens"),
      field_value<Training>(
          "flops_convention",
          [](const Training& o) { return o.causal_flops ? "causal attention" : "whole attention"; },
          [](const Json& json, Training* o) { o->causal_flops = json == "causal attention"; },
          "text",
          "how these four count attention's products: `whole attention`, as Megatron-LM and PaLM "
          "do, or `causal attention`: the half that a causal mask leaves (`report.causal_flops`)")
          .in_column(2),
      field("memory_bytes", &Training::memory, "object, bytes", "of the fullest GPU"),
      field("fits", &Training::fits, "true or false", "whether `verdict` is not `no`"),
      verdict_field(
          &Training::verdict, "text",
          "`yes`; `if unfragmented`: if the allocator wastes less than `fragmentation`; `no`: "
          "`total` and `outside` are more than `capacity` ([memory.md](memory.md))")
          .in_column(8),
      field("spare_bytes", &Training::spare_bytes, "bytes",
            "`capacity` - `outside` - `total`; below 0: so much is missing")
          .in_column(9),
      field("peak", &Training::peak, "object", "when that GPU comes to hold the most activations"),
      field("memory_parts", &Training::parts, "list of objects",
            "what it holds then, the largest first; they add up to `memory_bytes.total`")
          .in_column(kNoColumn)};
}

template <>
FieldTable<Saving> make_fields() {
  return {
      field("baseline", &Saving::baseline, "text",
            "the point of the run that this one is compared with (`report.baseline`)"),
      field("saved_s", &Saving::seconds, "s",
            "what the run saves against the baseline; below 0: it takes longer"),
      field("saved_of_iteration", &Saving::of_iteration, "share",
            "the same over the baseline's iteration"),
      field("saved_kind", &Saving::kind, "text",
            "`report.kind`: a kind of communication, or `all`"),
      field("saved_communication_s", &Saving::communication_s, "s",
            "the baseline's `comm_s` of that kind; for `all` their sum"),
      field("saved_of_communication", &Saving::of_communication, "share", "`saved_s` over that")};
}

template <>
FieldTable<RoutingCost> make_fields() {
  return {field("equal_expert_loads", &RoutingCost::equal_loads, "true or false",
                "whether all ranks' experts get equally many tokens; null for a dense model and "
                "for uniform costs"),
          field("routing_cost", &RoutingCost::of_iteration, "share",
                "of the iteration that unequal loads of experts cost (`model.routing`), on the "
                "ideal engine; below 0 where capacity drops tokens"),
          field("routing_waiting", &RoutingCost::waiting, "share",
                "of the iteration: the part of `routing_cost` that waits for the busiest rank's "
                "experts; the rest is longer exchanges")};
}

template <>
FieldTable<LowerBound> make_fields() {
  return {
      field("lower_bound_s", &LowerBound::makespan, "s",
            "time that no order of the same stages, ranks and memory can beat "
            "([bounds.md](bounds.md)); null where ops may take less than their prices "
            "(jitter; over links, ranks of a stage that are not alike), and for a Program"),
      field_value<LowerBound>(
          "lower_bound_kind", [](const LowerBound& o) { return bound_kind_name(o.kind); },
          [](const Json& json, LowerBound* o) {
            o->kind = bound_kind(json.get<std::string>()).value();
          },
          "text",
          "the largest of the bounds: `path`, `work`, `memory`, `transfers`, `communication` or "
          "`reductions`"),
      field("lower_bound_rank", &LowerBound::rank, "integer",
            "the pipeline rank that it is of; null for `path`")
          .null_by_default()};
}

template <>
FieldTable<Spread> make_fields() {
  return {field("p5", &Spread::p5), field("p50", &Spread::p50), field("p95", &Spread::p95)};
}

template <>
FieldTable<LastReplica> make_fields() {
  return {field("replica", &LastReplica::replica),
          field("rank", &LastReplica::rank, "", "the one of it that came last"),
          field("slow_nodes", &LastReplica::slow_nodes, "", "its stragglers")};
}

template <>
FieldTable<RepeatedRun> make_fields() {
  return {field("seed", &RepeatedRun::seed), field("iteration_s", &RepeatedRun::iteration_s),
          field("last", &RepeatedRun::last, "",
                "the last replica at a gradient reduction, where replicas were played one by one "
                "on the ideal engine")};
}

template <>
FieldTable<Repeats> make_fields() {
  return {field("runs", &Repeats::runs),
          field("first_seed", &Repeats::first_seed, "", "the others follow"),
          field("iteration_s", &Repeats::iteration_s, "", "by nearest rank"),
          field("each", &Repeats::each).in_column(kNoColumn)};
}

template <>
FieldTable<Sensitivity> make_fields() {
  return {field("part", &Sensitivity::part, "",
                "`stage 3`, `pipeline communication`, `links between nodes`"),
          field("seconds", &Sensitivity::seconds),
          field("of_iteration", &Sensitivity::of_iteration)};
}

template <>
FieldTable<RunResult> make_fields() {
  using Run = RunResult;
  using Interval = std::pair<double, double>;
  return {
      field("name", &Run::name, "text", "the run's").in_column(kNoColumn),
      field("axes", &Run::axes, "list of text", "the scenario's axes"),
      field("points", &Run::points, "list of text", "the run's point on each axis"),
      field("cluster", &Run::cluster, "text",
            "its name; `uniform` for uniform costs, `as priced` for a Program"),
      field("engine", &Run::engine, "text", "`ideal` or `simgrid`").in_column(kNoColumn),
      field("costs", &Run::costs, "text",
            "what priced it: `analytic`, `uniform`, `table FILE`; of a Program `as priced`, "
            "`table FILE`, `op times of FILE`"),
      field("gpus", &Run::gpus, "integer", "GPUs of the job"),
      field("plan", &Run::plan, "object", "null for a Program, else"),
      field("layout", &Run::layout, "text",
            "the stages' layers in Megatron-LM's letters (`parallel.layout`); null: an even split")
          .null_by_default(),
      field("found_order", &Run::found_order, "object",
            "null where the order was given; of `schedule.order = \"auto\"`"),
      field("iteration_s", &Run::iteration_s, "s",
            "first start to last end, over all ranks, the optimizer included"),
      field_group(&Run::interval_s,
                  {field("iteration_low_s", &Interval::first, "s",
                         "the low end of the 90 % interval, the 5 % of measured over predicted "
                         "among published runs that a fit had left out, by framework profile "
                         "([accuracy.md](accuracy.md#calibrated)); that of a guess where the run "
                         "is not `calibrated`; null for costs that are not the model's, and for "
                         "what was measured"),
                   field("iteration_high_s", &Interval::second, "s",
                         "the high end, the 95 %; null as the low one")}),
      field("calibrated", &Run::calibrated, "true or false",
            "whether runs of that framework profile on that GPU in that precision and of that kind "
            "were measured ([accuracy.md](accuracy.md#calibrated)); null where there is no "
            "interval, and for stated seconds"),
      field("cost_model", &Run::cost_model, "text",
            "what was priced: `nemo-h100 on H100-SXM5-80GB in fp8`, `... in fp8 with experts`; "
            "null as `calibrated`")
          .null_by_default(),
      field("best_published_mfu", &Run::best_published_mfu, "object",
            "the highest `mfu`, counted in the same way, of the published runs on that GPU in that "
            "precision; null if there is none")
          .in_column(kNoColumn),
      field_group(&Run::training, fields_of<Training>()),
      field("memory_fixes", &Run::memory_fixes, "list of objects",
            "at most three changes with which a plan fits that does not, the fastest first "
            "([planning.md](planning.md#a-plan-that-does-not-fit)); where none is enough what "
            "misses the least; null where the plan fits, and of `sweep`, `tune`, `size`, `pack`")
          .in_column(kNoColumn),
      field("bubble_ratio", &Run::bubble_ratio, "share",
            "idle / compute, mean; 1F1B without communication: (p-1)/m"),
      field("bubble_fraction", &Run::bubble_fraction, "share", "idle / iteration, mean"),
      field("bubble_window_fraction", &Run::bubble_window_fraction, "share",
            "idle inside the rank's own window / that window (first compute start to last compute "
            "end), mean"),
      field("bubble_window_fraction_max", &Run::bubble_window_fraction_max, "share",
            "the same, the worst rank's"),
      field("compute_s", &Run::compute_s, "s", "time in which the compute lane is busy, mean"),
      field_by_kind("exposed_s", &Run::exposed_s, "by kind, s", "exposed communication, mean"),
      field_by_kind("comm_s", &Run::comm_s, "by kind, s",
                    "time in which communication of the kind is in flight: the union of its "
                    "events, mean"),
      field_by_kind("overlap_fraction", &Run::overlap_fraction, "by kind, share",
                    "the part of that union that lies beside compute, mean over the ranks that "
                    "have such communication"),
      field("exposed_between_nodes_s", &Run::exposed_between_nodes_s, "s",
            "of all `exposed_s`: on communicators that cross nodes"),
      field_by_kind(
          "sent_bytes", &Run::sent_bytes, "by kind, bytes",
          "what a GPU puts on the wire in an iteration, mean; collectives as rings: of n "
          "GPUs each sends 2(n-1)/n of an all-reduce's bytes, (n-1)/n of the others', "
          "and all of a transfer's; where experts get unequal loads, each GPU counts what the "
          "busiest rank exchanges; of `tensor`: without the second gather of a saved input, which "
          "is taken as hidden behind the input gradient's product, unless `overlap.tensor` has it "
          "in bulk"),
      field_group(&Run::routing, fields_of<RoutingCost>()).in_column(10),
      field_group(&Run::saving, fields_of<Saving>()).in_column(kNoColumn),
      field("published_tflops_per_gpu", &Run::published_tflops_per_gpu, "TFLOP/s",
            "the scenario's measured number, where the run is the one measured: at the point "
            "`published.cluster`, its model, plan and cluster as in the file (`--set` and lists "
            "change none)"),
      field("least_internode_Gbitps", &Run::least_internode_Gbitps, "Gbit/s a node",
            "bandwidth at which `exposed_between_nodes_s` is 5 % of the iteration; 0: 1 Gbit/s is "
            "already enough"),
      field("looked_for_bandwidth", &Run::looked_for_bandwidth, "true or false",
            "whether the one above was looked for (`report.least_bandwidth`)"),
      field_group(&Run::lower_bound, fields_of<LowerBound>()),
      field("repeats", &Run::repeats, "object",
            "null for a run played once; of one played several times, whose other fields are those "
            "of the median run"),
      field("sensitivity", &Run::sensitivity, "list of objects",
            "null without `--sensitivity`; with it what the iteration takes more when a part is "
            "10 % slower")
          .null_by_default()
          .in_column(kNoColumn),
      field("warnings", &Run::warnings, "list of text",
            "the run's, each beginning with its name; stderr has each once, with the number of "
            "other runs that have it"),
      field("ranks_simulated", &Run::ranks_simulated, "integer",
            "less than `gpus` when equal ranks are folded"),
      field("ops", &Run::ops, "integer", "ops played"),
      field("engine_wall_s", &Run::engine_wall_s, "s",
            "what the engine took; the only number that differs from one time to the next")
          .in_column(kNoColumn)};
}

std::optional<double> above_bound(const RunResult& result) {
  if (!result.lower_bound || result.lower_bound->makespan <= 0) return std::nullopt;
  // The ratio may be a little below 1: SimGrid's ops may end a nanosecond early.
  return std::max(0.0, result.iteration_s / result.lower_bound->makespan - 1);
}

Json to_json(const RunResult& result) { return result; }
Json to_json(const RepeatedRun& run) { return run; }
RunResult run_result_from_json(const Json& json) { return json.get<RunResult>(); }
RepeatedRun repeated_run_from_json(const Json& json) { return json.get<RepeatedRun>(); }

}  // namespace tandem
