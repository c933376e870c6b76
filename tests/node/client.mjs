// A client for objq's wire, version 1, written from docs/wire.md alone.
//
// The headers of the handshake need the package `ws`: the WebSocket that Node has built in cannot
// send any.

import { createRequire } from "node:module";
import { randomBytes, randomUUID } from "node:crypto";

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
    if (this.isOpen) this.socket.send(JSON.stringify(messages.length === 1 ? messages[0] : messages));
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
    Object.assign(this, { brokers, token, name, welcome: null, opened: 0 });
  }

  get timeoutMs() {
    return this.welcome.settings.heartbeat_timeout_s * 1000;
  }

  // A request id (or claim id): "<seq>-<random>:<number>", from a seq that was seen a while ago.
  async requestId() {
    const fresh = () => now() - this.#seen.at <= (this.welcome.settings.dedupe_window_s * 1000) / 2;
    await this.#connected();
    if (!fresh()) await this.#hello(await this.#connected());
    if (this.#prefix === null || this.#prefix.until < now()) {
      const windowMs = (this.welcome.settings.dedupe_window_s * 1000) / 2;
      const text = `${this.#seen.seq}-${randomBytes(12).toString("base64url")}`;
      this.#prefix = { text, until: this.#seen.at + windowMs };
      this.#number = 0;
    }
    return `${this.#prefix.text}:${++this.#number}`;
  }

  // Send until there is a conclusive answer (the table "What may be concluded").
  async call(request, timeoutMs = CALL_TIMEOUT_MS) {
    const deadline = HAS_NO_DEADLINE.has(request.op) ? Infinity : now() + timeoutMs;
    let inDoubt = false;
    for (let pauseMs = FIRST_PAUSE_MS; now() < deadline; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
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
        await sleep(pauseMs * (0.5 + Math.random() / 2));
        continue;
      }
      if (reply.ok) return reply.ok;
      const { code, final, retry_after: retryAfter = 0 } = reply.error;
      if (code === "overloaded" || ELSEWHERE.has(code)) {
        if (code !== "overloaded" && code !== "not_broker") inDoubt = true;
        if (ELSEWHERE.has(code)) this.#leave();
        await sleep(Math.max(retryAfter * 1000, pauseMs * (0.5 + Math.random() / 2)));
        continue;
      }
      if (inDoubt && !final && !CHANGES_NOTHING.has(request.op)) throw new Unknown(`${request.op}: ${code}`);
      throw new Refused(reply.error);
    }
    throw new Unknown(`${request.op} was not answered in time`);
  }

  async push(jobs) {
    const withIds = jobs.map((job) => ({ id: randomUUID(), ...job }));
    const answer = await this.call({ op: "push", request: await this.requestId(), jobs: withIds });
    return answer.items;
  }

  // Take jobs; each is given the moment from which the start rule counts.
  async claim({ queues = ["default"], max = 1, waitS = 0 } = {}) {
    const claim = await this.requestId();
    const sentAt = now();
    const answer = await this.call({ op: "claim", claim, queues, max, wait: waitS }, CALL_TIMEOUT_MS + waitS * 1000);
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
    if (seq !== undefined && at > this.#seen.at) this.#seen = { seq: Math.max(seq, this.#seen.seq), at };
  }

  #leave() {
    this.#socket?.close();
    this.#socket = null;
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
    const request = { op: "hello", client: `node-${process.pid}-${randomBytes(6).toString("hex")}`, worker: this.name };
    const reply = await socket.ask(request);
    if (!reply.ok) throw new Ended(reply.error.message);
    this.welcome = reply.ok;
    this.#saw(reply.ok.seq, sentAt);
  }

  async #findLeader() {
    for (const address of this.brokers) {
      try {
        const answer = await (await fetch(`${address}/readyz`, { signal: AbortSignal.timeout(2_000) })).json();
        if (answer.leader && answer.store_ok) return answer.leader;
      } catch {
        // that one is gone; another may know
      }
    }
    throw new Ended("no broker tells who leads");
  }
}

function withTimeout(promise, ms) {
  if (ms === Infinity) return promise;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Unknown("no answer in time")), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
