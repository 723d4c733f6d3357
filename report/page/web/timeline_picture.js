// Draws the rows of the timeline that are in sight on a canvas. Counts rectangles, rows and labels,
// for tests.
"use strict";

// Pixels.
const kComputeHeight = 22, kCommHeight = 11, kRowGap = 2, kTitleHeight = 22, kRankGap = 8;
const kTopGap = 6;

// Places the rows from top to bottom, in pixels: with `titled` a title for each rank, then its
// lanes.
function layRows(lanes, titled) {
  const rows = [];
  let y = kTopGap, before = null;
  for (const lane of lanes) {
    if (before === null || before.rank.number !== lane.rank.number) {
      if (before !== null) y += titled ? kRankGap : 0;
      if (titled) {
        rows.push({y, height: kTitleHeight, title: `Rank ${lane.rank.label}`,
          slow: lane.rank.slow});
        y += kTitleHeight;
      }
    }
    const height = lane.computes ? kComputeHeight : kCommHeight;
    rows.push({y, height, lane});
    y += height + kRowGap;
    before = lane;
  }
  return {rows, height: y + kTopGap};
}

// Returns the label of a row in the gutter, the space to the left of the plot.
function rowLabel(lane, titled) {
  if (!titled) return lane.run.label ? `${lane.rank.number} ${lane.run.label}`
    : `rank ${lane.rank.number}`;
  return lane.run.label ? `${lane.name}, ${lane.run.label}` : lane.name;
}

