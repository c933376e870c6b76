// Keeps a page of the dashboard current. The server sends finished text; this only places it, into
// the elements that are there, so that selection, scroll and focus survive.
"use strict";

(() => {
  const EVERY_MS = 2000;

  const live = document.querySelector("[data-objq-live]");
  if (!live) return;
  const lost = document.querySelector(".objq-lost");

  function writeText(element, text) {
    if (element.textContent !== text) element.textContent = text;
    element.hidden = !text;
  }

  function writeHealth(health) {
    const box = live.querySelector("[data-objq-health]");
    box.dataset.level = health.level;
    for (const element of box.querySelectorAll("[data-objq-text]")) {
      writeText(element, health[element.dataset.objqText]);
    }
  }

  function writeCell(element, cell) {
    if (element.textContent !== cell.text) element.textContent = cell.text;
    for (const [name, value] of [["title", cell.title], ["data-mark", cell.mark]]) {
      if (!value) element.removeAttribute(name);
      else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
    }
  }

  function makeRow(row) {
    const element = document.createElement("tr");
    element.dataset.key = row.key;
    row.cells.forEach((_, index) => {
      const cell = document.createElement(index ? "td" : "th");
      if (!index) cell.scope = "row";
      element.append(cell);
    });
    return element;
  }

  function writeTable(table, rows) {
    const body = table.tBodies[0];
    const old = new Map([...body.rows].map((element) => [element.dataset.key, element]));
    rows.forEach((row, index) => {
      const element = old.get(row.key) ?? makeRow(row);
      old.delete(row.key);
      row.cells.forEach((cell, at) => writeCell(element.cells[at], cell));
      if (body.rows[index] !== element) body.insertBefore(element, body.rows[index] ?? null);
    });
    for (const element of old.values()) element.remove();
    const none = live.querySelector(`[data-objq-none="${table.dataset.objqTable}"]`);
    if (none) none.hidden = rows.length > 0;
  }

  function show(overview) {
    writeHealth(overview.health);
    live.querySelector("[data-objq-known]").hidden = !overview.known;
    for (const table of live.querySelectorAll("[data-objq-table]")) {
      writeTable(table, overview[table.dataset.objqTable]);
    }
  }

  // The text for the banner, or an empty one when all is well. Signed out, the admin answers with a
  // redirect to its login page.
  async function refresh() {
    let response;
    try {
      response = await fetch(live.dataset.objqLive, { cache: "no-store", redirect: "manual" });
    } catch {
      return lost.dataset.lost;
    }
    if (response.type === "opaqueredirect" || response.status === 403) return lost.dataset.denied;
    if (!response.ok) return lost.dataset.lost;
    show(await response.json());
    return "";
  }

  async function poll() {
    if (!document.hidden) writeText(lost, await refresh());
    setTimeout(poll, EVERY_MS);
  }

  document.addEventListener("visibilitychange", async () => {
    if (!document.hidden) writeText(lost, await refresh());
  });
  setTimeout(poll, EVERY_MS);
})();
