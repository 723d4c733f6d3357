// The search over events. An event must match all words: "forward 3 stage=1 >5ms" finds forwards of
// microbatch 3 on stage 1 that take more than 5 ms.
"use strict";

const kNumberFields = {
  stage: (lane, i) => lane.stage(i),
  microbatch: (lane, i) => lane.microbatch(i),
  mb: (lane, i) => lane.microbatch(i),
  part: (lane, i) => lane.part(i),
  rank: (lane) => lane.rank.number,
};
const kLetters = {f: "forward", b: "backward", i: "input gradient", w: "weight gradient"};
const kFactors = {ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9};

// Returns the test (lane, i) => boolean that one word of the search stands for.
function testOf(word) {
  const range = word.match(/^([a-z]+)[=:](\d+)(?:-(\d+))?$/);  // stage=1, mb:2-5
  if (range && kNumberFields[range[1]]) {
    const field = kNumberFields[range[1]];
    const least = Number(range[2]), most = Number(range[3] || range[2]);
    return (lane, i) => field(lane, i) >= least && field(lane, i) <= most;
  }
  const laneName = word.match(/^lane[=:](.+)$/);  // lane=compute
  if (laneName) return (lane) => lane.name.toLowerCase() === laneName[1];
  const duration = word.match(/^([<>])([\d.]+)(ns|us|µs|ms|s)$/);  // >5ms
  if (duration) {
    const limit = Number(duration[2]) * kFactors[duration[3]];
    return duration[1] === ">" ? (lane, i) => lane.end[i] - lane.start[i] > limit
      : (lane, i) => lane.end[i] - lane.start[i] < limit;
  }
  const action = word.match(/^([fbiw])(\d+)$/);  // F3, as the orders' text forms write it
  if (action)
    return (lane, i) => lane.computes && lane.microbatch(i) === Number(action[2]) &&
      kKinds[lane.colour[i]].name === kLetters[action[1]];
  if (/^\d+$/.test(word)) return (lane, i) => lane.microbatch(i) === Number(word);
  return (lane, i) => kKinds[lane.colour[i]].name.includes(word) ||
    lane.names.kinds[lane.kind(i)].includes(word) ||
    (lane.nameOf !== null && lane.title(i).toLowerCase().includes(word)) ||
    lane.name.toLowerCase().includes(word);
}

// Sets `matches` of every lane. Returns how many events match, and the sum of their times (ns).
function search(lanes, text) {
  const tests = text.trim().toLowerCase().split(/\s+/).filter(Boolean).map(testOf);
  let count = 0, ns = 0;
  for (const lane of lanes) {
    if (tests.length === 0) { lane.matches = null; continue; }
    lane.matches = new Uint32Array(lane.count + 1);
    for (let i = 0; i < lane.count; ++i) {
      const match = tests.every((test) => test(lane, i));
      lane.matches[i + 1] = lane.matches[i] + (match ? 1 : 0);
      if (!match) continue;
      ++count;
      ns += lane.end[i] - lane.start[i];
    }
  }
  return {searching: tests.length > 0, count, ns};
}

// Returns the match after the place {lane, event} (step 1) or before it (step -1), or null if
// nothing matches. Lanes are read like lines of a page; after the last comes the first again.
function nextMatch(lanes, from, step) {
  const isMatch = (lane, i) => lane.matches[i + 1] > lane.matches[i];
  const first = from ? lanes.indexOf(from.lane) : step > 0 ? 0 : lanes.length - 1;
  for (let k = 0; k <= lanes.length; ++k) {
    // The multiples of lanes.length keep the index from being negative.
    const lane = lanes[(first + step * k + lanes.length * (k + 1)) % lanes.length];
    if (!lane.matches || lane.matches[lane.count] === 0) continue;
    let i = step > 0 ? 0 : lane.count - 1;
    if (k === 0 && from) i = from.event + step;
    for (; i >= 0 && i < lane.count; i += step) {
      if (isMatch(lane, i)) return {lane, event: i};
    }
  }
  return null;
}
