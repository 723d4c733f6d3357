// Turns the page's timelines (docs/formats.md) into lanes: typed arrays that are fast to search and
// draw. A lane is a row of the picture, such as the compute of one rank.
"use strict";

// Returns a function from an event's number to its value. A column is a list, or one value that all
// events share.
const column = (values) => Array.isArray(values) ? (i) => values[i] : () => values;

const kColumns =
  ["kind", "scope", "stage", "microbatch", "part", "bytes", "start_ns", "length_ns", "waited_ns"];

// Returns a lane with a value for each event. The data may hold repeated events once, as steps:
// order[i] is then the step of event i, gap_ns the idle time before a step, and microbatch_step the
// difference to the last microbatch of the same kind and stage.
function unrolled(raw) {
  if (raw.order === undefined) return raw;
  const lane = {...raw};
  for (const name of [...kColumns, "name_of"])
    if (Array.isArray(raw[name])) lane[name] = raw.order.map((step) => raw[name][step]);
  const gap = column(raw.gap_ns), length = column(raw.length_ns);
  const further = column(raw.microbatch_step), kind = column(raw.kind), stage = column(raw.stage);
  const last = new Map();  // kind and stage -> its last microbatch
  let end = 0;
  lane.start_ns = [];
  lane.microbatch = [];
  for (const step of raw.order) {
    const key = `${kind(step)}/${stage(step)}`;
    last.set(key, (last.get(key) || 0) + further(step));
    lane.microbatch.push(last.get(key));
    lane.start_ns.push(end + gap(step));
    end += gap(step) + length(step);
  }
  return lane;
}

// One lane of one rank. Its events are ordered by their start, and each ends before the next
// begins. colour[i] is event i's index in kKinds. sums.get(colour) is a prefix sum: [i] is the time
// of that colour in the events before i, in nanoseconds.
class Lane {
  constructor(written, rank, run, names) {
    const raw = unrolled(written);
    this.name = raw.name;
    this.rank = rank;
    this.run = run;
    this.names = names;
    // The stages between which a lane "0>1" sends: one of them is the rank's.
    const ends = /^\d+>\d+$/.test(raw.name) ? raw.name.split(">").map(Number) : [];
    this.stages = ends.some((stage) => rank.stages.includes(stage)) ? ends : null;
    this.count = raw.events;
    const start = column(raw.start_ns), length = column(raw.length_ns);
    this.shifted = 0;  // nanoseconds by which its events are drawn later than they were
    this.start = Float64Array.from({length: this.count}, (_, i) => start(i));
    this.end = this.start.map((begin, i) => begin + length(i));
    this.nameOf = raw.name_of === undefined ? null : column(raw.name_of);
    for (const name of kColumns) this[name] = column(raw[name]);
    this.colour = new Uint8Array(this.count);
    for (let i = 0; i < this.count; ++i) this.colour[i] = this.colourOf(i);
    this.computes = this.count > 0 && this.scope(0) < 0;
    this.sums = this.sumsByKind();
    this.actions = this.computes ? this.findActions() : null;
    this.matches = null;  // prefix sum of the events that match the search; null: no search
  }

  // Returns event i's index in kKinds. Compute has the scope -1; in a profile its kind may be none
  // of the known ones.
  colourOf(i) {
    if (this.scope(i) >= 0) return kComputeKinds + this.scope(i);
    return this.kind(i) < kComputeKinds ? this.kind(i) : kOtherCompute;
  }

  // Draws all events so many nanoseconds later.
  shift(by) {
    this.shifted += by;
    const {start, end} = this.actions || {start: [], end: []};
    for (const times of [this.start, this.end, start, end])
      for (let i = 0; i < times.length; ++i) times[i] += by;
  }

  // Returns when the microbatch's first event starts; Infinity: it has none here.
  startOf(microbatch) {
    for (let i = 0; i < this.count; ++i)
      if (this.microbatch(i) === microbatch) return this.start[i];
    return Infinity;
  }

  sumsByKind() {
    const sums = new Map();
    for (let i = 0; i < this.count; ++i) {
      const kind = this.colour[i];
      if (!sums.has(kind)) sums.set(kind, new Float64Array(this.count + 1));
    }
    for (const [kind, sum] of sums) {
      for (let i = 0; i < this.count; ++i)
        sum[i + 1] = sum[i] + (this.colour[i] === kind ? this.end[i] - this.start[i] : 0);
    }
    return sums;
  }

