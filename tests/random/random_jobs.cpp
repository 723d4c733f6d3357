#include "tests/random/random_jobs.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "tests/draw.h"
#include "tests/folder.h"

namespace tandem {
namespace {

using Ints = std::vector<int>;
using Texts = std::vector<std::string>;

class JobDraw {
 public:
  explicit JobDraw(std::uint64_t seed) : draw_(seed) {}

  JobKeys job() {
    sizes();
    order();
    model();
    if (one_in(4)) experts();
    training();
    overlaps();
    cluster();
    return std::move(keys_);
  }

 private:
  bool one_in(int n) { return draw_.below(n) == 0; }
  template <class T>
  void set(const std::string& key, const T& value) {
    keys_[key] = fmt::format("{}", value);
  }
  void set_text(const std::string& key, const std::string& value) { set(key, '"' + value + '"'); }

  void sizes() {
    do {
      tp_ = draw_.among(Ints{1, 1, 1, 2, 2, 3, 4, 8});
      pp_ = draw_.among(Ints{1, 1, 2, 2, 3, 4, 5, 8});
      dp_ = draw_.among(Ints{1, 1, 2, 2, 3, 4});
      cp_ = draw_.among(Ints{1, 1, 1, 1, 2, 4});
    } while (tp_ * pp_ * dp_ * cp_ > 32);
  }

  void order() {
    std::string name =
        draw_.among(Texts{"1f1b", "1f1b", "gpipe", "interleaved", "interleaved", "looped-bfs",
                          "zb1p", "zb2p", "zbv", "v-half", "v-min", "dualpipe", "dualpipev"});
    if (pp_ == 1) name = "none";
    const bool halves = name == "zbv" || name.starts_with("v-") || name == "dualpipev";
    if (name == "interleaved" || name == "looped-bfs") vpp_ = draw_.among(Ints{1, 2, 2, 3});
    if (halves) vpp_ = 2;
    int microbatches = 1 + draw_.below(12);
    if (name == "interleaved") microbatches = pp_ * (1 + draw_.below(3));
    if (name == "dualpipe") pp_ += pp_ % 2;
    if (name.starts_with("dualpipe")) microbatches = 2 * pp_ + 2 * draw_.below(4);
    const int micro_batch = draw_.among(Ints{1, 1, 2, 4});
    set_text("schedule.order", name);
    set("parallel.tp", tp_);
    set("parallel.pp", pp_);
    set("parallel.dp", dp_);
    set("parallel.cp", cp_);
    set("parallel.vpp", vpp_);
    set("parallel.micro_batch", micro_batch);
    set("parallel.global_batch", microbatches * micro_batch * dp_);
    if (tp_ > 1 && one_in(3)) set("parallel.scatter_gather", true);
    if (cp_ > 1)
      set_text("parallel.cp_comm", draw_.among(Texts{"ring", "all_gather", "all_to_all"}));
  }

  void model() {
    const int head = draw_.among(Ints{32, 64, 128});
    const int heads = tp_ * cp_ * draw_.among(Ints{1, 2, 4});
    layers_ = pp_ * vpp_ * draw_.among(Ints{1, 2, 3});
    set("model.layers", layers_);
    set("model.hidden", heads * head);
    set("model.heads", heads);
    set("model.seq", tp_ * cp_ * 2 * draw_.among(Ints{32, 64, 100, 256}));
    set("model.vocab", draw_.among(Ints{1000, 32000, 50257, 128256}));
    if (one_in(3)) set("model.gated_mlp", true);
    if (one_in(4)) set("model.ffn_hidden", tp_ * draw_.among(Ints{64, 256, 1000}));
  }

  void experts() {
    const int experts = draw_.among(Ints{2, 4, 6, 8});
    set("model.experts", experts);
    set("model.top_k", 1 + draw_.below(2));
    if (one_in(2)) set("model.expert_ffn_hidden", tp_ * draw_.among(Ints{64, 128, 512}));
    if (one_in(3)) set("model.shared_expert_ffn", tp_ * 64);
    if (one_in(2)) set("parallel.expert_tp", 1);
    for (const int ep : {8, 6, 4, 3, 2}) {
      if (experts % ep == 0 && dp_ * cp_ % ep == 0 && one_in(2)) {
        set("parallel.ep", ep);
        break;
      }
    }
    sequence_parallel_ = tp_ > 1;
  }

