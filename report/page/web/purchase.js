// The machines to buy (tandem size): sentences, a chart of days and price for each job, tables of
// machines, networks and plans, and assumptions. In the code a bar is a machine in a job's chart,
// and `of` is the job on that machine (report/page/purchase_page.cpp).
"use strict";

const kCandidateColours = ["--pipeline", "--backward", "--tensor", "--data", "--input-gradient",
  "--forward", "--expert", "--context"];
const kHalfPaper = 350;  // pixels, of a picture beside another one on paper
const kFarLate = 2;  // the axis of days ends at this many times the deadline at most
const kMoney = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

// Returns a function that writes money: "23.00 M $".
const moneyIn = (currency) => (value) =>
  `${scaled(value, kMoney, d3.format(".2f")).trim()} ${currency}`;
const signedPercent = (share) =>
  `${share < 0 ? "−" : "+"}${d3.format(".1f")(100 * Math.abs(share))} %`;
const machineName = ({candidate, gpus}) => `${candidate}, ${number(gpus)} GPUs`;

// Returns whether a limit is near enough to the bars to be drawn with them.
const isNear = (limit, bars) => limit.most < 2 * d3.max(bars, ({machine}) => machine.price);

const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom &&
  b.top < a.bottom;

// Returns a text's width in pixels in the SVG.
function widthIn(svg, text, kind) {
  const element = svg.append("text").attr("class", kind).text(text);
  const wide = element.node().getComputedTextLength();
  element.remove();
  return wide + 2;
}

// Finds a place beside a bar for its label that covers nothing: at its ends, else above or below
// it, else farther to the right. Returns the label's box; `away`: it needs a line to the bar.
function placeLabel(bar, wide, taken, area) {
  const high = 14, gap = bar.high / 2 + 4;
  const box = (left, y, away) =>
    ({left, right: left + wide, top: y - high / 2, bottom: y + high / 2, away});
  const inside = ({left, right, top, bottom}) => left >= area.left && right <= area.right &&
    top >= area.top && bottom <= area.bottom;
  // Tries heights ever farther from the bar: at its ends where it is level with the bar, above and
  // below the bar where it does not touch it.
  const near = [], far = [];
  for (const dy of d3.range(0, 120, 3).flatMap((step) => step > 0 ? [-step, step] : [0])) {
    const y = bar.y + dy, away = Math.abs(dy);
    const isLevel = away <= 3, isClear = away >= bar.high / 2 + high / 2 + 1;
    if (isLevel) near.push(box(bar.right + gap, y), box(bar.left - gap - wide, y));
    else if (isClear)
      for (const left of [bar.left, bar.right - wide, (bar.left + bar.right - wide) / 2,
        bar.right + gap, bar.left - gap - wide])
        near.push(box(left, y, away > 18));
    for (const dx of [20, 40, 70, 100]) far.push(box(bar.right + gap + dx, y, true));
  }
  const free = [...near, ...far].filter(inside)
    .find((one) => !taken.some((other) => overlaps(one, other)));
  // If nothing is free, the label stands above the bar, over whatever is there.
  const left = Math.max(area.left, Math.min(area.right - wide, bar.left));
  return free || box(left, bar.y - bar.high / 2 - high / 2, false);
}

const kMachineColumns = [
  {name: "candidate", value: ({machine}) => machine.candidate, text: true},
  {name: "GPUs", value: ({machine}) => machine.gpus, show: number}];
const isBest = ({machine}) => machine.recommended;

// Fills a table, or hides its part of the page if it has no rows.
function fillTable(id, columns, rows, isChosen = () => false) {
  byId(`${id}-part`).hidden = rows.length === 0;
  new SortedTable(byId(id), columns, {isChosen}).show(rows);
}

class Purchase {
  constructor(purchase) {
    this.data = purchase;
    this.money = moneyIn(purchase.currency);
    const names = [...new Set(purchase.machines.map(({candidate}) => candidate))];
    this.colours = new Map(names.map((name, i) =>
      [name, `var(${kCandidateColours[i % kCandidateColours.length]})`]));
    for (const id of ["purchase-section", "bill-section", "assumed-section"])
      byId(id).hidden = false;
    document.documentElement.classList.add("purchase");
    this.say();
    this.fillTables();
    this.draw();
  }

