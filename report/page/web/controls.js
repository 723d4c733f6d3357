// The inputs that a live page can change: their names, the values that are tried for each, and the
// form that shows them.
"use strict";

const kPowers = (most) => d3.range(0, 1 + Math.log2(most)).map((power) => 2 ** power);
const kFlags = [false, true];

// `tries`: the values that a list offers, from the run's values, the engine's words, and the values
// at the beginning. `likely`: values that a field suggests; any other may be typed.
const kControls = [
  {title: "Machine", controls: [
    {key: "cluster.preset", name: "Cluster", tries: (now, words) => words.presets},
    {key: "cluster.gpus", name: "GPUs", tries: (now, words, began) =>
      [1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 1.5, 2, 4, 8].map((part) => part * began["cluster.gpus"])
        .filter((gpus) => gpus >= 1 && Number.isInteger(gpus))},
    {key: "cluster.nic_Gbitps", name: "NIC, each way", unit: "Gbit/s",
      likely: [100, 200, 400, 800, 1600]},
    {key: "cluster.intra_GBps", name: "In node, each way", unit: "GB/s",
      likely: [50, 300, 450, 900]},
  ]},
  {title: "Plan", controls: [
    {key: "parallel.tp", name: "Tensor (tp)", tries: () => kPowers(32)},
    {key: "parallel.pp", name: "Pipeline (pp)",
      tries: () => d3.merge([kPowers(64), [3, 5, 6, 10, 12, 20, 24, 48]]).sort(d3.ascending)},
    {key: "parallel.vpp", name: "Stages a rank (vpp)", tries: () => [1, 2, 3, 4, 5, 6, 8, 10, 12]},
    {key: "parallel.dp", name: "Data (dp)", tries: (now) =>
      [1 / 4, 1 / 2, 1, 2, 4].map((part) => part * now["parallel.dp"])
        .filter((dp) => dp >= 1 && Number.isInteger(dp))},
    {key: "parallel.cp", name: "Context (cp)", tries: () => kPowers(32)},
    {key: "parallel.ep", name: "Expert (ep)", tries: () => kPowers(256)},
    {key: "parallel.micro_batch", name: "Micro batch", unit: "sequences", tries: () => kPowers(32)},
    {key: "parallel.global_batch", name: "Global batch", unit: "sequences", likely: []},
    {key: "schedule.order", name: "Order", tries: (now, words) => words.orders},
  ]},
  {title: "Training", controls: [
    {key: "model.seq", name: "Sequence", unit: "tokens", likely: [2048, 4096, 8192, 32768, 131072]},
    {key: "train.precision", name: "Precision",
      tries: () => ["fp32", "fp16", "bf16", "fp8", "nvfp4"]},
    {key: "train.recompute", name: "Recompute", tries: () => ["none", "selective", "full"]},
    {key: "train.zero", name: "ZeRO", tries: () => [0, 1, 2, 3]},
    {key: "train.sequence_parallel", name: "Sequence parallel", tries: () => kFlags},
    {key: "variability.jitter", name: "Jitter", unit: "of each op", likely: [0, 0.02, 0.05, 0.1]},
  ]},
  {title: "Overlap", controls: [
    {key: "overlap.p2p", name: "Pipeline transfers", tries: () => kFlags},
    {key: "overlap.grad_reduce", name: "Gradients", tries: () => kFlags},
    {key: "overlap.param_gather", name: "Parameters", tries: () => kFlags},
    {key: "overlap.tensor", name: "Tensor", tries: () => ["off", "bulk", "pipelined", "ring"]},
    {key: "overlap.context", name: "Context", tries: () => kFlags},
    {key: "overlap.expert", name: "Experts", tries: () => kFlags},
  ]},
];

const kAllControls = d3.merge(kControls.map(({controls}) => controls));
const controlOf = (key) => kAllControls.find((control) => control.key === key);
const controlWord = (value) => value === true ? "yes" : value === false ? "no" : String(value);

// Changes of other keys ("companions") that may make a value possible that is refused alone, the
// smallest first.
const kCompanions = [
  {"parallel.micro_batch": 1}, {"parallel.vpp": 1}, {"parallel.vpp": 2},
  {"train.sequence_parallel": true},
  {"parallel.scatter_gather": false},
  {"parallel.micro_batch": 1, "parallel.vpp": 1},
  {"train.sequence_parallel": true, "parallel.scatter_gather": false},
  {"parallel.cp": 1}, {"parallel.cp": 1, "parallel.micro_batch": 1},
  {"parallel.cp": 1, "parallel.micro_batch": 1, "parallel.vpp": 1},
];

// Returns the companions to try for a control: those of other keys that change something.
const companionsOf = (control, now) => kCompanions.filter((changes) => !(control.key in changes) &&
  Object.entries(changes).every(([key, value]) => now[key] !== value));

