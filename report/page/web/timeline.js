// The interactive timeline: zoom, pan, hover, keys and search. Above it is an overview, a strip of
// the whole iteration in which a brush marks the times in sight, from t0 to t1 (nanoseconds). A
// "place" is an event or an idle stretch of a lane: {lane, event, gap}.
"use strict";

const kOverviewHeight = 34, kAxisHeight = 24, kNarrow = 640;  // pixels
const kLeastSpanNs = 200;  // the shortest time that zooming in shows

// Cuts the iteration into 400 equal parts. Returns for each the share of the ranks' time in which
// they compute.
function shareComputing(model) {
  const parts = 400;
  const compute = model.lanes.filter((lane) => lane.computes);
  const busy = new Float64Array(parts + 1);
  for (const lane of compute) {
    for (let part = 0; part <= parts; ++part)
      busy[part] += lane.busyBefore(part / parts * model.end);
  }
  const whole = model.end / parts * Math.max(1, compute.length);
  return d3.range(parts).map((part) => (busy[part + 1] - busy[part]) / whole);
}

const isSamePlace = (a, b) => a === b || Boolean(a && b && a.lane === b.lane &&
  a.event === b.event && String(a.gap) === String(b.gap));

class Timeline {
  // onDomain(t0, t1) is called when the times in sight have changed.
  constructor(onDomain) {
    this.onDomain = onDomain;
    this.canvas = byId("canvas");
    this.picture = new TimelinePicture(this.canvas);
    this.hidden = new Set();
    this.selected = this.hovered = null;
    this.wanted = null;  // the user's lanes of communication: "all", "busiest", "none"; null: any
    this.frames = 0;
    this.zoom = d3.zoom()
      .filter(() => {
        const {type, button, ctrlKey, metaKey} = d3.event;
        if (type === "wheel") return ctrlKey || metaKey;  // a plain wheel scrolls
        const opensMenu = ctrlKey && type === "mousedown";  // on a Mac
        return !button && !opensMenu;
      })
      .on("zoom", () => this.zoomed());
    d3.select(this.canvas).call(this.zoom)
      .on("dblclick.zoom", null);
    this.listen();
  }

  show(model) {
    this.model = model;
    this.selected = this.hovered = null;
    const kinds = new Set();
    for (const lane of model.lanes) for (const kind of lane.sums.keys()) kinds.add(kind);
    fillLegend(byId("legend"), [...kinds].sort(d3.ascending).map((key) => ({...kKinds[key], key})),
      (key, shown) => {
        if (shown) this.hidden.delete(key); else this.hidden.add(key);
        this.draw();
      });
    this.share = shareComputing(model);
    this.t0 = this.t1 = undefined;
    this.lay();
    this.find();
  }

  // Lays out rows and sizes. Call it when the model, the window's size or what is shown has
  // changed. The gutter is the space at the left for the rows' names.
  lay() {
    if (!this.model) return;
    const box = byId("lanes");
    const whole = widthOf(byId("timeline-section"));
    const several = this.model.runs.length > 1;
    this.narrow = whole < kNarrow;
    this.gutter = this.narrow ? (several ? 116 : 74) : several ? 168 : 112;
    this.layLanes(paper.printing ? kPaperLanes : parseFloat(getComputedStyle(box).maxHeight));
    byId("lanes-height").style.height = `${this.laid.height}px`;
    const height = this.heightIn(box);
    this.canvas.style.height = `${height}px`;  // if it were too high, the box had a scroll bar
    const width = widthOf(box);
    this.plot = width - this.gutter - 1;
    this.picture.resize(width, height);
    this.base = d3.scaleLinear().domain([0, this.model.end])
      .range([this.gutter, this.gutter + this.plot]);
    const sides = [[this.gutter, 0], [this.gutter + this.plot, height]];
    this.zoom.extent(sides).translateExtent(sides)
      .scaleExtent([1, Math.max(1, this.model.end / kLeastSpanNs)]);
    this.layOverview();
    this.zoomTo(this.t0 || 0, this.t1 || this.model.end);
  }

