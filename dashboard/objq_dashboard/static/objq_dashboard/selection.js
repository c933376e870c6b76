// Ticking rows and pressing a button, made easier. Without this script the same form works: ticked
// rows are sent with it, whichever they are, and the site says when there are none.
"use strict";

(() => {
  const form = document.querySelector("[data-objq-actions]");
  if (!form) return;
  const buttons = [...form.querySelectorAll("button[name=action]")];
  const table = document.querySelector("table[data-objq-selectable]");
  const output = form.querySelector("[data-objq-selected]");
  const every = form.querySelector("[data-objq-all]");
  const head = document.querySelector("[data-objq-select-all]");
  const kept = new Set();
  let last = null;

  const boxes = () =>
    table ? [...table.tBodies[0].querySelectorAll("td.objq-select input, input[form=objq-act]")] : [];

  function prepare(box) {
    box.name = "key";
    box.setAttribute("form", form.id);
    if (!box.checked && kept.has(box.value)) box.checked = true;
  }

  function count() {
    const all = boxes();
    const ticked = all.filter((box) => box.checked);
    const whole = every !== null && every.checked;
    for (const box of all) {
      box.closest("tr").toggleAttribute("data-selected", box.checked);
      box.disabled = whole;
    }
    if (head) {
      head.checked = all.length > 0 && ticked.length === all.length;
      head.indeterminate = ticked.length > 0 && !head.checked;
      head.disabled = whole || all.length === 0;
    }
    const text = whole ? form.dataset.all : `${form.dataset.selected} ${ticked.length}`;
    if (output.textContent !== text) output.textContent = text;
    for (const button of buttons) button.disabled = !whole && ticked.length === 0;
  }

  function tick(box, on) {
    box.checked = on;
    if (on) kept.add(box.value);
    else kept.delete(box.value);
  }

  function clicked(event) {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.type !== "checkbox") return;
    tick(box, box.checked);
    const all = boxes();
    if (event.shiftKey && last !== null && all.includes(last)) {
      const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
      for (const other of all.slice(from, to + 1)) tick(other, box.checked);
    }
    last = box;
    count();
  }

  if (table && output) {
    for (const box of boxes()) {
      prepare(box);
      if (box.checked) kept.add(box.value); // as the browser has remembered it
    }
    table.tBodies[0].addEventListener("click", clicked);
    head?.addEventListener("change", () => {
      for (const box of boxes()) tick(box, head.checked);
      count();
    });
    every?.addEventListener("change", count);
    // Rows come and go while one looks on; a row that comes back is ticked as it was.
    new MutationObserver(() => {
      boxes().forEach(prepare);
      count();
    }).observe(table.tBodies[0], { childList: true });
    count();
  }

  // The page of one job: what is offered follows the state that the page shows.
  const now = form.querySelector("[data-objq-text=state-code]");
  const seen = form.querySelector("input[name=seen]");
  function fit() {
    const state = now.textContent.trim();
    if (state) seen.value = state;
    for (const button of buttons) {
      button.hidden = !button.dataset.objqFits.split(" ").includes(seen.value);
    }
  }
  if (now && seen) {
    new MutationObserver(fit).observe(now, { childList: true, characterData: true, subtree: true });
    fit();
  }

  // An action is sent once, however often the button is pressed; coming back, it can be again.
  let sent = false;
  form.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
  });
  window.addEventListener("pageshow", () => {
    sent = false;
    if (table && output) count();
  });
})();