  void training() {
    if (tp_ > 1) sequence_parallel_ |= one_in(2);
    if (sequence_parallel_) set("train.sequence_parallel", true);
    const std::string precision = draw_.among(Texts{"bf16", "bf16", "fp16", "fp32"});
    set_text("train.precision", precision);
    const std::string recompute = draw_.among(Texts{"none", "none", "selective", "full"});
    set_text("train.recompute", recompute);
    if (recompute == "full" && one_in(3)) set("train.recompute_layers", draw_.below(layers_ + 1));
    if (precision != "fp32" && one_in(2)) set("train.flash_attention", true);
    if (one_in(4)) set("train.cuda_graphs", true);
    zero_ = draw_.among(pp_ == 1 ? Ints{0, 0, 1, 2, 3} : Ints{0, 0, 1});
    set("train.zero", zero_);
  }

  void overlaps() {
    if (one_in(2)) set("overlap.grad_reduce", true);
    if (zero_ > 0 && one_in(2)) set("overlap.param_gather", true);
    if (one_in(5)) set("overlap.bucket_MB", draw_.among(Ints{1, 10}));
    if (sequence_parallel_ && one_in(3))
      set_text("overlap.tensor", draw_.among(Texts{"bulk", "pipelined", "ring"}));
    if (one_in(8)) set("overlap.data_sms", draw_.among(Ints{1, 8, 32}));
    if (one_in(8)) set("overlap.p2p_sms", draw_.among(Ints{1, 8}));
  }

  // A GPU of one's own, so that each of its numbers can be changed.
  void cluster() {
    set_text("cluster.gpu_name", "mine");
    set("cluster.tflops", 312);
    set("cluster.memory_GBps", 1555);
    set("cluster.memory_GiB", 80);
    set("cluster.sms", 108);
    const int node = draw_.among(Ints{1, 2, 3, 4, 8, 8});
    set("cluster.gpus_per_node", node);
    set("cluster.nics_per_node", one_in(2) ? 1 : node);
    set("cluster.intra_GBps", draw_.among(Ints{25, 100, 300, 450}));
    set("cluster.intra_latency_us", draw_.among(Texts{"0", "1", "5.5"}));
    set("cluster.nic_Gbitps", draw_.among(Ints{10, 100, 200, 400}));
    set("cluster.inter_latency_us", draw_.among(Texts{"0", "2", "10.25"}));
    if (one_in(3)) {
      set_text("cluster.fabric", draw_.among(Texts{"rail-optimised", "fat-tree"}));
      set("cluster.nodes_per_leaf", draw_.among(Ints{1, 2, 4}));
      set("cluster.oversubscription", draw_.among(Ints{1, 2, 4}));
    }
    if (one_in(3)) set_text("cluster.collectives", draw_.among(Texts{"ring", "hierarchical"}));
    if (one_in(6)) set("cluster.trees", true);
  }

  Draw draw_;
  JobKeys keys_;
  int tp_ = 1, pp_ = 1, dp_ = 1, cp_ = 1, vpp_ = 1, layers_ = 1, zero_ = 0;
  bool sequence_parallel_ = false;
};

}  // namespace

JobKeys random_job(std::uint64_t seed) { return JobDraw(seed).job(); }

std::string text_of(const JobKeys& keys) {
  std::string text;
  for (const auto& [key, value] : keys) text += fmt::format("{} = {}\n", key, value);
  return text;
}

std::optional<Scenario> scenario_of(const JobKeys& keys) {
  const Folder folder;
  auto scenarios = load_scenarios(folder.with("job.toml", text_of(keys)), {});
  if (!scenarios.ok()) return std::nullopt;
  return std::move(scenarios->front());
}

int random_jobs(int otherwise) {
  const char* const count = std::getenv("TANDEM_RANDOM_JOBS");
  return count == nullptr ? otherwise : std::atoi(count);
}

}  // namespace tandem
