// The charts of a table of many runs, such as a sweep: a scatter chart with the Pareto frontier,
// parallel coordinates, and the rows. Filters and brushes choose the rows that all three show. A
// table may have a limit: the most that a column's values may be, such as a GPU's memory.
"use strict";

const kTableRowsMax = 500;
const kTextTicksMax = 30;  // texts along an axis; more are not written
const kBeyond = 1.15;  // times the limit: where the chart's axis ends
const kFarBelow = 0.4;  // times the limit: if all values are below, the axis leaves the limit out

// Returns a d3 scale from a column's values to a range whose second end is the better one. It is
// logarithmic if the largest number is over 50 times the least. Each text has its own point.
function columnScale(table, column, range) {
  const values = table.rows.map((row) => row[column]).filter((value) => value !== null);
  const {better} = table.columns[column];
  const towards = better === "less" ? [...range].reverse() : range;
  if (values.some((value) => typeof value === "string"))
    return d3.scalePoint().domain([...new Set(values.map(String))].sort(d3.ascending)).range(range)
      .padding(0.3);
  const [least, most] = d3.extent(values);
  if (least === undefined) return d3.scaleLinear().range(towards);
  if (least > 0 && most / least > 50) return d3.scaleLog().domain([least, most]).range(towards);
  if (least === most) return d3.scaleLinear().domain([least - 1, most + 1]).range(towards);
  return d3.scaleLinear().domain([least, most]).range(towards);
}

// Sets the ticks of a column: its own values if they are few, else round ones, written as in the
// table. In d3 only scales of texts have a `step`, and only logarithmic ones a `base`.
function columnTicks(axis, scale, values, {unit}) {
  if (scale.step) return scale.domain().length > kTextTicksMax ? axis.tickValues([]) : axis;
  const own = [...new Set(values)].filter((value) => value !== null).sort(d3.ascending);
  const few = own.length <= 6 && own.length > 1 && !scale.base;
  const ticks = few ? own : ticksOf(scale, scale.base ? 6 : 5, unit);
  return axis.tickValues(ticks).tickFormat(tickTexts(ticks, unit));
}

// Writes a value as the cells of its column do. Bytes have their unit in the cell ("2.5 GiB"),
// other numbers have it in the column's title.
const cellText = (value, unit) => typeof value === "string" ? value
  : unit === "bytes" ? memoryTick(value) : unit === "share" ? percent(value) : number(value);
// Writes values along an axis: 120000 as "120k", with as many digits as tell the ticks apart.
function tickTexts(ticks, unit) {
  const text = (digits) => (value) => unit !== "bytes" && Math.abs(value) >= 1e5
    ? d3.format(`.${digits}~s`)(value) : cellText(value, unit);
  const apart = (digits) => new Set(ticks.map(text(digits))).size === ticks.length;
  return text(d3.range(4, 12).find(apart) || 4);
}
const shownUnit = ({unit}) => ["bytes", "share"].includes(unit) ? "" : unit;

// Returns 1, 2 and 5 times powers of ten from `least` to `most`, or the powers alone if there are
// more than twice as many as wanted.
function logTicks(least, most, wanted) {
  const powers = d3.range(Math.floor(Math.log10(least)), Math.ceil(Math.log10(most)) + 1)
    .map((power) => Number(`1e${power}`));
  const inside = (value) => value >= least && value <= most;
  const all = d3.merge(powers.map((power) => [power, 2 * power, 5 * power])).filter(inside);
  return all.length <= 2 * wanted ? all : powers.filter(inside);
}

// Splits a column's name into lines of its words if it is long.
function titleLines(name) {
  const lines = [];
  for (const word of name.match(/[^ ._]*[ ._]?/g).filter(Boolean)) {
    const last = lines.length - 1;
    if (last >= 0 && lines[last].length + word.length <= 10) lines[last] += word;
    else lines.push(word);
  }
  return lines.map((line) => line.trim());
}

const labelWidth = (text) => 2 + 6.8 * text.length;  // pixels, about