  // Chooses the lanes and lays out their rows. Of each rank's communication it takes the lanes that
  // the user wants. Without a choice, or if these do not fit on paper, it takes as many as leave
  // all ranks in sight. `left` says which lanes are left out.
  layLanes(room) {
    const {lanes, runs} = this.model;
    const most = 1 + d3.max([-1, ...lanes.map((lane) => lane.byBusy)]);
    const lay = (count) => {
      const shown = lanes.filter((lane) => lane.computes || lane.byBusy < count);
      const titled = count > 0 || runs.length > 1;
      return {lanes: shown, titled, laid: layRows(shown, titled)};
    };
    const fits = (count) => lay(count).laid.height <= room;
    let fitting = most;
    while (fitting > 0 && !fits(fitting)) --fitting;
    const counts = {all: most, busiest: Math.max(1, fitting), none: 0};
    const wanted = this.wanted ? counts[this.wanted] : fitting;
    const count = paper.printing && !fits(wanted) ? fitting : wanted;
    Object.assign(this, lay(count));
    this.offerLanes(counts, count);
    if (count === most || (count === 0 && this.wanted === "none")) this.left = "";
    else if (count === 0)
      this.left = "Communication is left out, so that more ranks are in sight. ";
    else this.left = `Of each rank's communication the ${count} busiest of up to ${most} lanes. `;
  }

  // Offers the choices of lanes, and shows the one that has `count` lanes of each rank.
  offerLanes(counts, count) {
    const choices = [["all", "all lanes"], ["busiest", `${counts.busiest} busiest lanes a rank`],
      ["none", "none"]].filter(([name]) => name !== "busiest" || counts.busiest < counts.all);
    byId("communication").replaceChildren(...choices.map(([value, text]) =>
      make("option", {value}, text)));
    byId("communication").value = choices.find(([name]) => counts[name] === count)[0];
  }

  // Returns the height of the canvas: that of the rows in sight, or on paper of the ranks that fit.
  heightIn(box) {
    const {rows, height} = this.laid;
    byId("timeline-rest").textContent = this.left;
    if (!paper.printing) return Math.min(height, box.clientHeight || height);
    if (height <= kPaperLanes) return height;
    const ranks = rows.filter((row) => row.title || !this.titled);
    const shown = d3.bisectRight(ranks.map(({y}) => y), kPaperLanes) - 1;
    byId("timeline-rest").textContent += `The first ${shown} of ${ranks.length} ranks.`;
    return ranks[shown].y;
  }

  retheme() { this.palette = null; this.lay(); }

  // Draws the share of ranks that compute along the whole iteration, with the window in sight as a
  // brush.
  layOverview() {
    const {share} = this;
    const x = (b) => this.gutter + b / (share.length - 1) * this.plot;
    const y = d3.scaleLinear().domain([0, 1]).range([kOverviewHeight - 1, 3]);
    const svg = d3.select("#overview").html("").append("svg")
      .attr("width", this.plot + this.gutter).attr("height", kOverviewHeight)
      .attr("viewBox", `0 0 ${this.plot + this.gutter} ${kOverviewHeight}`)
      .attr("role", "img").attr("aria-label", "Share of the ranks that compute, over time");
    const lines = this.gutter > 100 ? ["ranks computing"] : ["ranks", "computing"];
    svg.selectAll("text").data(lines).join("text").attr("class", "soft")
      .attr("x", this.gutter - 8).attr("y", (_, i) => 20 + 13 * i - 6 * (lines.length - 1))
      .attr("text-anchor", "end").text((line) => line);
    svg.append("path").attr("fill", "var(--forward)").attr("opacity", 0.55)
      .attr("d", d3.area().x((_, b) => x(b)).y0(kOverviewHeight - 1).y1((value) => y(value))(
        share));
    this.brush = d3.brushX()
      .extent([[this.gutter, 0], [this.gutter + this.plot, kOverviewHeight]])
      .on("brush end", () => this.brushed());
    this.window = svg.append("g").call(this.brush);
  }

  brushed() {
    const {sourceEvent, selection} = d3.event;
    if (!sourceEvent || sourceEvent.type === "zoom" || this.moving) return;
    if (!selection) return this.zoomTo(0, this.model.end);
    const [t0, t1] = selection.map(this.base.invert);
    if (t1 - t0 > kLeastSpanNs) this.zoomTo(t0, t1);
  }

  // Shows the times from t0 to t1.
  zoomTo(t0, t1) {
    const span = Math.max(kLeastSpanNs, Math.min(this.model.end, t1 - t0));
    const k = this.model.end / span;
    const begin = Math.max(0, Math.min(this.model.end - span, t0));
    this.zoom.transform(d3.select(this.canvas),
      d3.zoomIdentity.translate(this.gutter - k * this.base(begin), 0).scale(k));
  }

