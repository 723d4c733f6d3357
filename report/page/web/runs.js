// The table of runs, and the numbers of the chosen run.
"use strict";

const sumOf = (object) => d3.sum(Object.values(object || {}));

// The table's columns. `value` finds a result's number or text, by which rows are sorted. `show`
// writes a number, and `draw` makes the whole cell instead.
const kRunColumns = [
  {name: "Run", value: (r) => r.name, text: true},
  {name: "GPUs", value: (r) => r.gpus, show: number},
  {name: "Calibrated", value: (r) => r.calibrated === false ? "no" : r.calibrated ? "yes" : null,
    text: true},
  {name: "Iteration", value: (r) => r.iteration_s, show: seconds},
  {name: "90 of 100 within", value: (r) => r.iteration_low_s,
    draw: (r) => r.iteration_low_s === null ? "-" : interval(r)},
  {name: "Tokens", unit: "1/s", value: (r) => r.tokens_per_s, show: number},
  {name: "Tokens a GPU", unit: "1/s", value: (r) => r.tokens_per_s_per_gpu, show: number},
  {name: "Model rate", unit: "TFLOP/s a GPU", value: (r) => r.model_tflops_per_gpu,
    show: d3.format(".1f")},
  {name: "MFU", value: (r) => r.mfu, show: percent},
  {name: "Bubble", unit: "of the iteration", value: (r) => r.bubble_fraction, show: percent},
  {name: "Exposed", unit: "of the iteration", value: (r) => sumOf(r.exposed_s) / r.iteration_s,
    show: percent},
  {name: "Memory", unit: "a GPU", value: (r) => r.memory_bytes && r.memory_bytes.total,
    show: memory},
  {name: "Fits", unit: "GiB to spare", value: (r) => r.spare_bytes, draw: (r) => fitsText(r),
    text: true},
  {name: "Saved", unit: "of the baseline's iteration", value: (r) => r.saved_of_iteration,
    draw: (r) => r.baseline ? savedText(r) : "-"},
  {name: "Compute, exposed, bubble", unit: "shares of the iteration",
    value: (r) => r.compute_s / r.iteration_s, draw: (r) => shareBar(r)},
];

const interval = (r) => `${seconds(r.iteration_low_s)} to ${seconds(r.iteration_high_s)}`;
const fitsText = ({verdict, spare_bytes}) => isMissing(verdict) ? "-"
  : `${verdict === "no" ? "NO" : verdict} ${d3.format("+.1f")(spare_bytes / 2 ** 30)}`;
const savedText = (r) =>
  `${seconds(r.saved_s)}, ${percent(r.saved_of_iteration)} against ${r.baseline}`;

// Says how sure the prediction of the iteration is, and how far it is above the best order.
function iterationNote(result) {
  const notes = [];
  if (result.iteration_low_s !== null)
    notes.push(`${interval(result)} in 9 of 10 real runs` +
      (result.calibrated === false ? ", not calibrated: a guess" : ""));
  if (result.lower_bound_s && result.plan && result.plan.pp > 1) {
    const above = Math.max(0, result.iteration_s / result.lower_bound_s - 1);
    notes.push(`at most ${percentAtMost(above)} above the best possible with this layout and ` +
      "memory");
  }
  return notes.join("; ");
}

// Says how much memory a run lacks, and the changes with which it fits.
function unfitNote({spare_bytes, memory_fixes}) {
  const over = `over by ${memory(-spare_bytes)}`;
  const fixes = (memory_fixes || []).filter((fix) => fix.verdict !== "no");
  if (fixes.length === 0) return over;
  const texts = fixes.map((fix) => `${fix.changes.join(" and ")} ` +
    `(${memory(fix.spare_bytes)} to spare${fix.verdict === "yes" ? "" : ` ${fix.verdict}`}, ` +
    `${d3.format("+.1f")(100 * fix.of_iteration)} % of the iteration)`);
  return `${over}; fits with ${texts.join(", ")}`;
}

// Makes a bar of an iteration's parts (means over ranks). Its empty rest is the bubble.
function shareBar(result) {
  const parts = [["--forward", result.compute_s], ...kScopeNames.map((name) =>
    [`--${name}`, result.exposed_s[name]])];
  return make("span", {class: "bar"}, ...parts.filter(([, value]) => value > 0).map(
    ([colour, value]) => make("i",
      {style: {background: `var(${colour})`, width: `${100 * value / result.iteration_s}%`}})));
}