class TimelinePicture {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", {alpha: false});
    this.counts = {rectangles: 0, rows: 0, labels: 0};  // of the last frame
  }

  resize(width, height) {
    const ratio = this.ratio = paper.printing ? 2 : window.devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  // view: {t0, t1, top, gutter, narrow, hidden, rows, titled, palette, ticks, selected, hovered}.
  // Times are in ns; `top` is how far the rows are scrolled and `gutter` the plot's left end, in
  // pixels.
  draw(view) {
    const {context, width, height} = this;
    const {palette, gutter} = view;
    this.counts = {rectangles: 0, rows: 0, labels: 0};
    this.plot = width - gutter;
    context.globalAlpha = 1;
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, width, height);
    for (const row of view.rows) {
      const y = row.y - view.top;
      if (y + row.height < 0) continue;
      if (y > height) break;
      if (row.title) this.drawTitle(view, row, y);
      else this.drawRow(view, row, y);
    }
    this.drawTicks(view);
  }

  text(value, x, y, size, colour, align, most, weight = "") {
    const {context} = this;
    context.globalAlpha = 1;
    context.font = `${weight} ${size}px ${this.font}`;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillStyle = colour;
    let shown = value;
    while (shown.length > 2 && context.measureText(shown).width > most)
      shown = `${shown.slice(0, -2)}…`;
    context.fillText(shown, x, y);
  }

  drawTitle(view, row, y) {
    this.font = view.palette.font;
    this.text(row.title, 0, y + row.height / 2 + 1, 12.5,
      row.slow ? view.palette.mark : view.palette.ink, "left", this.width, "600");
  }

  drawRow(view, row, y) {
    const {context} = this;
    const {palette, gutter, t0, t1} = view;
    const {lane} = row;
    ++this.counts.rows;
    this.font = palette.font;
    this.text(rowLabel(lane, view.titled), gutter - 8, y + row.height / 2 + 0.5,
      lane.computes && !view.narrow ? 12 : 10.5, palette.soft, "right", gutter - 10);
    context.fillStyle = palette.idle;
    context.fillRect(gutter, y, this.plot, row.height);
    let kind = -1, alpha = -1;  // as set in the context; setting is slow, so equal ones are skipped
    visitPieces(lane, t0, t1, this.plot, view.hidden, (piece) => {
      const shade = (0.4 + 0.6 * piece.shade / kShades) * (piece.matched ? 1 : 0.16);
      if (shade !== alpha) context.globalAlpha = alpha = shade;
      // Rounds to whole pixels of the screen, so that neighbours leave no seam.
      const begin = Math.round(piece.begin * this.ratio) / this.ratio;
      const end = Math.round(piece.end * this.ratio) / this.ratio;
      for (const [levelKind, from, to] of piece.levels) {
        if (levelKind !== kind) context.fillStyle = palette.kinds[kind = levelKind];
        context.fillRect(gutter + begin, y + row.height * (1 - to / kLevels),
          Math.max(end - begin, 1 / this.ratio), row.height * (to - from) / kLevels);
        ++this.counts.rectangles;
      }
    });
    if (lane.actions) this.drawActions(view, lane, y, row.height);
    for (const [place, colour] of [[view.hovered, palette.ink], [view.selected, palette.mark]]) {
      if (place && place.lane === lane) this.outline(view, place, y, row.height, colour);
    }
  }

  // Draws lines between actions, and their microbatches where there is room.
  drawActions(view, lane, y, height) {
    const {actions} = lane;
    const {t0, t1} = view;
    const scale = this.plot / (t1 - t0);
    let a = d3.bisectRight(actions.end, t0);
    while (a < actions.count && actions.start[a] < t1) {
      const wide = (actions.end[a] - actions.start[a]) * scale;
      if (wide < 4) {  // too narrow: skips to the last action that starts within four pixels
        a = Math.max(a + 1, d3.bisectLeft(actions.start, actions.start[a] + 4 / scale) - 1);
        continue;
      }
      const kind = lane.colour[actions.first[a]];
      if (!view.hidden.has(kind)) this.drawAction(view, lane, a, y, height);
      ++a;
    }
  }

  drawAction({palette, gutter, t0, t1}, lane, a, y, height) {
    const {context} = this;
    const {actions} = lane;
    const scale = this.plot / (t1 - t0);
    const begin = (actions.start[a] - t0) * scale;
    if (begin > 0) {
      context.globalAlpha = 1;
      context.fillStyle = palette.paper;
      context.fillRect(gutter + begin - 0.5, y, 1, height);
      ++this.counts.rectangles;
    }
    const first = actions.first[a], end = actions.last[a] + 1;  // of its events
    const wide = (actions.end[a] - actions.start[a]) * scale;
    const left = Math.max(0, begin), right = Math.min(this.plot, begin + wide);
    const label = String(lane.microbatch(first));
    const hasRoom = right - left > 8 + 7 * label.length;
    const isMatch = lane.matches === null || lane.matches[end] > lane.matches[first];
    if (lane.microbatch(first) < 0 || !hasRoom || !isMatch) return;
    this.text(label, gutter + (left + right) / 2, y + height / 2 + 0.5, 11,
      lane.colour[first] === kOptimizer ? palette.paper : palette["on-colour"], "center",
      right - left);
    ++this.counts.labels;
  }

  outline(view, {lane, event, gap}, y, height, colour) {
    const {context} = this;
    const scale = this.plot / (view.t1 - view.t0);
    const [from, to] = gap || [lane.start[event], lane.end[event]];
    const begin = Math.max(0, (from - view.t0) * scale);
    const end = Math.min(this.plot, (to - view.t0) * scale);
    if (end < 0 || begin > this.plot) return;
    context.globalAlpha = 1;
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.strokeRect(view.gutter + begin - 0.75, y - 0.75, Math.max(1, end - begin) + 1.5,
      height + 1.5);
  }

  drawTicks(view) {
    const {context} = this;
    context.globalAlpha = 0.14;
    context.fillStyle = view.palette.ink;
    for (const tick of view.ticks) {
      const x = view.gutter + Math.round((tick - view.t0) / (view.t1 - view.t0) * this.plot);
      context.fillRect(x, 0, 1, this.height);
    }
    context.globalAlpha = 1;
  }
}
