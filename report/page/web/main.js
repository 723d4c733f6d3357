// Reads the page's JSON and draws the page: charts of a table, one chosen run with its timeline and
// memory, or a comparison of two runs.
"use strict";

const kHelp = [
  [["+", "-", "W", "S"], "zoom in and out"], [["A", "D"], "pan"], [["0"], "the whole iteration"],
  [["←", "→"], "the event before, the next one on the lane"],
  [["↑", "↓"], "the lane above, below"], [["Home", "End"], "the lane's first event, its last"],
  [["Enter"], "zoom to the event"], [["Esc"], "let the event go"], [["/"], "search"],
  [["n", "p"], "next match, match before"], [["Ctrl + wheel", "pinch"], "zoom"],
  [["Shift + wheel", "drag"], "pan"], [["?"], "this list"],
];

// The parts of the page: data, chosen run, timeline, memory, list, charts. A global variable, so
// that it can be looked at from a browser's console.
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

// Says how many ranks the timeline has, and for how many they stand.
function playedText({ranks}) {
  const all = d3.sum(ranks, (rank) => rank.stands_for);
  if (all > ranks.length)
    return `Of ${number(all)} ranks ${number(ranks.length)} ` +
      `${ranks.length > 1 ? "were" : "was"} played: ` +
      "each stands for others that do the same at the same time.";
  return ranks.length === 1 ? "One rank." : `${number(ranks.length)} ranks, each played.`;
}

// Shows the timeline of one run, or of all that are compared.
function showTimeline(runs) {
  byId("timeline-section").hidden = false;
  const several = runs.length > 1;
  const plan = runs[0].result && runs[0].result.plan;
  const align = several && plan ? report.beside.alignment(plan.microbatches) : null;
  const model = timelineModel(runs.map((run) =>
    ({label: several ? shortened(run.name, 14) : "", timeline: run.detail.timeline})), align,
  report.data.explanation ? slowRanks(report.data.explanation) : undefined);
  const hasStages = model.lanes.some(({stages}) => stages);
  byId("timeline-note").textContent = playedText(runs[0].detail.timeline) +
    (hasStages ? " A lane 0>1 sends from stage 0 to stage 1." : "");
  report.timeline.show(model);
}

// Returns the runs whose timelines are drawn: the chosen one first.
const runsShown = () => report.beside.shown(report.chosen);

// Says which runs have a timeline, for a run that has none.
function whereTimelines() {
  const names = report.data.runs.filter(hasTimeline).map(({name}) => name);
  if (!report.data.table)
    return "The timeline is left out, as the page would be too large: --files-of names the run " +
      "that has one.";
  return names.length > 0 ? `This page has the timelines of: ${names.join(", ")}.`
    : "This page has no timelines.";
}

function chooseRun(run) {
  showRun(run);
  if (report.live) report.live.show(run).catch(() => {});  // the page says why
}

// Draws a run's figures.
function countRun(run) {
  report.chosen = run;
  report.list.mark(run);
  drawNumbers(run);
}

// Draws a run's figures and charts.
function showRun(run) {
  countRun(run);
  drawSplit(hasTimeline(run) ? runsShown() : [run]);
  report.memory.show(run);
  const {timeline} = run.detail || {};
  if (hasTimeline(run)) {
    showTimeline(runsShown());
  } else {
    byId("timeline-section").hidden = true;
    const note = timeline && timeline.events > 0
      ? `The timeline is left out: ${number(timeline.events)} events are more than a browser can ` +
        "show."
      : whereTimelines();
    byId("run-plan").append(make("br"), run.detail ? note : "");
  }
}

// Draws all charts again, after a change of the theme or the window's width, or for paper.
function redraw() {
  if (report.timeline.model) {
    report.timeline.retheme();
    report.timeline.drawNow();
  }
  if (report.data.comparison) drawSplit(report.data.runs);
  else if (report.chosen) drawSplit(hasTimeline(report.chosen) ? runsShown() : [report.chosen]);
  report.memory.draw();
  if (report.charts) report.charts.draw();
  if (report.purchase) report.purchase.draw();
}

function subtitle({runs, comparison, explanation, table, purchase, starts}) {
  if (explanation) return "A simulated run, a measured one, and what makes the difference";
  if (comparison) return "A simulated trace held against a measured one";
  if (purchase) {
    const names = new Set(purchase.machines.map(({candidate}) => candidate));
    return `What to buy or rent: ${number(purchase.machines.length)} machines, ` +
      `${number(names.size)} candidate${names.size === 1 ? "" : "s"}`;
  }
  if (table) {
    const words = [`${number(table.rows.length)} rows`,
      `${table.frontier.length} on ${table.group === null ? "the frontier" : "frontiers"}`];
    if (table.marks.length > 0 && table.marks.every(({as}) => as === table.marks[0].as))
      words.push(`${table.marks.length} ${table.marks[0].as}`);
    return words.join(", ");
  }
  if (starts) return "Choose a model, a cluster and a plan: this page simulates them";
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
  report.live = startLive(countRun, showRun);
  report.beside = new Beside(data.comparison ? [] : data.runs, () => {
    showTimeline(runsShown());
    drawSplit(runsShown());
  });
  byId("note").textContent = data.note || "";
  byId("note").hidden = !data.note;
  byId("cluster-section").hidden = !data.cluster;
  byId("cluster").innerHTML = data.cluster || "";
  startHelp();
  startTheme(redraw);
  startPrinting(redraw);
  if (data.table) report.charts = new TableCharts(data.table);
  if (data.purchase) report.purchase = new Purchase(data.purchase);
  if (data.explanation) drawExplanation(data.explanation);
  if (data.starts) report.explorer = new Explorer(data.starts, report.live);
  if (data.comparison) {
    drawComparison(data.comparison, Boolean(data.explanation));
    const drawn = data.runs.filter(hasTimeline);
    if (drawn.length > 0) showTimeline(drawn);
    drawSplit(data.runs);
  } else if (data.runs.length > 0) {
    const named = new URLSearchParams(location.hash.slice(1)).get("run");
    const found = data.runs.find(({name}) => name === named);
    if (named && !found && report.live) report.live.unknownRun = named;
    chooseRun(found || data.runs[data.chosen]);
  }
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width && !paper.printing) redraw();
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
