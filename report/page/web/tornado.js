// A tornado chart: how much each input changes the late days and the total of the recommended
// machine over the input's range, and where in that range ("flip") another machine is best.
"use strict";

const kTornadoParts = [["days", (late) => `days ${late}`], ["total", () => "total"]];
const kSeen = 5e-4;  // smaller changes have no text

// Says whether the input is the interval of the predictions, which has no factors: low is 0.
const isInterval = ({low}) => low === 0;

// Returns the change of `key` at the flip, interpolated linearly between none at factor 1 and the
// change at that end of the range. Null: no flip, or it is not known where.
function flipAt(row, key) {
  if (row.flips_at === null || isInterval(row)) return null;
  const side = row.flips_at < 1 ? "low" : "high";
  const end = row[side];
  return end === 1 ? null : row[`${key}_${side}`] * (row.flips_at - 1) / (end - 1);
}

function flipText(row) {
  if (row.flips_at === null) return "";
  const place = isInterval(row) ? "within it" : `from × ${d3.format(".2f")(row.flips_at)}`;
  return `${place}: ${row.flips_to ? `${row.flips_to} is best` : "none is in time"}`;
}

const rangeText = (row) =>
  isInterval(row) ? "" : ` × ${number(row.low)} to ${number(row.high)}`;
const moves = (row, key) =>
  Math.max(Math.abs(row[`${key}_low`]), Math.abs(row[`${key}_high`])) >= kSeen;

// Draws a bar's two ends, their texts and the flip. Each text names its end, so that the chart can
// be read without colours.
function drawTornadoBar(group, row, key, x, wide) {
  const ends = ["low", "high"].map((end) =>
    ({end, factor: row[end], change: row[`${key}_${end}`]}));
  group.append("line").attr("class", "zero").attr("x1", x(0)).attr("x2", x(0)).attr("y1", -9)
    .attr("y2", 9);
  group.selectAll("rect").data(ends).join("rect").attr("class", ({end}) => end)
    .attr("x", ({change}) => Math.min(x(0), x(change))).attr("y", -6).attr("height", 12)
    .attr("width", ({change}) => Math.abs(x(change) - x(0)));
  for (const side of [-1, 1]) {
    const longer = ends.filter(({change}) => Math.sign(change) === side)
      .sort((a, b) => Math.abs(b.change) - Math.abs(a.change))[0];
    if (!longer || Math.abs(longer.change) < kSeen) continue;
    const factor = wide && !isInterval(row) ? `× ${number(longer.factor)}: ` : "";
    group.append("text").attr("class", "halo").attr("x", x(longer.change) + 5 * side).attr("y", 4)
      .attr("text-anchor", side < 0 ? "end" : "start")
      .text(factor + signedPercent(longer.change));
  }
  const flip = flipAt(row, key);
  if (flip !== null && moves(row, key))
    group.append("path").attr("class", "mark").attr("transform", `translate(${x(flip)},0)`)
      .attr("d", d3.symbol().type(d3.symbolDiamond).size(90));
}

// `paperWidth`: in pixels; null: the chart is on the screen.
function drawTornado(chart, {tornado, late}, paperWidth) {
  const width = paperWidth || Math.max(300, chart.clientWidth);
  const stacked = width < 640;  // the bars are below the name,
  const below = width < 1000;   // the flip is below both
  const named = stacked ? 44 : 195, flips = below ? 0 : 270;
  const room = (width - named - flips) / (stacked ? 1 : 2);
  const beside = stacked ? 62 : 92;  // for the texts at the ends
  const most = d3.max(tornado, (row) => d3.max(kTornadoParts.flatMap(([key]) =>
    [Math.abs(row[`${key}_low`]), Math.abs(row[`${key}_high`])]))) || 1;
  const scale = (left) => d3.scaleLinear().domain([-most, most])
    .range([left + beside, left + room - beside]);
  const line = paperWidth ? 14 : 21;
  // Places the rows from above: name, bars and flip share a line, or have a line each.
  let y = stacked ? 12 : 30;
  const rows = tornado.map((row) => {
    const parts = kTornadoParts.filter(([key]) => !stacked || moves(row, key));
    const after = line * (stacked ? parts.length + 1 : 1);  // where the flip's own line is
    const placed = {row, parts, y, flip: below ? y + after : y};
    y += after + (below && flipText(row) ? line : 0) + (stacked ? 8 : 2);
    return placed;
  });
  chart.replaceChildren();
  const both = (row, key) =>
    `${signedPercent(row[`${key}_low`])} to ${signedPercent(row[`${key}_high`])}`;
  const svg = d3.select(chart).append("svg").attr("width", width).attr("height", y)
    .attr("viewBox", `0 0 ${width} ${y}`).attr("role", "img").attr("aria-label",
      tornado.map((row) => `${row.input}${rangeText(row)}: days ${both(row, "days")}, ` +
        `total ${both(row, "total")} ${flipText(row)}`).join("; "));
  if (!stacked)
    kTornadoParts.forEach(([, title], i) => svg.append("text").attr("class", "soft")
      .attr("x", named + room * (i + 0.5)).attr("y", 12).attr("text-anchor", "middle")
      .text(title(late)));
  for (const {row, parts, y: top, flip} of rows) {
    const group = svg.append("g").attr("class", "tornado");
    const write = (text, x, at, kind = "") =>
      group.append("text").attr("class", kind).attr("x", x).attr("y", at + 4).text(text);
    const name = row.input + rangeText(row);
    write(name, 0, top);
    parts.forEach(([key, title], i) => {
      const at = stacked ? top + line * (i + 1) : top;
      if (stacked) write(key, 0, at, "soft");
      const bar = group.append("g").attr("class", key).attr("transform", `translate(0,${at})`);
      drawTornadoBar(bar, row, key, scale(named + (stacked ? 0 : room * i)), beside > 80);
    });
    const text = flipText(row);
    if (text)
      write(`◆ ${text}`, stacked ? 0 : below ? named + 20 : width - flips + 8, flip, "flip halo");
  }
}