// Returns the labels that do not overlap an earlier one.
function apart(labels) {
  const kept = [];
  for (const label of labels) {
    const right = label.x + labelWidth(label.text);
    if (kept.every((other) => Math.abs(other.y - label.y) > 13 || label.x > other.right ||
        right < other.x))
      kept.push({...label, right});
  }
  return kept;
}

const axisName = (column) => shownUnit(column) ? `${column.name}, ${column.unit}` : column.name;

class TableCharts {
  constructor(table) {
    this.table = table;
    this.onFrontier = new Set(table.frontier);
    this.unfit = new Set(table.unfit);
    this.brushes = new Map();  // column -> [one end, the other] in pixels of its axis
    byId("table-section").hidden = false;
    byId("table-title").textContent = table.title;
    const numeric = table.columns.map((_, i) => i).filter((i) =>
      table.rows.some((row) => typeof row[i] === "number"));
    for (const [id, key] of [["table-x", "x"], ["table-y", "y"]]) {
      const select = byId(id);
      select.replaceChildren(...numeric.map((i) => make("option",
        {value: String(i), ...(i === table[key] ? {selected: ""} : {})},
        axisName(table.columns[i]))));
      select.onchange = () => { this[key] = Number(select.value); this.draw(); };
      this[key] = table[key];
    }
    this.rowFilter = new RowFilter(table);
    this.marks = new Map(table.marks.map(({row, as}) => [row, as]));
    this.startGroups();
    byId("table-filter").addEventListener("input", () => this.filter());
    byId("table-reset").onclick = () => {
      this.brushes.clear();
      byId("table-group").value = "";
      byId("table-filter").value = "";
      this.draw();
    };
    this.nameColumn = table.columns.findIndex((_, i) =>  // the column that names a row; -1: none
      !numeric.includes(i) && i !== table.group);
    this.rowsTable = new SortedTable(byId("table-rows"), table.columns.map((column, i) => ({
      name: column.name.replace(/([._])/g, "$1\u200b"), unit: shownUnit(column),
      value: ({row}) => row[i],
      text: !numeric.includes(i), show: (value) => cellText(value, column.unit),
      draw: i === this.nameColumn && table.marks.length > 0
        ? ({row, index}) => this.nameWithMark(row[i], index) : undefined,
    })), {most: kTableRowsMax, isChosen: ({index}) => this.onFrontier.has(index)});
    this.draw();
  }

  // Offers a choice among the groups, if there are some.
  startGroups() {
    const {table} = this;
    const select = byId("table-group");
    if (table.group === null) return;
    this.groups = [...new Set(table.rows.map((row) => row[table.group]))];
    byId("table-group-label").hidden = false;
    byId("table-group-label").querySelector("span").textContent = table.columns[table.group].name;
    select.replaceChildren(make("option", {value: ""}, "all"),
      ...this.groups.map((group, i) => make("option", {value: String(i)}, group)));
    select.onchange = () => this.filter();
  }

  inGroup(row) {
    const {value} = byId("table-group");
    return value === "" || row[this.table.group] === this.groups[Number(value)];
  }

  // Returns a row's name in the table, with its mark.
  nameWithMark(name, index) {
    const text = String(name === null ? "-" : name);
    return this.marks.has(index)
      ? make("span", {}, text, " ", make("small", {class: "badge"}, this.marks.get(index))) : text;
  }

