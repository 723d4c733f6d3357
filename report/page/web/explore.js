// A page without runs, on which the user begins with a run of a shipped scenario, or with a pasted
// config.json of a model.
"use strict";

class Explorer {
  constructor(starts, live) {
    this.live = live;
    byId("explore-section").hidden = false;
    if (!live) return;
    this.runs = d3.merge(starts.map(({runs}) => runs));
    byId("explore-run").replaceChildren(...starts.map(({file, runs}) =>
      make("optgroup", {label: file}, ...runs.map((inputs) =>
        make("option", {value: String(this.runs.indexOf(inputs))}, inputs.name)))));
    byId("explore-begin").onclick = () => this.begin(this.runs[byId("explore-run").value]);
    byId("explore-own").onclick = () => this.begin(this.own());
    this.live.engine.ask({do: "words"}).then(({presets}) => {
      byId("explore-preset").replaceChildren(...presets.map((name) =>
        make("option", {value: name}, name)));
      byId("explore-preset").value = "dgx-h100";
    }, (error) => this.refused(error));
  }

  // Returns the inputs of a run of the pasted model, with one replica on each GPU.
  own() {
    return {name: "own model", axes: [], points: [], sets: {},
      notes: ["assumed: flash attention, one replica a GPU"],
      files: {"config.json": byId("explore-config").value},
      settings: {"model.from": "config.json", "model.seq": Number(byId("explore-seq").value),
        "parallel.global_batch": Number(byId("explore-batch").value),
        "train.flash_attention": true,
        "cluster.preset": byId("explore-preset").value,
        "cluster.gpus": Number(byId("explore-gpus").value)}};
  }

  async begin(inputs) {
    const run = {name: inputs.name, inputs, result: null, detail: null};
    byId("explore-failure").textContent = "";
    try {
      await this.live.show(run);
    } catch (error) {
      this.refused(error);
    }
  }

  refused(error) { byId("explore-failure").textContent = error.message; }
}
