// Asking the server: one request of a kind at a time, the latest wish wins.

export class Refused extends Error {}

export async function ask(job, body, signal) {
  const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  return answer(await fetch(`/api/${job}`, sent));
}

export async function problems() {
  return answer(await fetch("/api/problems"));
}

export async function file(body) {
  const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const got = await fetch("/api/file", sent);
  if (!got.ok) throw new Refused(await why(got));
  return got.blob();
}

async function answer(got) {
  if (!got.ok) throw new Refused(await why(got));
  return got.json();
}

async function why(got) {
  try {
    return (await got.json()).error;
  } catch {
    return `the server answered ${got.status}`;
  }
}

// A kind of request. While one is under way a newer one waits, and only the newest; one that takes
// long is abandoned for it.
export class Line {
  constructor(job, { done, failed, busy = () => {}, long = 1500 }) {
    Object.assign(this, { job, done, failed, busy, long, running: null, next: null });
  }

  ask(body) {
    if (this.running) {
      this.next = body;
      if (performance.now() - this.running.begun > this.long) this.running.control.abort();
      return;
    }
    this.run(body);
  }

  drop() {
    this.next = null;
    if (this.running) this.running.control.abort();
  }

  async run(body) {
    const control = new AbortController();
    this.running = { control, begun: performance.now() };
    this.busy(true);
    let outcome = null;
    try {
      const found = await ask(this.job, body, control.signal);
      if (!control.signal.aborted) outcome = () => this.done(found, body);
    } catch (error) {
      if (!control.signal.aborted) outcome = () => this.failed(spoken(error), body);
    }
    this.running = null;
    if (outcome) outcome();
    if (this.next) {
      const next = this.next;
      this.next = null;
      this.run(next);
    } else this.busy(false);
  }
}

export function spoken(error) {
  return error instanceof Refused ? error.message : "connection lost; is tessella explore still running?";
}
