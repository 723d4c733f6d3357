// Bars that split each rank's iteration into compute, exposed communication by kind, and bubble.
"use strict";

const kScopeNames = ["tensor", "pipeline", "data", "context", "expert"];
const kSplitRowsMax = 400;

// The parts of a bar, from left to right.
const kParts = [
  {key: "compute", name: "compute", colour: "--forward"},
  ...kScopeNames.map((name) => ({key: name, name: `exposed ${name}`, colour: `--${name}`})),
  {key: "bubble", name: "bubble", colour: "--bubble", kind: "bubble"},
];

// Returns a row for each rank of a run. Neighbouring ranks with equal times share one row.
function splitRows(run) {
  const {split} = run.detail;
  const rows = [];
  split.rank.forEach((rank, i) => {
    const values = {compute: split.compute_ns[i], bubble: split.bubble_ns[i]};
    for (const scope of kScopeNames) values[scope] = split.exposed_ns[scope][i];
    const before = rows[rows.length - 1];
    if (before && kParts.every(({key}) => before.values[key] === values[key])) {
      before.last = rank;
      before.standsFor += split.stands_for[i];
    } else {
      rows.push({first: rank, last: rank, standsFor: split.stands_for[i], values, run});
    }
  });
  return rows;
}

function rowName(row, several) {
  const ranks = row.first === row.last ? `rank ${row.first}` : `ranks ${row.first}-${row.last}`;
  return several ? `${ranks}, ${row.run.name}` : ranks;
}

// Draws the bars of one run, or of several with the bars of a rank below one another.
function drawSplit(runs) {
  const section = byId("split-section");
  const with_split = runs.filter((run) => run.detail && run.detail.split &&
    run.detail.split.rank.length > 0);
  section.hidden = with_split.length === 0;
  if (section.hidden) return;
  const several = with_split.length > 1;
  const all = d3.merge(with_split.map(splitRows));
  if (several) all.sort((a, b) => a.first - b.first);
  const rows = all.slice(0, kSplitRowsMax);
  const parts = kParts.filter(({key}) => rows.some((row) => row.values[key] > 0));
  fillLegend(byId("split-legend"), parts);

  const chart = byId("split-chart");
  const width = Math.max(300, widthOf(chart) || section.clientWidth);
  const narrow = width < 640;
  const left = several ? (narrow ? 110 : 150) : narrow ? 74 : 112;
  const right = 92;
  const step = rows.length > 40 ? 16 : 22;
  const height = rows.length * step + 30 + (all.length > rows.length ? 20 : 0);
  const total = d3.max(rows, (row) => d3.sum(kParts, ({key}) => row.values[key]));
  const x = d3.scaleLinear().domain([0, total]).range([left, width - right - 14]);
  const svg = d3.select(chart).html("").append("svg").attr("width", width - 14)
    .attr("height", height).attr("viewBox", `0 0 ${width - 14} ${height}`);
  const lines = svg.selectAll("g.row").data(rows).join("g").attr("class", "row")
    .attr("transform", (_, i) => `translate(0,${i * step})`);
  lines.append("text").attr("x", left - 8).attr("y", step / 2 + 1).attr("class", "soft")
    .attr("text-anchor", "end").text((row) => rowName(row, several));
  lines.selectAll("rect").data((row) => {
    let at = 0;
    return parts.map((part) => {
      const begin = at;
      at += row.values[part.key];
      return {part, begin, end: at, row};
    }).filter(({begin, end}) => end > begin);
  }).join("rect")
    .attr("x", ({begin}) => x(begin)).attr("y", 2).attr("height", step - 5)
    .attr("width", ({begin, end}) => Math.max(0.5, x(end) - x(begin)))
    .attr("class", ({part}) => part.kind || "").style("fill", ({part}) => `var(${part.colour})`);
  lines.append("rect").attr("x", 0).attr("width", width).attr("height", step).attr("fill", "none")
    .style("pointer-events", "all")
    .on("mousemove", (row) => tip.show(d3.event, rowName(row, several), factsOfSplit(row)))
    .on("mouseleave", () => tip.hide());
  lines.append("text").attr("x", width - right - 6).attr("y", step / 2 + 1).attr("class", "soft")
    .text((row) => `bubble ${percent(row.values.bubble / wholeOf(row))}`);
  const ticks = x.ticks(Math.max(2, Math.floor((width - left - right) / 110)));
  svg.append("g").attr("transform", `translate(0,${rows.length * step + 2})`)
    .call(d3.axisBottom(x).tickValues(ticks).tickSizeOuter(0)
      .tickFormat(timeTick(total, ticks.length > 1 ? ticks[1] - ticks[0] : total)));
  if (all.length > rows.length)
    svg.append("text").attr("class", "soft").attr("x", left).attr("y", height - 4)
      .text(`The first ${rows.length} of ${all.length} different ranks`);
}

const wholeOf = (row) => d3.sum(kParts, ({key}) => row.values[key]);

function factsOfSplit(row) {
  const whole = wholeOf(row);
  return [
    ["Stands for", row.standsFor > 1 ? `${row.standsFor} ranks` : null],
    ...kParts.filter(({key}) => row.values[key] > 0).map(({key, name}) =>
      [name, `${nanoseconds(row.values[key])}, ${percent(row.values[key] / whole)}`]),
  ];
}
