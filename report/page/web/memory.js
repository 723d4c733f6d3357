// Draws the memory of one pipeline rank's GPUs over time as stacked areas, and their capacity. Only
// the top area, activations, changes with time.
"use strict";

const kMemoryParts = [
  {key: "weights", name: "weights", colour: "--pipeline"},
  {key: "gradients", name: "gradients", colour: "--tensor"},
  {key: "optimizer", name: "optimizer", colour: "--context"},
  {key: "communication", name: "communication buffers", colour: "--data"},
  {key: "workspace", name: "GEMM libraries", colour: "--expert"},
  {key: "activations", name: "activations", colour: "--backward"},
];

// Returns the bytes of all parts but the activations.
const heldBefore = (rank) =>
  rank.weights + rank.gradients + rank.optimizer + rank.communication + rank.workspace;

class MemoryChart {
  constructor() {
    byId("memory-rank").addEventListener("change", (event) => {
      this.chosen = Number(event.target.value);
      this.draw();
    });
  }

  // Shows a run. The fullest rank is chosen.
  show(run) {
    this.memory = run && run.detail && run.detail.memory;
    byId("memory-section").hidden = !this.memory;
    if (!this.memory) return;
    const {ranks} = this.memory;
    const peaks = ranks.map((rank) => heldBefore(rank) + d3.max(rank.activations));
    this.chosen = d3.scan(peaks, d3.descending);
    this.end = run.result ? run.result.iteration_s * 1e9 : d3.max(ranks, (r) => d3.max(r.at_ns));
    this.domain = null;
    byId("memory-rank").replaceChildren(...ranks.map((rank, i) =>
      make("option", {value: String(i), ...(i === this.chosen ? {selected: ""} : {})},
        `${rank.pipeline_rank}, peak ${memory(peaks[i])}`)));
    this.draw();
  }

  // Shows the times from t0 to t1 (ns), those that the timeline shows.
  follow(t0, t1) {
    this.domain = [t0, t1];
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  draw() {
    if (!this.memory || byId("memory-section").hidden) return;
    const chart = byId("memory-chart");
    const width = Math.max(300, widthOf(chart));
    const height = paper.printing ? 220 : 280;
    const narrow = width < 640;
    const margin = {left: narrow ? 60 : 112, right: 14, top: 16, bottom: 26};
    const rank = this.memory.ranks[this.chosen];
    const {capacity, outside} = this.memory;
    const usable = capacity - outside;
    const held = heldBefore(rank);
    const peak = held + d3.max(rank.activations);
    const parts = kMemoryParts.filter(({key}) => key === "activations" || rank[key] > 0);
    fillLegend(byId("memory-legend"), parts);
    byId("memory-note").replaceChildren("peak ", exact(peak, memory(peak)), " of ",
      exact(usable, memory(usable)), ", beside ", exact(outside, memory(outside)),
      " of CUDA and NCCL", peak > usable ? ": does not fit" : "");
    byId("memory-note").classList.toggle("bad", peak > usable);

    const [t0, t1] = this.domain || [0, this.end];
    const x = d3.scaleLinear().domain([t0, t1]).range([margin.left, width - margin.right]);
    const y = d3.scaleLinear().domain([0, 1.06 * Math.max(peak, capacity)])
      .range([height - margin.bottom, margin.top]);
    const svg = d3.select(chart).html("").append("svg").attr("width", width).attr("height", height)
      .attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img")
      .attr("aria-label", `Memory of pipeline rank ${rank.pipeline_rank}: peak ` +
        `${memory(peak)} of ${memory(usable)}, ${memory(capacity)} less CUDA and NCCL`);
    svg.append("clipPath").attr("id", "memory-clip").append("rect").attr("x", margin.left)
      .attr("width", Math.max(0, width - margin.left - margin.right)).attr("height", height);
    const plot = svg.append("g").attr("clip-path", "url(#memory-clip)");
    let base = 0;
    for (const part of parts) {
      if (part.key === "activations") continue;
      plot.append("rect").attr("x", margin.left).attr("width", width - margin.left - margin.right)
        .attr("y", y(base + rank[part.key])).attr("height", y(base) - y(base + rank[part.key]))
        .style("fill", `var(${part.colour})`);
      base += rank[part.key];
    }
    plot.append("path").style("fill", "var(--backward)").attr("d", this.steps(rank, x, y, base));
    svg.append("rect").attr("class", "reserve").attr("x", margin.left)
      .attr("width", Math.max(0, width - margin.left - margin.right))
      .attr("y", y(capacity)).attr("height", y(usable) - y(capacity));
    for (const level of [usable, capacity])
      svg.append("line").attr("class", "capacity").attr("x1", margin.left)
        .attr("x2", width - margin.right).attr("y1", y(level)).attr("y2", y(level));
    svg.append("text").attr("x", width - margin.right).attr("y", y(capacity) - 7)
      .attr("text-anchor", "end").attr("class", "soft")
      .text(`capacity ${memoryTick(capacity)}, ${narrow ? "usable" : "less CUDA and NCCL"} ` +
        memoryTick(usable));
    const ticks = Math.max(2, Math.floor((width - margin.left) / 110));
    svg.append("g").attr("transform", `translate(0,${height - margin.bottom})`)
      .call(d3.axisBottom(x).ticks(ticks).tickSizeOuter(0)
        .tickFormat(timeTick(t1 - t0, d3.tickStep(t0, t1, ticks))))
      .call(keepTicksInside, x, width);
    svg.append("g").attr("transform", `translate(${margin.left},0)`)
      .call(d3.axisLeft(y).tickValues(ticksOf(y, 5, "bytes")).tickSizeOuter(0)
        .tickFormat(memoryTick));
    this.hover(svg, rank, x, margin, width, height);
  }

  // Returns the path of the activations as an area of steps, on top of `base` bytes.
  steps(rank, x, y, base) {
    const [t0, t1] = x.domain();
    const first = Math.max(0, d3.bisectRight(rank.at_ns, t0) - 1);
    const last = Math.min(rank.at_ns.length, d3.bisectRight(rank.at_ns, t1) + 1);
    const points = d3.range(first, last).map((i) => [rank.at_ns[i], rank.activations[i]]);
    points.push([t1, points[points.length - 1][1]]);
    return d3.area().curve(d3.curveStepAfter).x(([at]) => x(at)).y0(y(base))
      .y1(([, value]) => y(base + value))(points);
  }

  // Shows a line and the parts' bytes at the pointer's time.
  hover(svg, rank, x, margin, width, height) {
    const rule = svg.append("line").attr("y1", margin.top).attr("y2", height - margin.bottom)
      .attr("stroke", "var(--ink)").attr("opacity", 0);
    svg.append("rect").attr("x", margin.left).attr("y", 0)
      .attr("width", Math.max(0, width - margin.left - margin.right)).attr("height", height)
      .attr("fill", "none").style("pointer-events", "all")
      .on("mousemove", () => {
        const [at] = d3.mouse(svg.node());
        const time = x.invert(at);
        const i = Math.max(0, d3.bisectRight(rank.at_ns, time) - 1);
        rule.attr("x1", at).attr("x2", at).attr("opacity", 0.4);
        tip.show(d3.event, `At ${nanoseconds(time)}`, [
          ...kMemoryParts.map(({key, name}) =>
            [name, memory(key === "activations" ? rank.activations[i] : rank[key])]),
          ["all", memory(heldBefore(rank) + rank.activations[i])]]);
      })
      .on("mouseleave", () => { tip.hide(); rule.attr("opacity", 0); });
  }
}
