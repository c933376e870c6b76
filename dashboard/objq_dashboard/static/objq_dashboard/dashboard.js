// Keeps a page of the dashboard current: over a websocket or, where there is none, by polling.
// `placing.js` puts what comes into the page, `reach.js` knows whether a socket is worth a try.
"use strict";

(() => {
  const OPEN_MS = 10_000; // how long a socket may take to bring the page
  const SILENT_MS = 25_000; // the server says something every ten seconds
  const HIDDEN_MS = 60_000; // a page that nobody sees costs nothing after that
  const POLL_MS = 5_000;
  const FIRST_RETRY_MS = 500;
  const LONGEST_RETRY_MS = 30_000;
  const LONGEST_UNSERVED_MS = 300_000; // where a socket has never brought anything

  if (!globalThis.objq) return;
  const { root, place, patch, reach } = globalThis.objq;
  const banner = document.querySelector("[data-objq-lost]");
  const button = document.querySelector("[data-objq-pause]");
  const pace = document.querySelector("[data-objq-pace]");

  let socket = null;
  let isLive = false; // the socket that is open has brought the page
  let wasEverLive = false;
  let isPaused = false;
  let wasReached = false; // some socket was opened
  let isOver = false; // signed out, or the page is gone: only loading it again helps
  let tries = 0; // sockets in a row that brought nothing
  let failedPolls = 0;
  let pollTimer = null;
  const timers = {};

  function setTimer(name, work, delayMs) {
    clearTimeout(timers[name]);
    timers[name] = work ? setTimeout(work, delayMs) : null;
  }

  // Half of it by chance, so that not all browsers come back at once.
  const jittered = (delayMs) => delayMs * (0.5 + Math.random() / 2);
  const growing = (firstMs, count, longestMs) => Math.min(firstMs * 2 ** count, longestMs);

  // --- what the page says of itself --------------------------------------------------------------

  function warn(name) {
    const text = name ? banner.dataset[name] : "";
    if (banner.textContent !== text) banner.textContent = text;
    banner.hidden = !text;
  }

  function say(name, time = "") {
    const text = pace.dataset[name].replace("%(time)s", time);
    if (pace.textContent !== text) pace.textContent = text;
    pace.dataset.state = name;
    const why = root.dataset.objqSocket ? "unreached" : "unrouted";
    if (name === "polls" && !wasReached) pace.title = pace.dataset[why];
    else pace.removeAttribute("title");
  }

  function clock() {
    const options = { timeStyle: "medium", hourCycle: "h23" };
    const { objqLanguage, objqZone } = root.dataset;
    try {
      return new Intl.DateTimeFormat(objqLanguage, { ...options, timeZone: objqZone }).format();
    } catch {
      return new Intl.DateTimeFormat([], options).format();
    }
  }

  function end(name) {
    isOver = true;
    stop();
    warn(name);
    say("still", clock());
    button.hidden = true;
  }

  // --- the socket --------------------------------------------------------------------------------

  function address() {
    const { objqPage, objqSocket, objqQuery, objqLanguage, objqZone } = root.dataset;
    const url = new URL(objqSocket, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const query = new URLSearchParams(objqQuery);
    query.set("page", objqPage);
    query.set("language", objqLanguage);
    query.set("zone", objqZone);
    url.search = query;
    return url;
  }

  function connect() {
    setTimer("retry", null);
    if (socket || isPaused || isOver) return;
    const waitMs = reach.hopelessMs();
    if (!root.dataset.objqSocket || waitMs > 0) {
      say("polls");
      poll();
      if (waitMs > 0) setTimer("retry", connect, waitMs);
      return;
    }
    if (document.hidden) return;
    let opening;
    try {
      // The pass goes as a protocol, since addresses end up in logs.
      opening = new WebSocket(address(), ["objq", root.dataset.objqPass]);
    } catch {
      lost(); // a policy of the site forbids it
      return;
    }
    socket = opening;
    socket.onopen = () => {
      wasReached = true;
      reach.forget();
    };
    socket.onmessage = (event) => {
      if (socket === opening) take(JSON.parse(event.data));
    };
    socket.onclose = () => {
      if (socket === opening) lost();
    };
    setTimer("silent", lost, OPEN_MS);
  }

  function take(message) {
    setTimer("silent", lost, SILENT_MS);
    if (message.closing === "denied") {
      end("denied");
      return;
    }
    if (message.closing) {
      isLive = false; // polling tells whether the page is there at all
      lost();
      return;
    }
    if (message.snapshot) place(message.snapshot);
    if (message.delta) patch(message.delta);
    // The next is sent when this is placed, so that a slow browser is not buried.
    socket.send('{"got":true}');
    if (message.trouble) {
      warn("trouble");
      return;
    }
    isLive = wasEverLive = true;
    tries = 0;
    stopPolling();
    warn("");
    say("live");
  }

  function drop() {
    setTimer("silent", null);
    const old = socket;
    socket = null;
    isLive = false;
    old?.close();
  }

  // Come back when it helps: not while nobody sees the page, and later each time.
  function lost() {
    const wasLive = isLive;
    drop();
    if (isPaused || isOver) return;
    if (wasLive) warn("lost");
    else poll();
    if (document.hidden) return;
    if (!wasReached) {
      setTimer("retry", connect, reach.failed());
      return;
    }
    const longestMs = wasEverLive ? LONGEST_RETRY_MS : LONGEST_UNSERVED_MS;
    setTimer("retry", connect, jittered(growing(FIRST_RETRY_MS, tries, longestMs)));
    tries += 1;
  }

  function stop() {
    setTimer("retry", null);
    setTimer("hidden", null);
    stopPolling();
    drop();
  }

  function hurry() {
    if (isPaused || isOver || isLive) return;
    tries = 0;
    if (pollTimer !== null) {
      stopPolling();
      poll();
    }
    connect();
  }

  // --- polling, as long as no socket brings the page -----------------------------------------------

  function stopPolling() {
    clearTimeout(pollTimer);
    pollTimer = null;
    failedPolls = 0;
  }

  function poll() {
    if (pollTimer === null) pollTimer = setTimeout(pollOnce, 0);
  }

  async function pollOnce() {
    const mine = pollTimer;
    const answer = document.hidden ? null : await ask();
    if (pollTimer !== mine) return; // a socket brought the page meanwhile, or it was paused
    if (answer) {
      if (answer.page) place(answer.page);
      if (answer.over) {
        end(answer.over);
        return;
      }
      failedPolls = answer.page ? 0 : failedPolls + 1;
      warn(answer.page ? "" : "lost");
      if (answer.page) say("polls");
    }
    pollTimer = setTimeout(pollOnce, jittered(growing(POLL_MS, failedPolls, LONGEST_RETRY_MS)));
  }

  // Signed out, the admin answers with a redirect to its login page.
  async function ask() {
    try {
      const response = await fetch(location.href, {
        headers: { Accept: "application/json" },
        cache: "no-store",
        redirect: "manual",
        signal: AbortSignal.timeout(OPEN_MS),
      });
      if (response.type === "opaqueredirect" || response.status === 403) return { over: "denied" };
      if (response.status === 404) return { over: "gone" };
      return response.ok ? { page: await response.json() } : {};
    } catch {
      return {};
    }
  }

  // --- what the viewer does ------------------------------------------------------------------------

  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = button.dataset[isPaused ? "resume" : "pause"];
    if (isPaused) {
      stop();
      warn("");
      say("paused", clock());
    } else {
      say("waits");
      hurry();
    }
  });

  document.addEventListener("visibilitychange", () => {
    setTimer("hidden", document.hidden ? drop : null, HIDDEN_MS);
    if (!document.hidden) hurry();
  });
  window.addEventListener("online", () => {
    reach.forget(); // it may have been the network
    hurry();
  });
  window.addEventListener("pagehide", stop); // a page with an open socket is not kept for "back"
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) hurry();
  });

  button.hidden = false;
  if (root.dataset.objqSocket && !reach.hopelessMs()) say("waits");
  connect();
})();
