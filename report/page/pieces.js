// What a frame draws of a lane: events wider than a pixel one by one, the others merged by pixel
// columns. The cost is by columns, not by events: each column is two searches.
"use strict";

const kShades = 4;  // of a merged column, by how much of it is busy

// The first place from `low` on whose value is `limit` or more; fast where it is near.
function firstFrom(values, limit, low, count) {
  let step = 1, high = low;
  while (high < count && values[high] < limit) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  return d3.bisectLeft(values, limit, low, Math.min(high, count));
}

// visit({begin, end, kind, shade, matched, event}) from left to right, begin and end in pixels of
// `width`; event is -1 for a merged piece. `hidden`: kinds that are not shown. At most two pieces a
// pixel column: at most one that is merged, and one that is wide and begins in it.
function visitPieces(lane, t0, t1, width, hidden, visit) {
  const scale = width / (t1 - t0);
  const kinds = [...lane.sums].filter(([kind]) => !hidden.has(kind));
  const matched = (first, end) => lane.matches === null || lane.matches[end] > lane.matches[first];
  let open = null;  // the merged piece that the next column may prolong
  const close = () => { if (open) visit(open); open = null; };
  let i = lane.after(t0);
  while (i < lane.count && lane.start[i] < t1) {
    const begin = Math.max(0, (lane.start[i] - t0) * scale);
    if ((lane.end[i] - lane.start[i]) * scale >= 1) {
      close();
      if (!hidden.has(lane.colour[i]))
        visit({begin, end: Math.min(width, (lane.end[i] - t0) * scale), kind: lane.colour[i],
          shade: kShades, matched: matched(i, i + 1), event: i});
      ++i;
      continue;
    }
    // All that start in this column; the last may be wide, and is then left for the next round.
    const pixel = Math.floor(begin);
    let next = firstFrom(lane.start, t0 + (pixel + 1) / scale, i + 1, lane.count);
    if (next > i + 1 && (lane.end[next - 1] - lane.start[next - 1]) * scale >= 1) --next;
    let busy = 0, most = 0, kind = -1;
    for (const [candidate, sums] of kinds) {
      const share = sums[next] - sums[i];
      busy += share;
      if (share > most) { most = share; kind = candidate; }
    }
    if (kind >= 0) {
      const shade = Math.max(1, Math.min(kShades, Math.ceil(busy * scale * kShades)));
      const match = matched(i, next);
      if (open && open.end === pixel && open.kind === kind && open.shade === shade &&
          open.matched === match) {
        open.end = pixel + 1;
      } else {
        close();
        open = {begin: pixel, end: pixel + 1, kind, shade, matched: match, event: -1};
      }
    }
    i = next;
  }
  close();
}
