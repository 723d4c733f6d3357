// Reads the data and puts the page together.
"use strict";

const kHelp = [
  [["+", "-", "W", "S"], "zoom in and out"], [["A", "D"], "pan"], [["0"], "the whole iteration"],
  [["←", "→"], "the event before, the next one on the lane"],
  [["↑", "↓"], "the lane above, below"], [["Home", "End"], "the lane's first event, its last"],
  [["Enter"], "zoom to the event"], [["Esc"], "let the event go"], [["/"], "search"],
  [["n", "p"], "next match, match before"], [["Ctrl + wheel", "pinch"], "zoom"],
  [["Shift + wheel", "drag"], "pan"], [["?"], "this list"],
];

// What the page consists of, for those who look at it from a console.
const report = {};

function startHelp() {
  byId("keys").replaceChildren(...kHelp.map(([keys, what]) => make("tr", {},
    make("td", {}, ...d3.merge(keys.map((key) => [make("kbd", {}, key), " "]))),
    make("td", {}, what))));
  byId("help-button").onclick = () => byId("help").showModal();
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") byId("help").showModal();
    else if (event.key === "/" && !byId("timeline-section").hidden) byId("search").focus();
    else if ("np".includes(event.key) && event.target !== byId("canvas"))
      report.timeline.key(event.key);
    else return;
    event.preventDefault();
  });
}

const hasTimeline = (run) => run.detail && run.detail.timeline &&
  run.detail.timeline.ranks.length > 0;

// The timeline of one run, or of all that are compared.
function showTimeline(runs) {
  byId("timeline-section").hidden = false;
  const several = runs.length > 1;
  const model = timelineModel(runs.map((run) =>
    ({label: several ? run.name : "", timeline: run.detail.timeline})));
  const {ranks} = runs[0].detail.timeline;
  const all = d3.sum(ranks, (rank) => rank.stands_for);
  byId("timeline-note").textContent = all > ranks.length
    ? `Of ${number(all)} ranks ${number(ranks.length)} ` +
      `${ranks.length > 1 ? "were" : "was"} played: ` +
      "each stands for others that do the same at the same time."
    : ranks.length === 1 ? "One rank." : `${number(ranks.length)} ranks, each played.`;
  report.timeline.show(model);
}

function chooseRun(run) {
  report.chosen = run;
  report.list.mark(run);
  drawNumbers(run);
  drawSplit([run]);
  report.memory.show(run);
  const {timeline} = run.detail || {};
  if (hasTimeline(run)) {
    showTimeline([run]);
  } else {
    byId("timeline-section").hidden = true;
    const note = timeline && timeline.events > 0
      ? `The timeline is left out: ${number(timeline.events)} events are more than a browser can ` +
        "show."
      : "The timeline is in the page of the run that --files-of names.";
    byId("run-plan").append(make("br"), run.detail ? note : "");
  }
}

function redraw() {
  if (report.timeline.model) report.timeline.retheme();
  if (report.data.comparison) drawSplit(report.data.runs);
  else if (report.chosen) drawSplit([report.chosen]);
  report.memory.draw();
  if (report.charts) report.charts.draw();
}

function subtitle({runs, comparison, table}) {
  if (comparison) return "A simulated trace held against a measured one";
  if (table) return `${number(table.rows.length)} rows, ${table.frontier.length} on the frontier`;
  return runs.length === 1 ? "One simulated run" : `${runs.length} simulated runs`;
}

function start() {
  const data = JSON.parse(byId("data").textContent);
  report.data = data;
  document.title = `${data.title} - Tandem`;
  byId("title").textContent = data.title;
  byId("subtitle").textContent = subtitle(data);
  report.memory = new MemoryChart();
  report.timeline = new Timeline((t0, t1) => report.memory.follow(t0, t1));
  report.list = new RunList(data.runs, chooseRun);
  startHelp();
  startTheme(redraw);
  if (data.table) report.charts = new TableCharts(data.table);
  if (data.comparison) {
    drawComparison(data.comparison);
    const drawn = data.runs.filter(hasTimeline);
    if (drawn.length > 0) showTimeline(drawn);
    drawSplit(data.runs);
  } else if (data.runs.length > 0) {
    chooseRun(data.runs.find(hasTimeline) || data.runs[0]);
  }
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) redraw();
    width = window.innerWidth;
  });
}

try {
  start();
} catch (error) {
  byId("failure").hidden = false;
  byId("failure").textContent = `This page could not be drawn: ${error.message}`;
  throw error;
}
