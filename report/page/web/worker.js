// Runs the engine in a worker: takes the compressed program once, then requests (wasm/engine.cpp),
// one after the other. tandem.js, which comes before it, defines makeTandem().
"use strict";

let engine = null;

async function unpacked(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function answerOf(request) {
  const text = engine.ccall("tandem_answer", "number", ["string"], [JSON.stringify(request)]);
  if (text === 0) throw new RangeError("out of memory");
  const answer = JSON.parse(engine.UTF8ToString(text));
  engine._free(text);
  return answer;
}

self.onmessage = async ({data: {program, id, request}}) => {
  try {
    if (program) {
      engine = await makeTandem({
        wasmBinary: await unpacked(program),
        found: (text) => self.postMessage({found: JSON.parse(text)}),
      });
      self.postMessage({ready: true});
    } else {
      self.postMessage({id, answer: answerOf(request)});
    }
  } catch (error) {
    // An aborted program cannot be asked again.
    self.postMessage({id, broken: String(error && error.message || error)});
  }
};
