// A table of the differences between a simulated run and a measured one: two traces of one Program,
// or a simulation and a profile.
"use strict";

const inPoints = (value) => `${d3.format(".2f")(100 * value)} points`;

// Writes a value with its sign; show() writes its size.
const signed = (value, show) => isMissing(value) ? "-"
  : `${value > 0 ? "+" : value < 0 ? "−" : ""}${show(Math.abs(value))}`;

const comparedCell = (value, show) =>
  make("td", {}, isMissing(value) ? "-" : exact(value, show(value)));

// Makes a row of a table. `show` writes both values, showChange() the difference, and `share` is
// the relative one.
const comparedRow = (name, simulated, measured, show, change, showChange, share) => make("tr", {},
  make("td", {}, name), comparedCell(simulated, show), comparedCell(measured, show),
  comparedCell(change, (value) => signed(value, showChange)), make("td", {}, share));

function drawCompared(titles, rows, hint) {
  const head = ["", "Simulated", "Measured", ...titles].map((name) =>
    make("th", {scope: "col"}, name));
  byId("comparison").replaceChildren(
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
    make("p", {class: "hint"}, hint));
}

// Draws a simulation and a profile. A row may lack one of the two. `explained`: differences are
// measured less simulated, as on a page of causes; else simulated less measured.
function drawRows(rows, explained) {
  const lines = rows.map(({name, unit, simulated, measured}) => {
    const isTime = unit === "s", show = isTime ? seconds : percent;
    const [from, to] = explained ? [simulated, measured] : [measured, simulated];
    const hasBoth = from !== null && to !== null;
    const share = hasBoth && isTime && from > 0 ? signed(to / from - 1, percent) : "";
    return comparedRow(name, simulated, measured, show, hasBoth ? to - from : null,
      isTime ? seconds : inPoints, share);
  });
  const titles = explained ? ["Measured − simulated", "Change"]
    : ["Simulated − measured", "Error"];
  drawCompared(titles, lines, "Means over the ranks.");
}

// Draws a simulated and a measured trace, or a simulation and a profile.
function drawComparison(comparison, explained) {
  byId("comparison-section").hidden = false;
  if (comparison.rows) {
    drawRows(comparison.rows, explained);
    return;
  }
  const {simulated, measured} = comparison;
  const time = (name, a, b, change) => comparedRow(name, a, b, seconds, change, seconds,
    b > 0 ? signed(a / b - 1, percent) : "");
  const share = (name, a, b, change) => comparedRow(name, a, b, percent, change, inPoints, "");
  const rows = [
    time("Iteration", simulated.iteration_s, measured.iteration_s,
      simulated.iteration_s - measured.iteration_s),
    time("Compute", simulated.compute_s, measured.compute_s,
      simulated.compute_s - measured.compute_s),
    share("Bubble", simulated.bubble_fraction, measured.bubble_fraction,
      comparison.bubble_difference),
  ];
  for (const scope of kScopeNames) {
    if (comparison.exposed_difference_s[scope] !== null)
      rows.push(time(`Exposed ${scope} communication`, simulated.exposed_s[scope],
        measured.exposed_s[scope], comparison.exposed_difference_s[scope]));
  }
  for (const scope of kScopeNames) {
    if (comparison.overlap_difference[scope] !== null)
      rows.push(share(`Overlapped ${scope} communication`, simulated.overlap_fraction[scope],
        measured.overlap_fraction[scope], comparison.overlap_difference[scope]));
  }
  const {ops} = comparison;
  drawCompared(["Simulated − measured", "Error"], rows,
    `${number(ops.count)} ops in both traces; ` +
    `median error ${percent(ops.median_error)}, worst ${percent(ops.worst_error)}.`);
}
