// Keeps the status page current: asks for the same numbers as JSON and writes them into the page.
"use strict";

const EVERY_MS = 1000;
const section = document.getElementById("status");
const table = document.getElementById("jobs");
const number = new Intl.NumberFormat(document.documentElement.lang);
const clock = new Intl.DateTimeFormat([], { timeStyle: "medium", hourCycle: "h23" });

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function writeCounts(counts) {
  for (const cell of section.querySelectorAll("[data-count]")) {
    const value = counts[cell.dataset.count];
    write(cell, value === null ? "–" : number.format(value));
  }
  const progress = document.getElementById("progress");
  progress.max = Math.max(counts.pages, 1);
  progress.value = counts.indexed;
  const share = counts.pages ? Math.floor((100 * counts.indexed) / counts.pages) : 0;
  write(document.getElementById("share"), counts.pages ? `${share} %` : "");
  const why = document.getElementById("why");
  write(why, counts.why);
  why.hidden = !counts.why;
}

function makeRow(job) {
  const row = document.createElement("tr");
  row.dataset.id = job.id;
  for (const tag of ["a", "span", "time", null, null]) {
    const cell = row.insertCell();
    if (tag) cell.append(document.createElement(tag));
    else cell.className = "number";
  }
  return row;
}

function writeRow(row, job) {
  const [page, state, pushed, waited, took] = row.cells;
  page.firstElementChild.href = job.url;
  write(page.firstElementChild, job.title);
  state.firstElementChild.className = `badge is-${job.state}`;
  write(state.firstElementChild, job.label);
  const time = pushed.firstElementChild;
  time.dateTime = job.pushed;
  time.title = job.pushed;
  write(time, clock.format(new Date(job.pushed)));
  write(waited, job.waited);
  write(took, job.took);
}

// Rows stay the same elements as long as their job is listed, so that focus and selection survive.
function writeJobs(jobs) {
  const body = table.tBodies[0];
  const rows = new Map([...body.rows].map((row) => [row.dataset.id, row]));
  jobs.forEach((job, index) => {
    const row = rows.get(job.id) ?? makeRow(job);
    rows.delete(job.id);
    writeRow(row, job);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  for (const row of rows.values()) row.remove();
  table.hidden = !jobs.length;
  document.getElementById("no-jobs").hidden = Boolean(jobs.length);
}

function show(snapshot) {
  writeCounts(snapshot.counts);
  writeJobs(snapshot.jobs);
}

async function poll() {
  const live = document.getElementById("live");
  try {
    if (!document.hidden) {
      const response = await fetch(section.dataset.url, { cache: "no-store" });
      if (!response.ok) throw new Error(`the site answered ${response.status}`);
      show(await response.json());
    }
    write(live, "Updated as you watch");
  } catch (error) {
    write(live, `Not updated: ${error.message}. Trying again…`);
  }
  setTimeout(poll, EVERY_MS);
}

show(JSON.parse(document.getElementById("snapshot").textContent));
setTimeout(poll, EVERY_MS);