  zoomed() {
    if (!this.base) return;
    const x = d3.zoomTransform(this.canvas).rescaleX(this.base);
    [this.t0, this.t1] = x.domain();
    this.moving = true;  // keeps brushed() from zooming in turn
    this.window.call(this.brush.move, [this.base(this.t0), this.base(this.t1)]);
    this.moving = false;
    this.drawAxis(x);
    this.draw();
    this.onDomain(this.t0, this.t1);
  }

  drawAxis(x) {
    const wanted = Math.max(2, Math.floor(this.plot / 110));
    const step = d3.tickStep(this.t0, this.t1, wanted);
    this.ticks = x.ticks(wanted);
    const axis = d3.axisTop(x).tickValues(this.ticks).tickSizeOuter(0)
      .tickFormat(timeTick(this.t1 - this.t0, step));
    d3.select("#axis").selectAll("svg").data([0]).join("svg")
      .attr("width", this.plot + this.gutter + 1).attr("height", kAxisHeight)
      .attr("viewBox", `0 0 ${this.plot + this.gutter + 1} ${kAxisHeight}`)
      .attr("overflow", "visible")
      .selectAll("g").data([0]).join("g")
      .attr("transform", `translate(0,${kAxisHeight - 1})`).call(axis)
      .call(keepTicksInside, x, this.gutter + this.plot);
  }