  // Groups neighbouring events of one kind, stage and microbatch into actions of the schedule.
  // first[a] and last[a] are the indices of an action's events.
  findActions() {
    const first = [];
    for (let i = 0; i < this.count; ++i) {
      const same = i > 0 && this.kind(i) === this.kind(i - 1) &&
        this.stage(i) === this.stage(i - 1) && this.microbatch(i) === this.microbatch(i - 1);
      if (!same) first.push(i);
    }
    const last = first.map((_, a) => (a + 1 < first.length ? first[a + 1] : this.count) - 1);
    return {
      first, last, count: first.length,
      start: Float64Array.from(first, (i) => this.start[i]),
      end: Float64Array.from(last, (i) => this.end[i]),
    };
  }

  // Returns the index of the first event that starts at `time` or later.
  from(time) { return d3.bisectLeft(this.start, time); }

  // Returns the index of the first event that ends after `time`.
  after(time) { return d3.bisectRight(this.end, time); }

  // Returns the nanoseconds of events before `time`.
  busyBefore(time) {
    const next = this.from(time);
    if (next === 0) return 0;
    let busy = Math.min(this.end[next - 1], time) - this.start[next - 1];
    for (const sums of this.sums.values()) busy += sums[next - 1];
    return busy;
  }

  // Returns the event at a time, or the nearest one no further than `slack`; -1: none.
  at(time, slack) {
    let best = -1, distance = slack;
    const next = this.after(time);
    for (const i of [next - 1, next]) {
      if (i < 0 || i >= this.count) continue;
      const away = time < this.start[i] ? this.start[i] - time
        : time > this.end[i] ? time - this.end[i] : 0;
      if (away <= distance && (best < 0 || away < distance)) { best = i; distance = away; }
    }
    return best;
  }

  // Returns the idle stretch at a time as [begin, end]; null: none.
  gapAt(time) {
    const next = this.after(time);
    const begin = next > 0 ? this.end[next - 1] : this.shifted;
    const end = next < this.count ? this.start[next] : this.shifted + this.run.timeline.end_ns;
    return begin <= time && time < end ? [begin, end] : null;
  }

  // Returns the communication of the lane's rank in an idle stretch: its kinds, and for how long
  // some of it is in flight. `lanes`: all lanes of the timeline.
  communicationIn([begin, end], lanes) {
    const beside = lanes.filter((lane) => lane !== this && lane.run === this.run &&
      lane.rank.number === this.rank.number);
    const kinds = new Set();
    const busy = [];
    for (const lane of beside) {
      for (let i = lane.after(begin); i < lane.count && lane.start[i] < end; ++i) {
        kinds.add(kKinds[lane.colour[i]].name);
        busy.push([Math.max(begin, lane.start[i]), Math.min(end, lane.end[i])]);
      }
    }
    let ns = 0, until = begin;
    for (const [from, to] of busy.sort(([a], [b]) => a - b)) {
      ns += Math.max(0, to - Math.max(from, until));
      until = Math.max(until, to);
    }
    return {kinds: [...kinds], ns};
  }

  // Returns the facts of an idle stretch of this lane.
  factsOfGap([begin, end], lanes) {
    const {kinds, ns} = this.communicationIn([begin, end], lanes);
    const rest = ns < end - begin ? ", the rest bubble" : "";
    return [
      ["Rank", this.rank.label],
      ["Run", this.run.label || null],
      ["From", nanoseconds(begin - this.shifted)],
      ["To", nanoseconds(end - this.shifted)],
      ["Meanwhile", ns === 0 ? "no communication: bubble"
        : `${kinds.join(", ")} for ${nanoseconds(ns)}${rest}`],
    ];
  }

  title(i) {
    if (this.nameOf) return this.names.names[this.nameOf(i)];  // a profile's kernel
    const titles = {forward: "Forward", backward: "Backward", input: "Input gradient",
      weight: "Weight gradient", optimizer: "Optimizer"};
    const raw = this.names.kinds[this.kind(i)];
    const name = this.computes ? kKinds[this.kind(i)].name : raw;
    const text = titles[raw] || name.charAt(0).toUpperCase() + name.slice(1);
    return this.microbatch(i) >= 0 ? `${text} ${this.microbatch(i)}` : text;
  }