  // Returns a row's marks in words.
  standing(index) {
    const words = [this.marks.get(index), this.onFrontier.has(index) ? "on the frontier" : null,
      this.unfit.has(index) ? "does not fit into memory" : null].filter(Boolean);
    const text = words.join(", ") || "not on the frontier";
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  draw() {
    this.drawParallel();
    this.filter();
  }

  // Finds the rows that pass the text and every brush, then draws all that shows them.
  filter() {
    const {test, leftOut} = this.rowFilter.read(byId("table-filter").value);
    byId("table-left-out").textContent = leftOut.join(" ");
    const within = (row) => [...this.brushes].every(([column, [a, b]]) => {
      if (row[column] === null) return false;
      const at = this.axes[column](row[column]);
      return at >= Math.min(a, b) && at <= Math.max(a, b);
    });
    this.shown = this.table.rows.map((row, index) =>
      this.inGroup(row) && test(index) && within(row));
    const rows = this.table.rows.map((row, index) => ({row, index}))
      .filter(({index}) => this.shown[index]);
    const more = rows.length > kTableRowsMax ? `, the first ${kTableRowsMax} below` : "";
    byId("table-count").textContent =
      `${number(rows.length)} of ${number(this.table.rows.length)} rows${more}`;
    this.drawLines();
    this.drawFrontier();
    this.rowsTable.show(rows);
  }

  facts(index) {
    return this.table.columns.map(({name, unit}, i) =>
      [name, withUnit(this.table.rows[index][i], unit)]);
  }

  // Draws the scatter chart of the two chosen columns, from the axes below to the names on top.
  drawFrontier() {
    const {table, x: cx, y: cy} = this;
    const chart = byId("frontier-chart");
    const width = Math.max(300, widthOf(chart)), height = Math.min(460, 0.62 * width + 60);
    const area = {left: 66, right: width - 20, top: 26, bottom: height - 44};
    const points = table.rows.map((row, index) => ({row, index}))
      .filter(({row}) => typeof row[cx] === "number" && typeof row[cy] === "number" &&
        this.inGroup(row));
    chart.replaceChildren();
    this.drawLegend(points);
    byId("frontier-note").textContent = this.limitNote(points);
    if (points.length === 0) return;
    const x = this.frontierScale(points, cx, [area.left, area.right]);
    const y = this.frontierScale(points, cy, [area.bottom, area.top]);
    const svg = d3.select(chart).html("").append("svg").attr("width", width).attr("height", height)
      .attr("viewBox", `0 0 ${width} ${height}`)
      .attr("role", "img").attr("aria-label",
        `${axisName(table.columns[cy])} over ${axisName(table.columns[cx])}`);
    this.drawFrontierAxes(svg, x, y, area, width, height);
    if (cx === table.x && cy === table.y) this.drawFrontierLines(svg, x, y);
    this.drawLimit(svg, x, y, area);
    this.drawPoints(svg, points, x, y);
    this.drawNames(svg, points, x, y, width);
  }

  // Returns a scale from a column's values to pixels, with room beyond the least and the greatest.
  // An axis that the limit cuts off has none there: the rows beyond are drawn at its end.
  frontierScale(points, column, range) {
    const {limit, group} = this.table;
    const [least, most] = this.shownRange(points, column);
    const isCutOff = this.isLimited(column) && most === kBeyond * limit.most;
    // Groups mostly differ in size, so that several of them need a logarithmic axis sooner.
    const several = group !== null && byId("table-group").value === "";
    if (least > 0 && most / least > (several ? 4 : 50))
      return d3.scaleLog().clamp(true).range(range)
        .domain([least / 1.1, isCutOff ? most : most * 1.1]);
    const room = 0.08 * (most - least || 1);
    const low = least >= 0 ? Math.max(0, least - room) : least - room;
    return d3.scaleLinear().clamp(true).range(range).domain([low, isCutOff ? most : most + room]);
  }

  drawFrontierAxes(svg, x, y, area, width, height) {
    const columnX = this.table.columns[this.x], columnY = this.table.columns[this.y];
    const axis = (side, scale, count, {unit}, ticks = ticksOf(scale, count, unit)) =>
      side(scale).tickSizeOuter(0).tickValues(ticks).tickFormat(tickTexts(ticks, unit));
    svg.append("g").attr("transform", `translate(0,${area.bottom})`)
      .call(axis(d3.axisBottom, x, Math.max(3, Math.floor(width / 130)), columnX));
    svg.append("g").attr("transform", `translate(${area.left},0)`)
      .call(axis(d3.axisLeft, y, 6, columnY));
    const title = (column) =>
      axisName(column) + (column.better ? ` (${column.better} is better)` : "");
    svg.append("text").attr("x", area.right).attr("y", height - 8)
      .attr("text-anchor", "end").attr("class", "soft").text(title(columnX));
    svg.append("text").attr("x", 4).attr("y", 12).attr("class", "soft").text(title(columnY));
  }

  // Draws the frontier of each group in sight as steps.
  drawFrontierLines(svg, x, y) {
    const {table, x: cx, y: cy} = this;
    const rises = table.columns[cx].better === "more" ? d3.curveStepBefore : d3.curveStepAfter;
    const lines = d3.nest().key((row) => table.group === null ? "" : row[table.group])
      .entries(table.frontier.map((index) => table.rows[index]).filter((row) => this.inGroup(row)));
    svg.append("g").selectAll("path").data(lines).join("path").attr("class", "frontier")
      .attr("d", ({values}) => d3.line().curve(rises).x((row) => x(row[cx]))
        .y((row) => y(row[cy]))(values.sort((a, b) => d3.ascending(a[cx], b[cx]))));
  }

  // Draws diamonds around marked rows, triangles for rows beyond the limit, which point outwards at
  // the chart's edge, and dots for all others, those on the frontier last.
  drawPoints(svg, points, x, y) {
    const {x: cx, y: cy} = this;
    const front = ({index}) => this.onFrontier.has(index);
    const beyond = ({row}) => this.isBeyond(row);
    const marked = ({index}) => this.marks.has(index);
    svg.append("g").selectAll("path").data(points.filter(marked)).join("path")
      .attr("class", "mark").attr("d", d3.symbol().type(d3.symbolDiamond).size(330))
      .attr("transform", ({row}) => `translate(${x(row[cx])},${y(row[cy])})`)
      .attr("opacity", ({index}) => this.shown[index] ? 1 : 0.12);
    const pointed = this.isLimited(cx) ? 90 : 0;  // degrees: to the right, or up
    const hover = (marks) => marks
      .on("mousemove", ({index}) => tip.show(d3.event, this.standing(index), this.facts(index)))
      .on("mouseleave", () => tip.hide());
    hover(svg.append("g").selectAll("path").data(points.filter(beyond)).join("path")
      .attr("class", "beyond").attr("d", d3.symbol().type(d3.symbolTriangle).size(70))
      .attr("transform", ({row}) => `translate(${x(row[cx])},${y(row[cy])}) rotate(${pointed})`)
      .attr("opacity", ({index}) => this.shown[index] ? 1 : 0.12));
    hover(svg.append("g").selectAll("circle")
      .data(points.filter((point) => !beyond(point)).sort((a, b) => front(a) - front(b)))
      .join("circle")
      .attr("cx", ({row}) => x(row[cx])).attr("cy", ({row}) => y(row[cy]))
      .attr("r", (point) => front(point) ? 5.5 : 3.5)
      .style("fill", (point) => front(point) ? "var(--accent)"
        : this.unfit.has(point.index) ? "var(--paper)" : "var(--soft)")
      .style("stroke", ({index}) => this.unfit.has(index) ? "var(--mark)" : "var(--paper)")
      .attr("opacity", (point) => !this.shown[point.index] ? 0.1 : front(point) ? 1 : 0.6));
  }

  // Writes the names of marked rows and of those on the frontier, if they are few and do not
  // overlap. Other columns than the table's own have no frontier.
  drawNames(svg, points, x, y, width) {
    const {table, x: cx, y: cy} = this;
    const own = cx === table.x && cy === table.y;
    const marked = ({index}) => this.marks.has(index);
    const named = (point) => own && (this.onFrontier.has(point.index) || marked(point));
    if (this.nameColumn < 0 || points.filter(named).length > 15) return;
    const labels = points.filter(named).sort((a, b) => marked(b) - marked(a))
      .map(({row, index}) => {
        const text = String(row[this.nameColumn]);
        return {text, index, x: Math.min(x(row[cx]) + 9, width - labelWidth(text)),
          y: y(row[cy]) - 9};
      });
    svg.append("g").selectAll("text").data(apart(labels)).join("text").attr("class", "halo")
      .attr("x", (label) => label.x).attr("y", (label) => label.y).text(({text}) => text)
      .attr("opacity", ({index}) => this.shown[index] ? 1 : 0.12);
  }

  isLimited(column) {
    const {limit} = this.table;
    return limit !== null && limit.column === column;
  }

  showsLimit() { return this.isLimited(this.x) || this.isLimited(this.y); }

  // Returns whether the chosen axes show the limit's column, and the row lies far above the limit.
  isBeyond(row) {
    const {limit} = this.table;
    return this.showsLimit() && row[limit.column] > kBeyond * limit.most;
  }

  // Returns the least and the greatest value that a column's axis shows. In the limit's column it
  // ends a bit above the limit, even if some values are larger.
  shownRange(points, column) {
    const {limit} = this.table;
    const values = points.map(({row}) => row[column]);
    if (!this.isLimited(column)) return d3.extent(values);
    const most = d3.max(values);
    if (most < kFarBelow * limit.most) return d3.extent(values);
    return [Math.min(d3.min(values), limit.most),
      Math.min(Math.max(most, limit.most), kBeyond * limit.most)];
  }

  drawLimit(svg, x, y, {left, right, top, bottom}) {
    const {limit, columns} = this.table;
    if (limit === null) return;
    const text = `${limit.as} ${cellText(limit.most, columns[limit.column].unit)}`;
    for (const [scale, column] of [[x, this.x], [y, this.y]]) {
      // The scale clamps, so that a limit beyond the axis would be drawn at its end.
      const at = scale(limit.most);
      if (column !== limit.column || scale.invert(at) < 0.999 * limit.most) continue;
      const across = scale === x;
      svg.append("line").attr("class", "capacity")
        .attr("x1", across ? at : left).attr("x2", across ? at : right)
        .attr("y1", across ? top : at).attr("y2", across ? bottom : at);
      svg.append("text").attr("class", "soft halo").attr("text-anchor", "end").text(text)
        .attr("x", across ? at - 5 : right).attr("y", across ? top + 9 : at - 6);
    }
  }

  // Says if the limit is off the chart, or rows beyond it are drawn at the edge.
  limitNote(points) {
    const {limit, columns} = this.table;
    if (!this.showsLimit() || points.length === 0) return "";
    const said = (value) => cellText(value, columns[limit.column].unit);
    const values = points.map(({row}) => row[limit.column]);
    if (d3.max(values) < kFarBelow * limit.most)
      return `The ${limit.as}, ${said(limit.most)}, is far to the side.`;
    const beyond = values.filter((value) => value > kBeyond * limit.most);
    return beyond.length === 0 ? ""
      : `${beyond.length} beyond ${said(kBeyond * limit.most)} ` +
        `${beyond.length > 1 ? "stand" : "stands"} at the edge, as triangles: up to ` +
        `${said(d3.max(beyond))}.`;
  }

  // Fills the legend, if some rows are marked or do not fit.
  drawLegend(points) {
    const legend = byId("frontier-legend");
    if (this.table.marks.length === 0 && this.unfit.size === 0) return;
    const words = [...new Set(points.filter(({index}) => this.marks.has(index))
      .map(({index}) => this.marks.get(index)))];
    fillLegend(legend, [{name: "on the frontier", colour: "--accent"},
      {name: "others", colour: "--soft"}]);
    if (points.some(({index}) => this.unfit.has(index)))
      legend.append(make("span", {}, make("i", {class: "unfit"}), "does not fit into memory"));
    if (words.length > 0)
      legend.append(make("span", {}, make("i", {class: "mark"}), words.join("; ")));
  }

  // Places the axes of the parallel coordinates, and returns the chart's width. Texts are to the
  // left of their axis, and are shortened if there is no room for those of all columns.
  placeAxes() {
    const {table} = this;
    const named = table.columns.map(({name}) => d3.max(titleLines(name), (line) => line.length));
    // Returns for each axis the pixels between it and the one before. They hold its own texts, of
    // 6.6 pixels a character and cut at `most`, or half of both axes' titles, whichever is wider.
    const roomFor = (most) => table.columns.map((_, i) => {
      const texts = new Set(table.rows.map((row) => row[i])
        .filter((value) => typeof value === "string"));
      const longest = texts.size > kTextTicksMax ? 0
        : d3.max([...texts], (text) => text.length) || 4;
      return Math.max(46, Math.min(most, 20 + 6.6 * longest),
        12 + 3.7 * (named[i] + (i > 0 ? named[i - 1] : 0)));
    });
    const right = 40, inSight = widthOf(byId("parallel-chart"));
    let most = 200;
    while (most > 80 && d3.sum(roomFor(most)) + right > inSight) most -= 10;
    const room = roomFor(most);
    this.ticksMost = room.map((each) => Math.floor((each - 18) / 6.6));
    const needed = d3.sum(room) + right;
    const width = Math.max(inSight, needed);
    const more = (width - needed) / Math.max(1, room.length - 1);
    let at = -more;
    this.along = d3.scaleOrdinal().domain(d3.range(room.length))
      .range(room.map((each) => { at += each + more; return at; }));
    return width;
  }

  // Draws the axes with their brushes; the lines are on a canvas below them.
  drawParallel() {
    const {table} = this;
    const chart = byId("parallel-chart");
    const width = this.placeAxes(), height = 310;
    const titles = d3.max(table.columns, (column) =>
      titleLines(column.name).length + (shownUnit(column) ? 1 : 0));
    const margin = {top: 14 + 14 * titles, bottom: 18};
    this.size = {width, height};
    this.axes = table.columns.map((_, i) =>
      columnScale(table, i, [height - margin.bottom, margin.top]));
    chart.replaceChildren();
    this.canvas = chart.appendChild(make("canvas"));
    const svg = d3.select(chart).append("svg").attr("width", width).attr("height", height)
      .attr("viewBox", `0 0 ${width} ${height}`);
    const axes = svg.selectAll("g.column").data(table.columns).join("g").attr("class", "column")
      .attr("transform", (_, i) => `translate(${this.along(i)},0)`);
    const self = this;
    axes.each(function (column, i) {
      const scale = self.axes[i];
      const values = table.rows.map((row) => row[i]);
      d3.select(this).call(columnTicks(d3.axisLeft(scale).tickSizeOuter(0), scale, values, column));
      const ticks = d3.select(this).selectAll(".tick text").attr("class", "halo");
      if (scale.step) ticks.text((text) => shortened(text, self.ticksMost[i]));
      const lines = titleLines(column.name);
      d3.select(this).selectAll("text.title").data(lines).join("text").attr("class", "title")
        .attr("y", (_, k) => 14 + 14 * k).attr("text-anchor", "middle").text((line) => line);
      if (shownUnit(column))
        d3.select(this).append("text").attr("y", 14 + 14 * lines.length)
          .attr("text-anchor", "middle").attr("class", "unit").text(column.unit);
      const brush = d3.brushY().extent([[-12, margin.top - 4], [12, height - margin.bottom + 4]])
        .on("brush end", () => {
          if (!d3.event.sourceEvent) return;
          if (d3.event.selection) self.brushes.set(i, d3.event.selection);
          else self.brushes.delete(i);
          self.filter();
        });
      const group = d3.select(this).append("g").call(brush);
      if (self.brushes.has(i)) group.call(brush.move, self.brushes.get(i));
    });
  }

  drawLines() {
    const ratio = window.devicePixelRatio || 1;
    const {canvas, table, size: {width, height}} = this;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const draw = (index, colour, alpha, wide) => {
      context.globalAlpha = alpha;
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.beginPath();
      let begun = false;
      table.rows[index].forEach((value, i) => {
        if (value === null) { begun = false; return; }
        const at = [this.along(i), this.axes[i](this.axes[i].step ? String(value) : value)];
        if (begun) context.lineTo(...at); else context.moveTo(...at);
        begun = true;
      });
      context.stroke();
    };
    const soft = cssColour("--soft"), accent = cssColour("--accent");
    const alpha = Math.max(0.06, Math.min(0.5, 60 / table.rows.length));
    const all = d3.range(table.rows.length);
    for (const index of all) if (!this.shown[index]) draw(index, soft, alpha * 0.15, 1);
    for (const index of all)
      if (this.shown[index] && !this.onFrontier.has(index)) draw(index, soft, alpha, 1);
    for (const index of all)
      if (this.shown[index] && this.onFrontier.has(index)) draw(index, accent, 0.9, 1.6);
  }
}
