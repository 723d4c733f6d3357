// Runs whose timelines are drawn beside that of the chosen run, on one time axis: their choice,
// their alignment, and a table of their results.
"use strict";

const kMostBeside = 7;
const kBesideColumns = ["Run", "Iteration", "Bubble", "Exposed", "Memory", "Fits"];

const hasTimeline = (run) => run.detail && run.detail.timeline &&
  run.detail.timeline.ranks.length > 0;

class Beside {
  // changed() is called when other runs or another alignment are chosen.
  constructor(runs, changed) {
    this.runs = runs;
    this.changed = changed;
    this.others = [];
    byId("beside").onchange = () => {
      this.others.push(runs[Number(byId("beside").value)]);
      changed();
    };
    byId("align").onchange = changed;
    const columns = kRunColumns.filter(({name}) => kBesideColumns.includes(name)).map((column) =>
      ({...column, value: (run) => run.result && column.value(run.result), draw: null}));
    columns[0].value = (run) => run.name;
    this.table = new SortedTable(byId("beside-table"), columns);
  }

  // Returns the chosen run and those beside it, and updates the form and the table.
  shown(chosen) {
    this.others = this.others.filter((run) => run !== chosen);
    const all = [chosen, ...this.others];
    const left = this.runs.map((run, i) => ({run, i}))
      .filter(({run}) => hasTimeline(run) && !all.includes(run));
    byId("beside-label").hidden = left.length === 0 || all.length > kMostBeside;
    byId("beside").replaceChildren(make("option", {value: ""}, "add a run"),
      ...left.map(({run, i}) => make("option", {value: String(i)}, run.name)));
    byId("besides").replaceChildren(...this.others.map((run) => make("button",
      {type: "button", title: "Take it away", onclick: () => this.remove(run)}, `${run.name} ×`)));
    byId("align-label").hidden = this.others.length === 0;
    byId("beside-table").hidden = this.others.length === 0;
    if (this.others.length > 0) this.table.show(all);
    return all;
  }

  remove(run) {
    this.others = this.others.filter((each) => each !== run);
    this.changed();
  }

  // Offers the microbatches that runs can be aligned by, and returns the chosen one; null: by their
  // start.
  alignment(microbatches) {
    const before = byId("align").value;
    byId("align").replaceChildren(make("option", {value: ""}, "start"),
      ...d3.range(Math.min(microbatches, 64)).map((number) =>
        make("option", {value: String(number)}, `microbatch ${number}`)));
    if (Number(before) < microbatches) byId("align").value = before;
    return byId("align").value === "" ? null : Number(byId("align").value);
  }
}