  // Returns an event's facts as pairs of a name and a text. Pairs with null are not shown.
  facts(i) {
    const length = this.end[i] - this.start[i];
    const sent = this.bytes(i) > 0 && !this.computes;
    return [
      ["Rank", this.rank.label],
      ["Run", this.run.label || null],
      ["Lane", this.stages ? `${this.name}: from stage ${this.stages.join(" to stage ")}`
        : this.name],
      ["Kind", this.computes ? null : this.names.scopes[this.scope(i)]],
      ["Stage", this.stage(i) >= 0 ? String(this.stage(i)) : null],
      ["Microbatch", this.microbatch(i) >= 0 ? String(this.microbatch(i)) : null],
      ["Part", this.part(i) > 0 ? String(this.part(i) + 1) : null],
      ["Start", nanoseconds(this.start[i] - this.shifted)],
      ["Duration", nanoseconds(length)],
      ["Waited", this.waited_ns(i) > 0 ? `${nanoseconds(this.waited_ns(i))} for its peers` : null],
      ["Bytes", sent ? bytes(this.bytes(i)) : null],
      ["Rate", sent ? `${bytes(this.bytes(i) / (length * 1e-9))}/s` : null],
    ];
  }
}

// Names a rank, and how slow it is. `slow`: the ratios of slow ranks.
function rankOf(raw, slow) {
  const stages = raw.stages.length === 0 ? ""
    : `, stage${raw.stages.length > 1 ? "s" : ""} ${raw.stages.join(" ")}`;
  const others = raw.stands_for > 1 ? `, stands for ${raw.stands_for} ranks` : "";
  const ratio = slow.get(raw.rank);
  const late = ratio ? `: compute × ${d3.format(".2f")(ratio)}` : "";
  return {number: raw.rank, stages: raw.stages, standsFor: raw.stands_for, slow: Boolean(ratio),
    label: `${raw.rank}${stages}${others}${late}`};
}

// Moves each run's lanes so that this microbatch begins at the same time in all runs that have it.
function alignLanes(lanes, runs, microbatch) {
  const starts = runs.map((run) => d3.min(lanes.filter((lane) => lane.run === run && lane.computes),
    (lane) => lane.startOf(microbatch)));
  const last = d3.max(starts.filter(Number.isFinite));
  runs.forEach((run, i) => {
    if (!Number.isFinite(starts[i])) return;
    for (const lane of lanes) if (lane.run === run) lane.shift(last - starts[i]);
  });
}

// Numbers each rank's lanes of communication, those that are longest in flight first: byBusy is 0
// for the first.
function sortByBusy(lanes) {
  const ranks = d3.nest().key((lane) => lane.rank.number).key((lane) => lane.name)
    .entries(lanes.filter((lane) => !lane.computes));
  for (const {values: names} of ranks) {
    const busy = ({values}) => d3.sum(values, (lane) =>
      d3.sum(lane.sums.values(), (sums) => sums[lane.count]));
    names.sort((a, b) => busy(b) - busy(a));
    names.forEach(({values}, place) => { for (const lane of values) lane.byBusy = place; });
  }
}

// Makes the model of runs: [{label, timeline}], aligned by a microbatch's first event, or by their
// start (null). Lanes are sorted by rank. Within a rank, the lanes of one name in several runs are
// neighbours. `slow`: how many times as long slow ranks compute.
function timelineModel(runs, microbatch = null, slow = new Map()) {
  const lanes = [];
  for (const run of runs) {
    run.timeline.ranks.forEach((raw, order) => {
      const rank = rankOf(raw, slow);
      raw.lanes.forEach((lane) => {
        if (lane.events > 0) lanes.push(new Lane(lane, {...rank, order}, run, run.timeline));
      });
    });
  }
  if (microbatch !== null) alignLanes(lanes, runs, microbatch);
  const place = new Map();  // a lane's rank and name -> the position where they first occur
  lanes.forEach((lane) => {
    const key = `${lane.rank.number}/${lane.name}`;
    if (!place.has(key)) place.set(key, place.size);
    lane.place = place.get(key);
  });
  lanes.sort((a, b) => a.rank.number - b.rank.number || a.place - b.place);
  sortByBusy(lanes);
  const shiftOf = (run) => (lanes.find((lane) => lane.run === run) || {shifted: 0}).shifted;
  const end = d3.max(runs, (run) => run.timeline.end_ns + shiftOf(run)) || 1;
  return {lanes, runs, end, events: d3.sum(runs, (run) => run.timeline.events)};
}