// A table that is sorted by the column whose title was clicked. `columns` are like kRunColumns.
// `options`: choose(row), isChosen(row), and `most`, the number of rows that are shown.
class SortedTable {
  constructor(element, columns, options = {}) {
    Object.assign(this, {element, columns, ...options});
    this.by = null;  // the column that rows are sorted by; null: they stay as given
    this.descending = false;
  }

  show(rows) {
    this.rows = rows;
    const head = this.columns.map((column, i) => make("th",
      {scope: "col", class: column.text ? "text" : "",
        "aria-sort": i !== this.by ? "none" : this.descending ? "descending" : "ascending"},
      make("button", {type: "button", onclick: () => this.sort(i)}, column.name),
      ...(column.unit ? [make("br"), make("small", {}, column.unit)] : [])));
    const body = this.sorted(rows).slice(0, this.most || Infinity).map((row) =>
      make("tr", {class: this.isChosen && this.isChosen(row) ? "chosen" : ""},
        ...this.columns.map((column, i) => this.cell(column, row, i === 0))));
    const many = this.columns.length;
    this.element.replaceChildren(make("table",
      {class: many > 13 ? "packed" : many > 10 ? "dense" : ""},
      make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
  }

  // Returns the rows in their order. Those without a value come last.
  sorted(rows) {
    if (this.by === null) return rows;
    const {value} = this.columns[this.by];
    const compare = this.descending ? d3.descending : d3.ascending;
    return [...rows.filter((row) => !isMissing(value(row)))
      .sort((a, b) => compare(value(a), value(b))),
    ...rows.filter((row) => isMissing(value(row)))];
  }

  // Makes a row's cell. The first one chooses the row.
  cell(column, row, isFirst) {
    const shown = column.draw ? column.draw(row) : this.shownValue(column, column.value(row));
    const isLong = typeof shown === "string" && shown.length > 24;
    const kinds = [column.text ? "text" : "", column.isBad && column.isBad(row) ? "bad" : "",
      isLong ? "long" : ""];
    return make("td", {class: kinds.filter(Boolean).join(" ")}, isFirst && this.choose
      ? make("button", {type: "button", onclick: () => this.choose(row)}, shown) : shown);
  }

  shownValue(column, value) {
    if (isMissing(value)) return "-";
    return column.text ? String(value) : exact(value, (column.show || number)(value));
  }

  sort(column) {
    this.descending = this.by === column ? !this.descending : false;
    this.by = column;
    this.show(this.rows);
    this.element.querySelectorAll("thead button")[column].focus();
  }
}

// Returns the run's name on this page, and the name in its result if that differs.
const runTitle = ({name, result}) => name === result.name ? name : `${name}: ${result.name}`;

// Returns each warning once, with the name of the first run that has it and the number of others.
function warningsOf(runs) {
  const warnings = new Map();  // text without the run's name -> the first run's text, and others
  for (const {result} of runs) {
    for (const text of result.warnings || []) {
      const begin = `${result.name}: `;
      const key = text.startsWith(begin) ? text.slice(begin.length) : text;
      if (warnings.has(key)) ++warnings.get(key).others;
      else warnings.set(key, {text, others: 0});
    }
  }
  return [...warnings.values()].map(({text, others}) => others === 0 ? text
    : `${text} (and ${others} other run${others > 1 ? "s" : ""})`);
}

class RunList {
  // choose(run): called when another run is looked at.
  constructor(runs, choose) {
    this.runs = runs.filter((run) => run.result);
    // Leaves out columns that no run has a value for.
    const some = (value) => !isMissing(value) && !Number.isNaN(value);
    const columns = kRunColumns.filter((column) =>
      this.runs.length === 0 || this.runs.some((run) => some(column.value(run.result))))
      .map((column) => ({...column,
      value: (run) => column.value(run.result),
      draw: column.draw && ((run) => column.draw(run.result))}));
    columns[0].value = runTitle;
    for (const column of columns)
      if (["Memory", "Fits"].includes(column.name))
        column.isBad = (run) => run.result.fits === false;
    this.chosen = null;
    this.table = new SortedTable(byId("runs-table"), columns, {
      isChosen: (run) => run === this.chosen,
      choose: (run) => choose(run),
    });
    byId("runs-filter").addEventListener("input", () => this.draw());
    byId("runs-section").hidden = this.runs.length < 2;
    byId("runs-warnings").replaceChildren(...warningsOf(this.runs).map((text) =>
      make("li", {}, text)));
  }

  mark(run) { this.chosen = run; this.draw(); }

  draw() {
    const words = byId("runs-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = this.runs.filter((run) =>
      words.every((word) => `${runTitle(run)} ${run.result.cluster}`.toLowerCase().includes(word)));
    byId("runs-count").textContent = `${shown.length} of ${this.runs.length} runs`;
    this.table.show(shown);
  }
}

// One of the large numbers: its name, the number, its text, and a small line below.
const figure = (name, value, text, below = "", bad = false) => ({name, value, text, below, bad});

// Makes a figure's element. `was`: the same figure before the user changed the run.
function drawFigure({name, value, text, below, bad}, was) {
  const lines = [make("small", bad ? {class: "bad"} : {}, below)];
  if (was && was.text !== text) lines.push(make("small", {class: "was"}, `was ${was.text}`));
  return make("div", {}, make("dt", {}, name),
    make("dd", {}, isMissing(value) ? "-" : exact(value, text), ...lines));
}

function drawNumbers(run) {
  const {result} = run;
  byId("run-section").hidden = !result;
  if (!result) return;
  byId("run-title").textContent = runTitle(run);
  const {plan} = result;
  const parts = [`${number(result.gpus)} GPUs`, result.cluster, `${result.engine} engine`];
  if (plan) {
    const sizes = [`tp ${plan.tp}`, `pp ${plan.pp}${plan.vpp > 1 ? ` x ${plan.vpp}` : ""}`,
      `dp ${plan.dp}`];
    for (const key of ["cp", "ep"]) if (plan[key] > 1) sizes.push(`${key} ${plan[key]}`);
    parts.push(sizes.join(", "),
      `${plan.microbatches} microbatch${plan.microbatches > 1 ? "es" : ""}`);
  }
  byId("run-plan").textContent = parts.join(" · ");
  byId("run-hardware").textContent = run.detail && run.detail.hardware || "";
  const was = run.began ? figuresOf(run.began.result) : [];
  byId("numbers").replaceChildren(...figuresOf(result).map((each) =>
    drawFigure(each, was.find(({name}) => name === each.name))));
  byId("warnings").replaceChildren(...(result.warnings || []).map((text) => make("li", {}, text)));
}

function figuresOf(result) {
  const exposed = sumOf(result.exposed_s);
  const most = d3.scan(kScopeNames, (a, b) => result.exposed_s[b] - result.exposed_s[a]);
  const figures = [
    figure("Iteration", result.iteration_s, seconds(result.iteration_s),
      iterationNote(result), result.calibrated === false),
    figure("Compute", result.compute_s, seconds(result.compute_s),
      `${percent(result.compute_s / result.iteration_s)} of the iteration`),
    figure("Exposed communication", exposed, seconds(exposed),
      exposed > 0
        ? `${percent(exposed / result.iteration_s)}, most of it ${kScopeNames[most]}` : ""),
    figure("Bubble", result.bubble_fraction, percent(result.bubble_fraction),
      `${d3.format(".3~g")(result.bubble_ratio)} of compute`),
  ];
  if (result.memory_bytes) {
    const {total, outside, capacity} = result.memory_bytes;
    const usable = `${memory(capacity - outside)}, beside ${memory(outside)} of CUDA and NCCL` +
      (result.verdict === "if unfragmented" ? ": fits if unfragmented" : "");
    figures.splice(1, 0,  // behind the iteration
      figure("Tokens", result.tokens_per_s, `${number(result.tokens_per_s)} /s`,
        `${number(result.tokens_per_s_per_gpu)} /s a GPU`),
      figure("Model rate", result.model_tflops_per_gpu,
        `${number(result.model_tflops_per_gpu)} TFLOP/s`, "a GPU, without recompute"),
      figure("MFU", result.mfu, percent(result.mfu),
        `HFU ${percent(result.hfu)}, FLOPs of ${result.flops_convention}`));
    figures.push(figure("Memory, fullest GPU", total, memory(total),
      result.fits ? `of ${usable}` : unfitNote(result), !result.fits));
  }
  if (result.baseline) {
    figures.push(figure("Saved", result.saved_s, seconds(result.saved_s),
      `${percent(result.saved_of_iteration)} of the iteration, against ${result.baseline}`));
  }
  return figures;
}