// Writes changes in the controls' words: "Micro batch 1, Overlap of gradients yes".
const changesText = (changes) => Object.entries(changes).map(([key, value]) => {
  const {name} = controlOf(key) || {name: key};
  const words = key.startsWith("overlap.") ? `Overlap of ${name.toLowerCase()}` : name;
  return `${words} ${controlWord(value)}`;
}).join(", ");

// Returns the changes that a control's new value makes; null takes a setting away. A number of
// replicas changes the GPUs, from which it follows. Another cluster takes the numbers of the one
// before away.
function changesOf(control, value, now, settings) {
  if (control.key === "parallel.dp") {
    const gpus = value * now["parallel.tp"] * now["parallel.pp"] * now["parallel.cp"];
    return {"cluster.gpus": gpus};
  }
  const changes = {[control.key]: value};
  if (control.key !== "cluster.preset") return changes;
  for (const key of [...Object.keys(settings), "cluster.nic_Gbitps", "cluster.intra_GBps"])
    if (key.startsWith("cluster.") && !["cluster.gpus", "cluster.preset"].includes(key))
      changes[key] = null;
  return changes;
}

// The form of all controls. change(control, value, companions): the user chose a value, and with it
// the companions that make room for it.
class Controls {
  constructor(element, change) {
    this.change = change;
    this.fields = new Map();  // by key: {box, input, why}
    element.replaceChildren(...kControls.map(({title, controls}) => make("fieldset", {},
      make("legend", {}, title), ...controls.map((control) => this.field(control)))));
  }

  field(control) {
    const id = `control-${control.key}`;
    const input = control.tries ? make("select", {id})
      : make("input", {id, type: "number", step: "any", min: "0", list: `${id}-likely`});
    const why = make("small", {id: `${id}-why`, class: "bad", role: "alert"});
    input.setAttribute("aria-describedby", why.id);
    input.onchange = () => {
      const [chosen] = input.selectedOptions || [];
      const typed = input.value === "" ? null : Number(input.value);  // empty: as without the key
      this.change(control, control.tries ? JSON.parse(input.value) : typed,
        JSON.parse((chosen && chosen.dataset.companions) || "{}"));
    };
    const parts = [make("label", {for: id}, control.name,
      ...(control.unit ? [make("small", {}, ` ${control.unit}`)] : [])), input, why];
    if (!control.tries) parts.push(make("datalist", {id: `${id}-likely`},
      ...control.likely.map((value) => make("option", {value: String(value)}))));
    const box = make("div", {class: "control"}, ...parts);
    this.fields.set(control.key, {box, input, why});
    return box;
  }

  // Shows the values now, and marks those that differ from the beginning. Hides controls that the
  // job does not have. refuse() disables values of a list later.
  show(now, began, words) {
    for (const control of kAllControls) {
      const {box, input, why} = this.fields.get(control.key);
      const value = now[control.key];
      why.textContent = "";
      box.hidden = value === undefined || value === null;
      box.classList.toggle("changed", JSON.stringify(value) !== JSON.stringify(began[control.key]));
      if (box.hidden) continue;
      if (!control.tries) { input.value = String(value); continue; }
      const values = control.tries(now, words, began).slice();
      if (!values.some((each) => each === value)) values.unshift(value);
      input.replaceChildren(...values.map((each) => make("option",
        {value: JSON.stringify(each)}, controlWord(each) || "as in the file")));
      input.value = JSON.stringify(value);
    }
  }

  // Returns the values that a control offers beside the one now.
  offered(control, now) {
    const {box, input} = this.fields.get(control.key);
    if (box.hidden || !control.tries) return [];
    return [...input.options].map(({value}) => JSON.parse(value))
      .filter((value) => value !== now[control.key]);
  }

  // Writes into a list that one of its values is refused alone: with the companions that make it
  // possible, or with the reason if there are none.
  refuse(control, value, reason, companions) {
    const {input} = this.fields.get(control.key);
    const option = [...input.options].find((each) => each.value === JSON.stringify(value));
    if (!option) return;
    option.title = reason;
    option.disabled = !companions;
    option.textContent = `${controlWord(value)}: ` +
      (companions ? `with ${changesText(companions)}` : shortened(reason, 90));
    if (companions) option.dataset.companions = JSON.stringify(companions);
  }

  // Shows an error beside the control that the user changed, or else the first that it is about.
  // Returns whether there is one; an error without keys is about none.
  blame(keys, text, changed) {
    const field = (keys ? [changed, ...keys] : []).map((key) => this.fields.get(key))
      .find((each) => each && !each.box.hidden);
    if (field) field.why.textContent = text;
    return Boolean(field);
  }
}
