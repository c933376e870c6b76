// A client for objq's wire, version 1, written from docs/wire.md alone.
//
// The headers of the handshake need the package `ws`: the WebSocket that Node has built in cannot
// send any.

import { createRequire } from "node:module";
import { randomBytes } from "node:crypto";

const require = createRequire(process.env.OBJQ_NODE_MODULES ?? import.meta.url);
const { WebSocket } = require("ws");

const PING_INTERVAL_MS = 5_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
const CALL_TIMEOUT_MS = 10_000;
const CHANGES_NOTHING = new Set(["hello", "heartbeat", "get", "stats"]);
const HAS_NO_DEADLINE = new Set(["complete", "fail", "release"]);
const ELSEWHERE = new Set(["not_broker", "unavailable", "unknown"]);

// Milliseconds that never go back. (On Linux they stand still while the machine sleeps: a worker
// that may be suspended needs CLOCK_BOOTTIME.)
const now = () => performance.now();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A job id: a UUID of version 7, which begins with the time.
function jobId() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = 0x70 | (bytes[6] & 0x0f);
  bytes[8] = 0x80 | (bytes[8] & 0x3f);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// Not applied, and never will be.
export class Refused extends Error {
  constructor(problem) {
    super(`${problem.code}: ${problem.message}`);
    this.problem = problem;
  }
}

// May or may not have been applied; may be repeated with the same ids.
export class Unknown extends Error {}

// The socket ended before the reply came.
class Ended extends Error {}

// Pauses between attempts: doubled, bounded, and spread at random.
class Backoff {
  #nextMs = FIRST_PAUSE_MS;

  pause(atLeastMs = 0) {
    const pauseMs = this.#nextMs * (0.5 + Math.random() / 2);
    this.#nextMs = Math.min(2 * this.#nextMs, LONGEST_PAUSE_MS);
    return sleep(Math.max(pauseMs, atLeastMs));
  }
}

// One socket: requests out, in as few frames as possible, and replies back to whoever waits.
class Socket {
  #waiting = new Map();
  #outbox = [];
  #number = 0;
  #heard = true;