  // Asks for a frame. Several calls before the next frame draw once.
  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.drawNow(); });
  }

  drawNow() {
    if (!this.laid || this.t1 === undefined) return;
    this.palette = this.palette || readPalette();
    this.picture.draw({t0: this.t0, t1: this.t1,
      top: paper.printing ? 0 : byId("lanes").scrollTop, gutter: this.gutter, narrow: this.narrow,
      hidden: this.hidden, rows: this.laid.rows, titled: this.titled, palette: this.palette,
      ticks: this.ticks, selected: this.selected, hovered: this.hovered});
    ++this.frames;
  }

  // Returns the place at a point of the canvas: {lane, event}, or {lane, event: -1, gap} if a
  // compute lane is idle there; null: neither.
  placeAt(x, y) {
    if (!this.laid || x < this.gutter) return null;
    const top = y + byId("lanes").scrollTop;
    const row = this.laid.rows.find((each) => each.lane && top >= each.y - 1 &&
      top <= each.y + each.height + 1);
    if (!row) return null;
    const perPixel = (this.t1 - this.t0) / this.plot;
    const time = this.t0 + (x - this.gutter) * perPixel;
    const event = row.lane.at(time, 2 * perPixel);
    if (event < 0) {
      const gap = row.lane.computes ? row.lane.gapAt(time) : null;
      return gap && {lane: row.lane, event, gap};
    }
    return this.hidden.has(row.lane.colour[event]) ? null : {lane: row.lane, event};
  }

  select(place, reveal = false) {
    this.selected = place;
    const box = byId("selected");
    box.replaceChildren();
    if (place) {
      box.append(make("strong", {}, place.lane.title(place.event)),
        definitions(place.lane.facts(place.event)));
      if (reveal) this.reveal(place);
    }
    this.draw();
  }

  // Scrolls and pans until the event is in sight, and zooms in if it is too narrow to see.
  reveal({lane, event}) {
    if (!this.lanes.includes(lane)) {
      this.wanted = "all";
      this.lay();
    }
    const row = this.laid.rows.find((each) => each.lane === lane);
    const box = byId("lanes");
    if (row.y < box.scrollTop) box.scrollTop = row.y - kTitleHeight;
    if (row.y + row.height > box.scrollTop + box.clientHeight)
      box.scrollTop = row.y + row.height - box.clientHeight + kTitleHeight;
    const begin = lane.start[event], end = lane.end[event];
    const length = end - begin, inSight = this.t1 - this.t0;
    const isNarrow = length / inSight * this.plot < 3;  // pixels
    if (!isNarrow && begin >= this.t0 && end <= this.t1) return;
    const span = isNarrow ? Math.min(inSight, 25 * length) : Math.max(inSight, 1.2 * length);
    this.zoomTo((begin + end - span) / 2, (begin + end + span) / 2);
  }

  find() {
    if (!this.model) return;
    const found = search(this.model.lanes, byId("search").value);
    byId("matches").textContent = !found.searching ? `${number(this.model.events)} events`
      : `${number(found.count)} of ${number(this.model.events)} events, ` +
        `${nanoseconds(found.ns)} together`;
    this.draw();
  }

  step(by) {
    const place = nextMatch(this.model.lanes, this.selected, by);
    if (place) this.select(place, true);
  }

  // Selects the next or previous event of the lane, or the event at the same time in the lane above
  // or below.
  move(alongLane, acrossLanes) {
    const from = this.selected;
    if (!from) {
      const lane = this.lanes.find((each) => each.after(this.t0) < each.count);
      if (lane) this.select({lane, event: lane.after(this.t0)}, true);
      return;
    }
    if (alongLane) {
      const event = from.event + alongLane;
      if (event >= 0 && event < from.lane.count) this.select({lane: from.lane, event}, true);
      return;
    }
    const lane = this.lanes[this.lanes.indexOf(from.lane) + acrossLanes];
    if (!lane) return;
    const middle = (from.lane.start[from.event] + from.lane.end[from.event]) / 2;
    const event = Math.min(lane.count - 1, lane.after(middle));
    this.select({lane, event}, true);
  }

  zoomBy(factor) { this.zoom.scaleBy(d3.select(this.canvas), factor,
      [this.gutter + this.plot / 2, 0]); }
  panBy(share) {
    const k = d3.zoomTransform(this.canvas).k;
    this.zoom.translateBy(d3.select(this.canvas), -share * this.plot / k, 0);
  }

  key(name) {
    const keys = {
      "+": () => this.zoomBy(1.5), "=": () => this.zoomBy(1.5), w: () => this.zoomBy(1.5),
      "-": () => this.zoomBy(1 / 1.5), s: () => this.zoomBy(1 / 1.5),
      a: () => this.panBy(-0.2), d: () => this.panBy(0.2),
      0: () => this.zoomTo(0, this.model.end),
      ArrowLeft: () => this.move(-1, 0), ArrowRight: () => this.move(1, 0),
      ArrowUp: () => this.move(0, -1), ArrowDown: () => this.move(0, 1),
      Home: () => this.selected && this.select({lane: this.selected.lane, event: 0}, true),
      End: () => this.selected &&
        this.select({lane: this.selected.lane, event: this.selected.lane.count - 1}, true),
      Enter: () => {
        if (!this.selected) return;
        const {lane, event} = this.selected;
        const length = lane.end[event] - lane.start[event];
        this.zoomTo(lane.start[event] - 0.3 * length, lane.end[event] + 0.3 * length);
      },
      Escape: () => this.select(null),
      n: () => this.step(1), p: () => this.step(-1),
    };
    if (!keys[name]) return false;
    keys[name]();
    return true;
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("mousemove", (event) => {
      const place = event.buttons ? null : this.placeAt(event.offsetX, event.offsetY);
      if (place && place.gap)
        tip.show(event, `Idle ${nanoseconds(place.gap[1] - place.gap[0])}`,
          place.lane.factsOfGap(place.gap, this.model.lanes));
      else if (place) tip.show(event, place.lane.title(place.event), place.lane.facts(place.event));
      else tip.hide();
      if (isSamePlace(place, this.hovered)) return;
      this.hovered = place;
      this.draw();
    });
    canvas.addEventListener("mouseleave", () => {
      tip.hide();
      this.hovered = null;
      this.draw();
    });
    canvas.addEventListener("click", (event) => {
      const place = this.placeAt(event.offsetX, event.offsetY);
      this.select(place && place.gap ? null : place);
    });
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) return;
      // With Shift a wheel that turns up or down pans.
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      const upwards = event.shiftKey ? 0 : event.deltaY;
      if (Math.abs(sideways) <= Math.abs(upwards)) return;
      event.preventDefault();
      this.panBy(sideways / this.plot);
    }, {passive: false});
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (this.key(event.key)) event.preventDefault();
    });
    byId("lanes").addEventListener("scroll", () => { tip.hide(); this.draw(); });
    let waiting = 0;
    byId("search").addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.find(), 80);
    });
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    });
    byId("communication").addEventListener("change", (event) => {
      this.wanted = event.target.value;
      this.lay();
    });
    for (const [id, name] of [["zoom-in", "+"], ["zoom-out", "-"], ["zoom-reset", "0"],
      ["next", "n"], ["previous", "p"]]) byId(id).onclick = () => this.key(name);
    new ResizeObserver(() => {
      if (this.model && !paper.printing && byId("lanes").clientWidth !== this.picture.width)
        this.lay();
    }).observe(byId("timeline-section"));
  }
}