  // Writes the sentences. The first one of the recommendation is large.
  say() {
    const {answers, warnings, notes} = this.data;
    const [first, ...others] = answers;
    const end = first.indexOf(". ") + 1 || first.length;
    byId("purchase-best").textContent = first.slice(0, end);
    byId("purchase-answers").replaceChildren(...[first.slice(end).trim(), ...others]
      .filter(Boolean).map((text) => make("p", {}, text)));
    for (const [id, lines] of [["purchase-warnings", warnings], ["purchase-notes", notes]])
      byId(id).replaceChildren(...lines.map((text) => make("li", {}, text)));
  }

  draw() {
    const {jobs, tornado} = this.data;
    const width = paper.printing ? kPaperWidth : null;  // null: as wide as the window
    document.body.classList.toggle("printing", paper.printing);
    const each = paper.printing && jobs.length > 1 ? kHalfPaper : width;
    const pictures = byId("purchase-pictures");
    pictures.replaceChildren(...jobs.map(() => make("div", {class: "chart"})));
    jobs.forEach((job, i) => this.drawJob(pictures.children[i], job, i, each));
    byId("tornado-section").hidden = tornado.length === 0;
    if (tornado.length > 0) drawTornado(byId("tornado"), this.data, width);
  }

  // Returns the days of delivery, which count against the first job alone.
  deliveryOf(index) {
    return index === 0 ? this.data.delivery_days : 0;
  }

  // Returns a job's bars, in days, of the first job from the order on. Machines that cannot run
  // it, or whose price is not known, have none.
  barsOf(index) {
    const delivery = this.deliveryOf(index);
    return this.data.machines
      .map((machine) => ({machine, of: machine.jobs[index]}))
      .filter(({machine, of}) => of && Number.isFinite(of.days_late) && machine.price !== null)
      .map(({machine, of}) => ({machine, of, p50: of.days_p50 + delivery,
        late: of.days_late + delivery}));
  }

  drawJob(chart, job, index, paperWidth) {
    const {limit, priced, late, machines} = this.data;
    const bars = this.barsOf(index);
    const said = job.name ? `${job.name}: days` : "Days";
    chart.append(make("h3", {}, `${said}, and what it costs ${priced}`));
    const without = machines.filter((machine) => !bars.some((bar) => bar.machine === machine));
    if (bars.length > 0) this.drawBars(chart, bars, job, index, paperWidth);
    const marks = [[({machine}) => machine.recommended, "framed: recommended"],
      [({machine}) => machine.out, "hollow: ruled out"],
      [({of}) => of.guess, "*: not calibrated, a guess"]]
      .filter(([holds]) => bars.some(holds)).map(([, text]) => `; ${text}`);
    chart.append(make("p", {class: "hint"}, `A bar is from p50 (dot) to ${late}, ` +
      `its label says candidate and GPUs (GPUs alone where room is scarce)${marks.join("")}. ` +
      (limit === null && job.days === null ? "" : "Shaded: what was asked for. ") +
      (limit === null || isNear(limit, bars) ? ""
        : `The ${limit.as} of ${this.money(limit.most)} is far above. `) +
      (without.length === 0 ? "" : "Not drawn, as it cannot run the job or be built: " +
        without.map((machine) => `${machineName(machine)} (${machine.out})`).join("; "))));
  }

