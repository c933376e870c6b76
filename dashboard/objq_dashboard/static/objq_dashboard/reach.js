// Remembers for this tab that no socket can be opened here, so that not every page tries again:
// each try is a fault in some log.
"use strict";

(() => {
  const FIRST_MS = 60_000;
  const LONGEST_MS = 300_000;

  if (!globalThis.objq) return;
  const key = `objq ${globalThis.objq.root.dataset.objqSocket}`;

  function known() {
    try {
      const { notBefore, tries } = JSON.parse(sessionStorage.getItem(key));
      return { notBefore: Number(notBefore) || 0, tries: Number(tries) || 0 };
    } catch {
      return { notBefore: 0, tries: 0 };
    }
  }

  // Return how long a socket is not worth a try.
  function hopelessMs() {
    return Math.min(Math.max(known().notBefore - Date.now(), 0), LONGEST_MS);
  }

  // Remember it, and return how long to wait, also where nothing can be remembered.
  function failed() {
    const { tries } = known();
    const delayMs = Math.min(FIRST_MS * 2 ** tries, LONGEST_MS) * (0.5 + Math.random() / 2);
    try {
      sessionStorage.setItem(key, JSON.stringify({ notBefore: Date.now() + delayMs, tries: tries + 1 }));
    } catch {
      // where nothing may be stored, each page tries for itself
    }
    return delayMs;
  }

  function forget() {
    try {
      sessionStorage.removeItem(key);
    } catch {
      // nothing was stored
    }
  }

  globalThis.objq.reach = { hopelessMs, failed, forget };
})();
