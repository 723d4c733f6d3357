// The engine of a live page, in a worker whose program the page holds. Requests are answered one
// after the other.
"use strict";

const heldText = (id) => (byId(id) || {textContent: ""}).textContent;

// Returns why the engine cannot run in this browser; "" if it can.
function engineMissing() {
  if (typeof WebAssembly !== "object") return "this browser has no WebAssembly";
  if (typeof DecompressionStream !== "function") return "this browser cannot unpack it";
  return typeof Worker === "function" ? "" : "this browser has no workers";
}

class Engine {
  // onFound(plan): a search found a better plan.
  constructor(onFound = () => {}) {
    this.onFound = onFound;
    this.id = 0;
    this.start();
  }

  start() {
    const source = [heldText("engine-glue"), heldText("engine-worker")];
    const place = URL.createObjectURL(new Blob(source, {type: "text/javascript"}));
    this.worker = new Worker(place);
    URL.revokeObjectURL(place);
    this.asked = new Map();  // by id: {resolve, reject}
    this.broken = false;
    this.ready = new Promise((resolve, reject) => { this.started = {resolve, reject}; });
    this.ready.catch(() => {});  // ask() reports the failure
    this.worker.onmessage = ({data}) => this.receive(data);
    this.worker.onerror = (event) => this.fail(event.message || "the engine could not start");
    const letters = atob(heldText("engine-program"));
    const program = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; ++i) program[i] = letters.charCodeAt(i);
    this.worker.postMessage({program}, [program.buffer]);
  }

  receive({ready, found, id, answer, broken}) {
    if (ready) this.started.resolve();
    else if (found) this.onFound(found);
    else if (broken) this.fail(broken);
    else if (this.asked.has(id)) {
      const {resolve, reject} = this.asked.get(id);
      this.asked.delete(id);
      if (answer.error) reject(Object.assign(new Error(answer.error), {keys: answer.keys}));
      else resolve(answer);
    }
  }

  // Ends the worker and rejects all requests. The next request starts a new worker.
  fail(why) {
    this.worker.terminate();
    this.broken = true;
    const error = new Error(`The engine stopped: ${why}`);
    this.started.reject(error);
    for (const {reject} of this.asked.values()) reject(error);
    this.asked.clear();
  }

  // Ends the current request, and those that wait.
  stop() { this.fail("it was asked to"); }

  // Returns the answer's promise. It is rejected with the engine's error, which has `keys`.
  async ask(request) {
    if (this.broken) this.start();
    const {worker} = this;
    await this.ready;
    if (worker !== this.worker || this.broken) throw new Error("The engine was stopped");
    return new Promise((resolve, reject) => {
      this.asked.set(++this.id, {resolve, reject});
      worker.postMessage({id: this.id, request});
    });
  }
}
