// A table of the differences between a simulated run and a measured one: two traces of one Program,
// or a simulation and a profile.
"use strict";

// Writes a value with its sign; show() writes its size.
const signed = (value, show) =>
  value === null || value === undefined ? "-" : `${value > 0 ? "+" : value < 0 ? "−" : ""}` +
    show(Math.abs(value));

// Draws a simulation and a profile. A row may lack one of the two. `explained`: differences are
// measured less simulated, as on a page of causes; else simulated less measured.
function drawRows(rows, explained) {
  const columns = explained ? ["Measured − simulated", "Change"]
    : ["Simulated − measured", "Error"];
  const head = ["", "Simulated", "Measured", ...columns].map((name) =>
    make("th", {scope: "col"}, name));
  const points = (value) => `${d3.format(".2f")(100 * value)} points`;
  const cell = (value, show) =>
    make("td", {}, value === null ? "-" : exact(value, show(value)));
  const body = rows.map(({name, unit, simulated: a, measured: b}) => {
    const show = unit === "s" ? seconds : percent;
    const both = a !== null && b !== null;
    const [from, to] = explained ? [a, b] : [b, a];
    return make("tr", {}, make("td", {}, name), cell(a, show), cell(b, show),
      make("td", {}, both ? exact(to - from, signed(to - from, unit === "s" ? seconds : points))
        : "-"),
      make("td", {}, both && unit === "s" && from > 0 ? signed(to / from - 1, percent) : ""));
  });
  byId("comparison").replaceChildren(
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)),
    make("p", {class: "hint"}, "Means over the ranks."));
}

// Draws a simulated and a measured trace, or a simulation and a profile.
function drawComparison(comparison, explained) {
  byId("comparison-section").hidden = false;
  if (comparison.rows) {
    drawRows(comparison.rows, explained);
    return;
  }
  const {simulated, measured} = comparison;
  const row = (name, a, b, show, difference, showDifference = show) => make("tr", {},
    make("td", {}, name),
    make("td", {}, a === null ? "-" : exact(a, show(a))),
    make("td", {}, b === null ? "-" : exact(b, show(b))),
    make("td", {}, difference === null || difference === undefined ? "-"
      : exact(difference, signed(difference, showDifference))),
    make("td", {}, b > 0 && show === seconds ? signed(a / b - 1, percent) : ""));
  const points = (value) => `${d3.format(".2f")(100 * value)} points`;
  const rows = [
    row("Iteration", simulated.iteration_s, measured.iteration_s, seconds,
      simulated.iteration_s - measured.iteration_s),
    row("Compute", simulated.compute_s, measured.compute_s, seconds,
      simulated.compute_s - measured.compute_s),
    row("Bubble", simulated.bubble_fraction, measured.bubble_fraction, percent,
      comparison.bubble_difference, points),
  ];
  for (const scope of kScopeNames) {
    if (comparison.exposed_difference_s[scope] !== null)
      rows.push(row(`Exposed ${scope} communication`, simulated.exposed_s[scope],
        measured.exposed_s[scope], seconds, comparison.exposed_difference_s[scope]));
  }
  for (const scope of kScopeNames) {
    if (comparison.overlap_difference[scope] !== null)
      rows.push(row(`Overlapped ${scope} communication`, simulated.overlap_fraction[scope],
        measured.overlap_fraction[scope], percent, comparison.overlap_difference[scope], points));
  }
  const head = ["", "Simulated", "Measured", "Simulated − measured", "Error"].map((name) =>
    make("th", {scope: "col"}, name));
  const {ops} = comparison;
  byId("comparison").replaceChildren(
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
    make("p", {class: "hint"}, `${number(ops.count)} ops in both traces; ` +
      `median error ${percent(ops.median_error)}, worst ${percent(ops.worst_error)}.`));
}
