// Places what the server sends into the page that is there: `objq.place` a whole page, `objq.patch`
// what has changed. All texts come finished. Elements are written in place and only where they
// differ, so that selection, scroll, focus and what is unfolded survive.
//
// After a table's rows came, went or moved it is sent the event `objq:rows`, and a chart's element
// `objq:chart` with the chart as its detail, or null when there is none any more.
"use strict";

(() => {
  const root = document.querySelector("[data-objq-page]");
  if (!root) return;
  const base = root.dataset.objqBase;
  const announcing = document.querySelector("[data-objq-announce]");

  function write(element, text) {
    // Templates may leave white space around a text.
    if (element.textContent.trim() !== text.trim()) element.textContent = text;
  }

  function setAttribute(element, name, value) {
    if (!value) element.removeAttribute(name);
    else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }

  // --- cells and texts ---------------------------------------------------------------------------

  function make(name, ...children) {
    const element = document.createElement(name);
    element.append(...children);
    return element;
  }

  // The element of this kind that the cell holds already, or a new one in place of what it holds.
  function holder(element, name, ...children) {
    const held = element.firstElementChild;
    if (held?.localName === name) return held;
    const made = make(name, ...children);
    element.replaceChildren(made);
    return made;
  }

  function writeCell(element, cell) {
    if (element.localName === "a") {
      setAttribute(element, "href", cell.href && base + cell.href);
      write(element, cell.text);
    } else if (cell.detail) {
      const details = holder(element, "details", make("summary"), make("pre"));
      write(details.querySelector("summary"), cell.text);
      details.querySelector("pre").tabIndex = 0; // what is long is scrolled by keys
      write(details.querySelector("pre"), cell.detail);
    } else if (cell.href) {
      const link = holder(element, "a");
      setAttribute(link, "href", base + cell.href);
      write(link, cell.text);
    } else if (element.firstElementChild) {
      element.textContent = cell.text;
    } else {
      write(element, cell.text);
    }
    setAttribute(element, "title", cell.title);
    setAttribute(element, "data-mark", cell.mark);
  }

  function placeTexts(texts) {
    for (const element of root.querySelectorAll("[data-objq-text]")) {
      if (element.closest("[data-objq-health]")) continue;
      const cell = texts.get(element.dataset.objqText);
      if (cell === undefined) continue;
      writeCell(element, cell ?? { text: "" });
      element.hidden = !cell?.text;
    }
  }

  function placeHealth(health) {
    const box = root.querySelector("[data-objq-health]");
    if (!box) return;
    for (const element of box.querySelectorAll("[data-objq-text]")) {
      const text = health[element.dataset.objqText] ?? "";
      write(element, text);
      element.hidden = !text;
    }
    // The sentence has an age in it: read out every second it would be unbearable.
    if (announcing && box.dataset.level !== health.level) {
      announcing.textContent = `${health.sentence} ${health.advice}`;
    }
    box.dataset.level = health.level;
  }

  function placeKnown(known) {
    for (const element of root.querySelectorAll("[data-objq-known]")) element.hidden = !known;
  }

  function placeNote(note) {
    for (const element of root.querySelectorAll("[data-objq-note]")) {
      write(element, note);
      element.hidden = !note;
    }
  }

  // --- tables ------------------------------------------------------------------------------------

  function makeBox(table, key) {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.name = "key";
    box.value = key;
    box.setAttribute("form", "objq-act");
    box.setAttribute("aria-label", [table.dataset.objqSelectable, key].filter(Boolean).join(" "));
    const cell = make("td", box);
    cell.className = "objq-select";
    return cell;
  }

  function makeRow(table, row) {
    const element = document.createElement("tr");
    element.dataset.key = row.key;
    if (table.dataset.objqSelectable !== undefined) element.append(makeBox(table, row.key));
    row.cells.forEach((_, index) => {
      const cell = document.createElement(index ? "td" : "th");
      if (!index) cell.scope = "row";
      element.append(cell);
    });
    return element;
  }

  function writeRow(table, element, row) {
    const first = table.dataset.objqSelectable === undefined ? 0 : 1;
    row.cells.forEach((cell, index) => writeCell(element.cells[first + index], cell));
    setAttribute(element, "data-mark", row.mark);
  }

  function orderRows(table, order, rows) {
    const body = table.tBodies[0];
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    const old = new Map([...body.rows].map((element) => [element.dataset.key, element]));
    const wanted = new Set(order);
    // First what goes, so that what stays need not be moved.
    for (const [key, element] of old) if (!wanted.has(key)) element.remove();
    let at = body.rows[0] ?? null;
    for (const key of order) {
      const element = old.get(key) ?? (rows.has(key) ? makeRow(table, rows.get(key)) : null);
      if (element === null) continue;
      if (element === at) at = at.nextElementSibling;
      else body.insertBefore(element, at);
    }
    if (!focused || focused === document.activeElement) return;
    const next = focused.isConnected ? focused : table.closest("[tabindex]");
    next?.focus({ preventScroll: true });
  }

  function placeTable(name, order, rows) {
    for (const table of root.querySelectorAll(`table[data-objq-table="${CSS.escape(name)}"]`)) {
      if (order) orderRows(table, order, rows);
      for (const element of table.tBodies[0].rows) {
        const row = rows.get(element.dataset.key);
        if (row) writeRow(table, element, row);
      }
      if (order) table.dispatchEvent(new CustomEvent("objq:rows", { bubbles: true }));
    }
    if (!order) return;
    for (const none of root.querySelectorAll(`[data-objq-none="${CSS.escape(name)}"]`)) {
      none.hidden = order.length > 0;
    }
  }

  // --- charts ------------------------------------------------------------------------------------

  function placeCharts(charts) {
    for (const element of root.querySelectorAll("[data-objq-chart]")) {
      const chart = charts.get(element.dataset.objqChart);
      if (chart === undefined) continue;
      element.dispatchEvent(new CustomEvent("objq:chart", { detail: chart, bubbles: true }));
    }
  }

  // --- pages -------------------------------------------------------------------------------------

  const named = (parts) => new Map(Object.entries(parts));

  function patch(delta) {
    if (delta.health) placeHealth(delta.health);
    if (delta.known !== undefined) placeKnown(delta.known);
    if (delta.note !== undefined) placeNote(delta.note);
    if (delta.texts) placeTexts(named(delta.texts));
    for (const [name, table] of Object.entries(delta.tables ?? {})) {
      placeTable(name, table ? table.order : [], named(table?.rows ?? {}));
    }
    if (delta.charts) placeCharts(named(delta.charts));
  }

  function place(page) {
    const tables = {};
    // What the page has a place for and the server does not send any more is empty.
    for (const { dataset } of root.querySelectorAll("table[data-objq-table]")) {
      tables[dataset.objqTable] = null;
    }
    for (const [name, rows] of Object.entries(page.tables)) {
      tables[name] = {
        order: rows.map((row) => row.key),
        rows: Object.fromEntries(rows.map((row) => [row.key, row])),
      };
    }
    const texts = {};
    for (const { dataset } of root.querySelectorAll("[data-objq-text]")) {
      texts[dataset.objqText] = null;
    }
    const charts = {};
    for (const { dataset } of root.querySelectorAll("[data-objq-chart]")) {
      charts[dataset.objqChart] = null;
    }
    patch({
      ...page,
      tables,
      texts: { ...texts, ...page.texts },
      charts: { ...charts, ...page.charts },
    });
  }

  globalThis.objq = { root, place, patch };
})();