  static open(url, token) {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(url, {
        headers: { Authorization: `Bearer ${token}` },
        perMessageDeflate: false,
        handshakeTimeout: 5_000,
        maxPayload: 256 * 1024 * 1024,
      });
      socket.once("open", () => resolve(new Socket(socket)));
      socket.once("error", (error) => reject(new Ended(error.message)));
    });
  }

  constructor(socket) {
    this.socket = socket;
    socket.on("message", (frame) => this.#received(JSON.parse(frame.toString())));
    socket.on("pong", () => (this.#heard = true));
    socket.on("error", () => {});
    socket.on("close", (code) => this.#ended(new Ended(`the socket was closed: ${code}`)));
    this.pings = setInterval(() => this.#ping(), PING_INTERVAL_MS);
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  // Return the message that answers the request; everything asked in one turn shares a frame.
  ask(request) {
    if (!this.isOpen) return Promise.reject(new Ended("the socket is closed"));
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#outbox.push({ id, ...request });
      if (this.#outbox.length === 1) queueMicrotask(() => this.#send());
    });
  }

  close() {
    this.socket.close();
  }

  #send() {
    const messages = this.#outbox.splice(0);
    const frame = messages.length === 1 ? messages[0] : messages;
    if (this.isOpen) this.socket.send(JSON.stringify(frame));
  }

  #received(frame) {
    for (const reply of Array.isArray(frame) ? frame : [frame]) {
      if (reply.id === null) {
        this.#ended(new Ended(`${reply.error.code}: ${reply.error.message}`));
      } else {
        this.#waiting.get(reply.id)?.resolve(reply);
        this.#waiting.delete(reply.id);
      }
    }
  }

  #ping() {
    if (!this.#heard) return this.socket.terminate();
    this.#heard = false;
    this.socket.ping();
  }

  #ended(error) {
    clearInterval(this.pings);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

// `brokers`: http:// addresses of some brokers, of which any tells who leads.
export class Client {
  #socket = null;
  #opening = null;
  #prefix = null;
  #number = 0;
  #seen = { seq: 0, at: -Infinity };

  constructor({ brokers, token, name }) {
    const id = `node-${process.pid}-${randomBytes(6).toString("hex")}`;
    Object.assign(this, { brokers, token, name, id, welcome: null, opened: 0 });
  }

  get timeoutMs() {
    return this.welcome.settings.heartbeat_timeout_s * 1000;
  }

  // A request id (or claim id): "<seq>-<random>:<number>", from a seq that was seen a while ago.
  async requestId() {
    const socket = await this.#reached();
    if (this.#prefix === null || this.#prefix.until < now()) {
      const usableMs = (this.welcome.settings.dedupe_window_s * 1000) / 2;
      if (now() - this.#seen.at > usableMs) await this.#hello(socket);
      const text = `${this.#seen.seq}-${randomBytes(12).toString("base64url")}`;
      this.#prefix = { text, until: this.#seen.at + usableMs };
      this.#number = 0;
    }
    return `${this.#prefix.text}:${++this.#number}`;
  }

  // Send until there is a conclusive answer (the table "What may be concluded").
  async call(request, timeoutMs = CALL_TIMEOUT_MS) {
    const deadline = HAS_NO_DEADLINE.has(request.op) ? Infinity : now() + timeoutMs;
    const backoff = new Backoff();
    let inDoubt = false;
    while (now() < deadline) {
      let reply;
      try {
        const socket = await this.#connected();
        const copy = inDoubt && "request" in request ? { ...request, repeat: true } : request;
        const sentAt = now();
        reply = await withTimeout(socket.ask(copy), deadline - sentAt);
        this.#saw(reply.ok?.position?.[1], sentAt);
      } catch (error) {
        if (!(error instanceof Ended)) throw error;
        inDoubt = true; // it may have been sent before the socket ended
        await backoff.pause();
        continue;
      }
      if (reply.ok) return inDoubt && request.request ? settled(reply.ok) : reply.ok;
      const { code, final, retry_after: retryAfterS = 0 } = reply.error;
      if (code === "overloaded" || ELSEWHERE.has(code)) {
        if (code !== "overloaded" && code !== "not_broker") inDoubt = true;
        if (ELSEWHERE.has(code)) this.#leave();
        await backoff.pause(retryAfterS * 1000);
        continue;
      }
      if (inDoubt && !final && !CHANGES_NOTHING.has(request.op)) {
        throw new Unknown(`${request.op}: ${code}`);
      }
      throw new Refused(reply.error);
    }
    throw new Unknown(`${request.op} was not answered in time`);
  }

  async push(jobs) {
    const withIds = jobs.map((job) => ({ id: jobId(), ...job }));
    const answer = await this.call({ op: "push", request: await this.requestId(), jobs: withIds });
    return answer.items;
  }

  // Take jobs; each is given the moment from which the start rule counts.
  async claim({ queues = ["default"], max = 1, waitS = 0 } = {}) {
    const claim = await this.requestId();
    const sentAt = now();
    const request = { op: "claim", claim, queues, max, wait: waitS };
    const answer = await this.call(request, CALL_TIMEOUT_MS + waitS * 1000);
    return (answer.jobs ?? []).map((job) => ({ ...job, confirmedAt: sentAt, started: false }));
  }

  // One heartbeat for all jobs that are held; whoever is lost or to be cancelled is marked.
  async beat(jobs) {
    const sentAt = now();
    const { lost = [], cancel = [] } = await this.call({
      op: "heartbeat",
      tokens: jobs.map((job) => job.token),
      started: jobs.filter((job) => job.started).map((job) => job.token),
    });
    for (const job of jobs) {
      job.lost = lost.includes(job.token);
      job.cancel = cancel.includes(job.token);
      if (!job.lost) job.confirmedAt = sentAt;
    }
    return jobs;
  }

  // The start rule: only within T/2 of the sending of what confirmed the token.
  async start(job) {
    if (now() - job.confirmedAt > this.timeoutMs / 2) await this.beat([job]);
    if (job.lost) throw new Refused({ code: "claim_lost", message: job.token });
    job.started = true;
  }

  close() {
    this.#socket?.close();
  }

  #saw(seq, at) {
    if (seq === undefined || at <= this.#seen.at) return;
    this.#seen = { seq: Math.max(seq, this.#seen.seq), at };
  }

  #leave() {
    this.#socket?.close();
    this.#socket = null;
  }

  async #reached(timeoutMs = CALL_TIMEOUT_MS) {
    const deadline = now() + timeoutMs;
    const backoff = new Backoff();
    for (;;) {
      try {
        return await this.#connected();
      } catch (error) {
        if (!(error instanceof Ended) || now() > deadline) throw error;
        await backoff.pause();
      }
    }
  }

  #connected() {
    if (this.#socket?.isOpen) return this.#socket;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return this.#opening;
  }

  async #open() {
    const socket = await Socket.open(await this.#findLeader(), this.token);
    await this.#hello(socket);
    this.#socket = socket;
    this.opened += 1;
    return socket;
  }

  async #hello(socket) {
    const sentAt = now();
    const reply = await socket.ask({ op: "hello", client: this.id, worker: this.name });
    if (!reply.ok) throw new Ended(reply.error.message);
    this.welcome = reply.ok;
    this.#saw(reply.ok.seq, sentAt);
  }

  async #findLeader() {
    for (const address of this.brokers) {
      try {
        const answer = await fetch(`${address}/readyz`, { signal: AbortSignal.timeout(2_000) });
        const { leader, store_ok: storeOk } = await answer.json();
        if (leader && storeOk) return leader;
      } catch {
        // that one is gone; another may know
      }
    }
    throw new Ended("no broker tells who leads");
  }
}

// A copy of a request in doubt was accepted: what it says of an item counts if it is final.
function settled(answer) {
  const unknown = { code: "unknown", message: "a repeat was refused; the first may be applied" };
  const items = answer.items?.map((item) =>
    item.error && !item.error.final ? { ...item, error: unknown } : item,
  );
  return items ? { ...answer, items } : answer;
}

function withTimeout(promise, ms) {
  if (ms === Infinity) return promise;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Unknown("no answer in time")), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
