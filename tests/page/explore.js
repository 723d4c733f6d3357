// The explorer's page: from a pasted config.json to a searched plan, and from a shipped scenario.
"use strict";

async function until(holds, within = 60000) {
  const end = performance.now() + within;
  while (!holds()) {
    if (performance.now() > end) throw new Error("waited too long");
    await pause(20);
  }
}

see(async () => {
  const {live} = report;
  await until(() => document.querySelectorAll("#explore-preset option").length > 0);
  seen.scenarios = document.querySelectorAll("#explore-run option").length;
  document.getElementById("explore-config").value = "{}";
  document.getElementById("explore-own").click();
  await until(() => document.getElementById("explore-failure").textContent !== "");
  seen.refused = document.getElementById("explore-failure").textContent;

  document.getElementById("explore-config").value = JSON.stringify({model_type: "llama",
    architectures: ["LlamaForCausalLM"], hidden_size: 4096, intermediate_size: 14336,
    num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256,
    max_position_embeddings: 8192, tie_word_embeddings: false, rms_norm_eps: 1e-5,
    hidden_act: "silu", torch_dtype: "bfloat16", rope_theta: 500000});
  document.getElementById("explore-own").click();
  await until(() => live.answered === 1 && !live.busy);
  seen.own = report.chosen.result;
  seen.failure = document.getElementById("explore-failure").textContent;
  seen.ownScenario = live.scenario();

  document.getElementById("live-search").click();
  await until(() => live.searcher);
  await until(() => !live.searcher);
  seen.found = document.getElementById("live-found").textContent;
  const take = document.querySelector("#live-found button");
  seen.taken = take !== null;
  if (take) {
    const before = live.answered;
    take.click();
    await until(() => live.answered > before && !live.busy);
    seen.better = report.chosen.result;
  }

  const before = live.answered;
  document.getElementById("explore-begin").click();
  await until(() => live.answered > before && !live.busy);
  seen.shipped = report.chosen.result;
});
