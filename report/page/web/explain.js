// The causes for which a measured run is slower than its simulation, as a waterfall chart: a row a
// cause, from the simulated iteration to the measured one. Below it are the measured ranks.
"use strict";

const kMostRankCells = 512;

// Returns the rows: where each bar begins and ends, in seconds. `whole`: an iteration's bar.
function explainedRows(e) {
  const rows = [{what: "Simulated iteration", begin: 0, end: e.simulated_s, whole: true}];
  let at = e.simulated_s;
  const add = (what, change, more = {}) => {
    if (Math.abs(change) < 1e-8) return;  // seconds; a rounding error
    rows.push({what, begin: at, end: at + change, ...more});
    at += change;
  };
  for (const {what, alone_s, evidence, advice} of e.causes)
    add(what, alone_s, {note: `Evidence: ${evidence}. To do: ${advice}.`});
  add("Smaller causes, together", e.smaller_causes_s);
  add("Interactions", e.interactions_s, {note: "All causes together, less each alone."});
  add("Not explained", e.not_explained_s);
  rows.push({what: "Measured iteration", begin: 0, end: e.measured_s, whole: true});
  return rows;
}

function explainedRow({what, begin, end, whole, note}, most, measured) {
  const change = end - begin;
  const bar = make("div", {class: whole ? "step" : change > 0 ? "step more" : "step less",
    style: {marginLeft: `${100 * Math.min(begin, end) / most}%`,
      width: `${100 * Math.abs(change) / most}%`}});
  const sign = whole || change < 0 ? "" : "+";
  const share = `${sign}${percent(change / measured)}`;
  return make("tr", {}, make("th", {scope: "row"}, what,
    ...(note ? [make("small", {}, note)] : [])),
  make("td", {class: "track"}, bar),
  make("td", {class: "number"}, exact(change, whole ? seconds(change) : signed(change, seconds))),
  make("td", {class: "number"}, share));
}

// Returns a cell a rank: the redder, the longer its compute took than simulated.
function rankCells(ranks) {
  if (ranks.length === 0) return [];
  const shown = ranks.slice(0, kMostRankCells);
  const most = Math.max(1.05, d3.max(shown, ({compute_ratio}) => compute_ratio));
  const least = Math.min(1, d3.min(shown, ({compute_ratio}) => compute_ratio));
  const colour = d3.scaleLinear().domain([least, most]).range([0.05, 0.6]);
  return shown.map(({rank, compute_ratio, delays_s}) => make("span", {class: "rank-cell",
    style: {background: `rgba(200, 60, 40, ${colour(compute_ratio)})`},
    title: `Rank ${rank}: compute takes ${d3.format(".3f")(compute_ratio)} times as long as ` +
      `simulated; its gaps are ${seconds(delays_s)}.`},
  make("b", {}, String(rank)), ` × ${d3.format(".2f")(compute_ratio)}`));
}

// Returns, by rank, the ratios of ranks that compute more than 3 % longer than the median rank. The
// timeline marks them.
function slowRanks({ranks_measured: ranks}) {
  const most = 1.03 * d3.median(ranks, ({compute_ratio}) => compute_ratio);
  return new Map(ranks.filter(({compute_ratio}) => compute_ratio > most)
    .map(({rank, compute_ratio}) => [rank, compute_ratio]));
}

// Words for a cause's share of the gap, by the share that it stays below.
const kCauseWords = [[0.5, "The largest cause"], [0.95, "Most of it"], [1.05, "All of it"],
  [Infinity, "More than all of it"]];

// Names the largest cause, and says how much of the gap it is.
function firstCause([first], gap) {
  if (!first || first.alone_s <= 0) return "No cause adds half a percent of the iteration.";
  const share = gap > 0 ? first.alone_s / gap : 0;
  const [, words] = kCauseWords.find(([below]) => share < below);
  return `${words}: ${first.what} (${signed(first.alone_s, seconds)}).`;
}

function drawExplanation(e) {
  byId("explain-section").hidden = false;
  const gap = e.measured_s - e.simulated_s;
  byId("explain-answer").textContent = `Measured ${seconds(e.measured_s)}, simulated ` +
    `${seconds(e.simulated_s)}: ${signed(gap, seconds)}. ${firstCause(e.causes, gap)}`;
  byId("explain-answer").classList.toggle("bad", !e.explained);
  const rows = explainedRows(e);
  const most = d3.max(rows, ({begin, end}) => Math.max(begin, end));
  byId("explain-causes").replaceChildren(make("table", {class: "waterfall"},
    make("thead", {}, make("tr", {}, ...["Cause", "", "Time", "Of the measured"].map((name) =>
      make("th", {scope: "col"}, name)))),
    make("tbody", {}, ...rows.map((row) => explainedRow(row, most, e.measured_s)))));
  byId("explain-notes").replaceChildren(...[...e.notes,
    ...(e.explained ? [] : ["More than 2 % of the measured iteration is not explained."])]
    .map((text) => make("li", {}, text)));
  byId("explain-measured").hidden = e.ranks_measured.length === 0;
  byId("explain-ranks").replaceChildren(...rankCells(e.ranks_measured));
}
