// A page of very many events: what frames at all zooms draw, and how long they take here.
"use strict";

see(async () => {
  const timeline = report.timeline;
  seen.events = timeline.model.events;
  seen.frames = [];
  const {end} = timeline.model;
  // Of the first rank's compute lane at the lowest zoom: columns by kind, each as high as its share of what is busy.
  const lane = timeline.model.lanes.find((each) => each.computes);
  seen.heights = {};
  visitPieces(lane, 0.2 * end, 0.8 * end, 1000, new Set(), ({begin, end: right, levels}) => {
    for (const [kind, from, to] of levels)
      seen.heights[kKinds[kind].name] =
        (seen.heights[kKinds[kind].name] || 0) + (right - begin) * (to - from) / kLevels;
  });
  for (const share of [1, 0.5, 0.1, 0.01, 1e-3, 1e-4]) {
    for (const at of [0, 0.3, 0.7]) {
      timeline.zoomTo(at * end, (at + share * (1 - at)) * end);
      const begin = performance.now();
      timeline.drawNow();
      seen.frames.push({share, ms: performance.now() - begin, plot: timeline.picture.plot,
        ...timeline.picture.counts});
    }
  }
});