  drawBars(chart, bars, {name, days}, index, paperWidth) {
    const {limit, priced, late} = this.data;
    const width = paperWidth || Math.max(300, chart.clientWidth);
    const narrow = width < 560, paperHeight = narrow ? 280 : 380;
    const height = paperWidth ? paperHeight : 430;
    const area = {left: narrow ? 46 : 64, right: width - 10, top: 34, bottom: height - 40};
    const most = kFarLate * Math.max(days || 0, d3.min(bars, (bar) => bar.late));
    const shownDays = bars.flatMap(({p50, late}) => [p50, late])
      .filter((value) => value <= most).concat(days || []);
    const shownPrices = bars.map(({machine}) => machine.price).concat(
      limit !== null && isNear(limit, bars) ? limit.most : []);
    const widened = ([low, high], share) => {
      const more = share * (high - low || high || 1);
      return [Math.max(0, low - more), high + more];
    };
    const x = d3.scaleLinear().domain(widened(d3.extent(shownDays), 0.1))
      .range([area.left, area.right]);
    const y = d3.scaleLinear().domain(widened(d3.extent(shownPrices), 0.1))
      .range([area.bottom, area.top]);
    const svg = d3.select(chart).append("svg").attr("width", width).attr("height", height)
      .attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label",
        `${name ? `${name}: ` : ""}days from p50 to ${late}, and price ${priced}, of ` +
        bars.map(({machine, p50, late: end}) => `${machineName(machine)}: ${number(p50)} to ` +
          `${number(end)} days, ${this.money(machine.price)}` +
          (machine.recommended ? ", recommended" : machine.out ? `, ${machine.out}` : ""))
          .join("; "));
    svg.append("g").attr("class", "days").attr("transform", `translate(0,${area.bottom})`)
      .call(d3.axisBottom(x).ticks(Math.max(3, Math.floor(width / 110))).tickSizeOuter(0));
    svg.append("g").attr("transform", `translate(${area.left},0)`)
      .call(d3.axisLeft(y).ticks(6).tickSizeOuter(0)
        .tickFormat((value) => scaled(value, kMoney, d3.format(".4~r")).trim()));
    svg.append("text").attr("class", "soft").attr("x", area.right).attr("y", height - 6)
      .attr("text-anchor", "end")
      .text(this.deliveryOf(index) > 0 ? "days from the order on, delivery included" : "days");
    svg.append("text").attr("class", "soft").attr("x", 2).attr("y", 12)
      .text(`${this.data.currency} ${priced}`);
    const taken = this.drawLimits(svg, x, y, days, area);
    // A bar that begins or ends beyond the axis is cut there.
    const drawn = bars.map((bar) => ({...bar, y: y(bar.machine.price),
      left: Math.min(x(bar.p50), area.right - 3), right: Math.min(x(bar.late), area.right),
      high: bar.machine.recommended ? 13 : 9}));
    for (const {left, right, y: at, high} of drawn)
      taken.push({left: left - 4, right: right + 4, top: at - high / 2, bottom: at + high / 2});
    this.drawSpans(svg, drawn, x);
    this.drawLabels(svg, drawn, taken, area, narrow);
    if (narrow) {
      const legend = make("p", {class: "legend"});
      const names = [...new Set(bars.map(({machine}) => machine.candidate))];
      legend.append(...names
        .map((name) => make("span", {}, make("i", {style: {background: this.colours.get(name)}}),
          name)));
      chart.append(legend);
    }
  }

  // Draws the deadline and the limit of the price. Returns what labels should not cover.
  drawLimits(svg, x, y, days, area) {
    const {limit} = this.data;
    const taken = [];
    const right = days === null ? area.right : x(days);
    const top = limit === null ? area.top : Math.max(area.top, y(limit.most));
    if (days !== null || limit !== null)
      svg.append("rect").attr("class", "asked").attr("x", area.left).attr("y", top)
        .attr("width", right - area.left).attr("height", area.bottom - top);
    const line = (name, x1, y1, x2, y2) => svg.append("line").attr("class", `capacity ${name}`)
      .attr("x1", x1).attr("y1", y1).attr("x2", x2).attr("y2", y2);
    const label = (text, top, place) => {
      const wide = widthIn(svg, text, "limit"), at = place(wide);
      const left = Math.max(area.left, Math.min(area.right - wide, at));
      svg.append("text").attr("class", "limit halo").attr("x", left).attr("y", top + 11).text(text);
      taken.push({left, right: left + wide, top, bottom: top + 14});
    };
    if (days !== null) {
      line("deadline", x(days), area.top, x(days), area.bottom);
      taken.push({left: x(days) - 2, right: x(days) + 2, top: area.top, bottom: area.bottom});
      label(`deadline ${number(days)} days`, area.top - 15, (wide) => x(days) - wide / 2);
    }
    if (limit !== null && y(limit.most) >= area.top) {  // else it is far above
      line("price", area.left, y(limit.most), area.right, y(limit.most));
      taken.push({left: area.left, right: area.right, top: y(limit.most) - 2,
        bottom: y(limit.most) + 2});
      // Dear machines are mostly early, so the right end has room.
      label(`${limit.as} ${this.money(limit.most)}`, y(limit.most) - 17,
        (wide) => (days === null ? area.right : x(days) - 6) - wide);
    }
    return taken;
  }

  drawSpans(svg, bars, x) {
    const {late} = this.data;
    // Short bars are drawn on top of long ones, as prices may be equal.
    const sorted = [...bars].sort((a, b) => (b.right - b.left) - (a.right - a.left));
    const group = svg.append("g").selectAll("g").data(sorted).join("g")
      .attr("class", ({machine}) => machine.recommended ? "bar best" : machine.out ? "bar out"
        : "bar")
      .on("mousemove", ({machine, of, p50, late: end}) => tip.show(d3.event, machineName(machine), [
        ["days p50", number(p50)], [`days ${late}`, number(end)],
        [this.data.priced, this.money(machine.price)], ["plan", of.plan],
        ["ruled out", machine.out || null],
        ["calibrated", of.guess ? "no, this is a guess" : null]]))
      .on("mouseleave", () => tip.hide());
    const colour = ({machine}) => this.colours.get(machine.candidate);
    group.append("rect").attr("x", ({left}) => left).attr("y", ({y, high}) => y - high / 2)
      .attr("width", ({left, right}) => right - left).attr("height", ({high}) => high)
      .attr("rx", 2)
      .style("fill", (bar) => bar.machine.out ? "var(--paper)" : colour(bar))
      .style("stroke", (bar) => bar.machine.recommended ? "var(--ink)"
        : bar.machine.out ? colour(bar) : "var(--paper)");
    group.filter(({p50, left}) => x(p50) <= left).append("circle").attr("cx", ({left}) => left)
      .attr("cy", ({y}) => y).attr("r", ({machine}) => machine.recommended ? 6 : 4.5)
      .style("stroke", "var(--ink)")
      .style("fill", (bar) => bar.machine.out ? "var(--paper)" : colour(bar));
  }

  // Writes each bar's name beside it; the recommended one's first.
  drawLabels(svg, bars, taken, area, narrow) {
    const labels = [...bars].sort((a, b) => b.machine.recommended - a.machine.recommended)
      .map((bar) => {
        const {machine, of, late} = bar;
        const text = (narrow ? number(machine.gpus) : machineName(machine)) +
          (of.guess ? "*" : "") + (machine.recommended ? ": recommended" : "") +
          (bar.right < area.right ? "" : ` (${number(late)} days)`);
        const box = placeLabel(bar, widthIn(svg, text, machine.recommended ? "best" : ""), taken,
          area);
        taken.push(box);
        return {...bar, text, box};
      });
    const group = svg.append("g").selectAll("g").data(labels).join("g").attr("class", "label");
    group.filter(({box}) => box.away).append("line").attr("class", "leader")
      .attr("x1", ({box, right, left}) => Math.max(left, Math.min(right, box.left)))
      .attr("y1", ({y}) => y).attr("x2", ({box}) => box.left + 2)
      .attr("y2", ({box, y}) => box.top > y ? box.top + 2 : box.bottom - 2);
    group.append("text").attr("x", ({box}) => box.left).attr("y", ({box}) => box.bottom - 3)
      .attr("class", ({machine}) => machine.recommended ? "halo best" : machine.out ? "halo out"
        : "halo")
      .text(({text}) => text);
  }

  fillTables() {
    const {machines, jobs} = this.data;
    this.fillMachines(machines.map((machine) => ({machine})));
    this.fillNetworks(machines.map((machine) => ({machine, bill: machine.network}))
      .filter(({bill}) => bill === null || bill.tiers > 0));
    const byJob = (value) => jobs.length > 1 ? [{name: "job", value, text: true}] : [];
    this.fillPlans(byJob(({of}) => jobs[of.job].name), machines.flatMap((machine) =>
      machine.jobs.filter((of) => of.plan).map((of) => ({machine, of}))));
    fillTable("tiers", [...byJob((tier) => tier.job),
      {name: "candidate", value: (tier) => tier.candidate, text: true},
      {name: "against", value: (tier) => tier.best, text: true},
      {name: "GPUs", value: (tier) => tier.gpus, show: number},
      {name: "takes", unit: "times as long", value: (tier) => tier.times_as_long,
        show: d3.format(".3f")}], this.data.tiers);
    this.fillAssumed();
  }

  // Leaves out the columns of prices, power and reasons that no machine has a value for.
  fillMachines(rows) {
    const money = (name, key) => ({name, value: (one) => one.machine[key] || null,
      draw: ({machine}) => machine[key] ? exact(machine[key], this.money(machine[key])) : "-"});
    const isKnown = ({value}) => rows.some((row) => value(row) !== null);
    fillTable("machines", [...kMachineColumns,
      {name: "nodes", value: ({machine}) => machine.nodes, draw: ({machine}) =>
        exact(machine.nodes, `${machine.nodes}+${machine.spare_nodes}`)},
      ...[money("a node", "node_price"), money("to buy", "purchase"), money("a month", "monthly"),
        money("total", "total"),
        {name: "MW peak", value: ({machine}) => machine.peak_MW || null, show: d3.format(".3r")}]
        .filter(isKnown),
      {name: `days ${this.data.late}`, value: ({machine}) => machine.days_late,
        show: d3.format(".1f")},
      ...[{name: "ruled out", value: ({machine}) => machine.out || null, text: true,
        draw: ({machine}) => machine.out}].filter(isKnown)], rows, isBest);
  }

  fillNetworks(rows) {
    const counted = (name) => ({name, value: ({bill}) => bill && bill[name], show: number});
    fillTable("networks", [...kMachineColumns,
      {name: "switch", text: true, value: ({bill}) => bill ? bill.switch : "cannot be built"},
      ...["tiers", "switches", "cables", "optics"].map(counted),
      {name: "price", value: ({bill}) => bill && bill.price,
        draw: ({bill}) => !bill ? "-" : bill.price > 0 ? exact(bill.price, this.money(bill.price))
          : "in the nodes'"}], rows, isBest);
  }

  fillPlans(jobColumns, rows) {
    const times = (name, i) => ({name, value: ({of}) => of.oversubscribed[i],
      show: d3.format(".3f")});
    fillTable("plans", [...jobColumns, kMachineColumns[0],
      {name: "GPUs that work", value: ({of}) => of.gpus, show: number},
      {name: "batch", value: ({of}) => of.batch, show: number},
      {name: "days p50", value: ({of}) => of.days_p50, show: d3.format(".1f")},
      {name: this.data.late, value: ({of}) => of.days_late, show: d3.format(".1f")},
      {name: "plan", value: ({of}) => of.plan, text: true}, times("x 2", 0), times("x 4", 1)],
    rows, isBest);
  }

  fillAssumed() {
    const {machines, assumptions} = this.data;
    const sources = new Map(machines.filter(({network}) => network && network.tiers > 0)
      .map(({network}) => [`switch ${network.switch}`, network.source]));
    byId("assumed").replaceChildren(...[...assumptions.map(({key, value}) => [key, value]),
      ...sources, ["seed", number(this.data.seed)]]
      .map(([key, value]) => make("div", {}, make("dt", {}, key), make("dd", {}, value))));
  }
}
