// A live page whose engine may take 32 MB rather than 2 GB: a job that needs more is refused, and
// the page goes on.
"use strict";

const kMostPages = [0x80, 0x84, 0x00];  // 512 of 64 KiB, in as many bytes as the linker's 2 GB

const through = async (bytes, stream) =>
  new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

// Returns the program with another most of its memory, the second number of section 5.
function bounded(program) {
  let at = 8;
  const number = () => {
    let value = 0, shift = 0, byte;
    do {
      byte = program[at++];
      value |= (byte & 127) << shift;
      shift += 7;
    } while (byte & 128);
    return value;
  };
  for (;;) {
    const section = program[at++], bytes = number(), next = at + bytes;
    if (section !== 5) {
      at = next;
      continue;
    }
    number(), number(), number();  // how many, flags, least
    if (next - at !== kMostPages.length) throw new Error("another form of memory section");
    program.set(kMostPages, at);
    return program;
  }
}

const letters = (bytes) => {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000)
    text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return text;
};

async function settled() {
  const end = performance.now() + 60000;
  while (!(report.live.answered >= 1) || report.live.busy) {
    if (performance.now() > end) throw new Error("no answer");
    await pause(10);
  }
}

async function jitter(value) {
  const input = document.getElementById("control-variability.jitter");
  input.value = value;
  input.dispatchEvent(new Event("change"));
  await settled();
  const why = document.getElementById("control-variability.jitter-why").textContent;
  return {failure: document.getElementById("live-failure").textContent + why,
    changed: report.live.changes["variability.jitter"] || null};
}

see(async () => {
  await settled();
  const {engine} = report.live, held = document.getElementById("engine-program");
  const whole = held.textContent;
  const packed = Uint8Array.from(atob(whole), (letter) => letter.charCodeAt(0));
  const program = bounded(await through(packed, new DecompressionStream("gzip")));
  held.textContent = btoa(letters(await through(program, new CompressionStream("gzip"))));
  engine.stop();
  seen.small = await jitter("0.05");
  seen.kept = report.live.engine.broken;
  held.textContent = whole;
  engine.stop();
  seen.whole = await jitter("0.05");
});
