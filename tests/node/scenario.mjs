// Push, claim, heartbeat and complete; then hold a job while the leader dies, and report it to the
// next. One line of JSON is printed for each step; a line on stdin says that the leader is dead.

import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client, Refused } from "./client.mjs";

const [token, ...brokers] = process.argv.slice(2);
const client = new Client({ brokers, token, name: "node" });
const input = createInterface({ input: process.stdin });
const tell = (step, facts) => console.log(JSON.stringify({ step, ...facts }));

const pushed = await client.push([
  { task: "node.first", args: [1, "zwei", { drei: 3.0 }], kwargs: { deep: [null, true] } },
  { task: "node.second", max_attempts: 1 },
  { task: "node.third" },
]);
tell("pushed", { items: pushed, role: client.welcome.role });

const held = await client.claim({ max: 3, waitS: 2 });
const [first, second, third] = held;
tell("claimed", { jobs: held });

for (const job of held) await client.start(job);
tell("beaten", { jobs: await client.beat(held) });

// Side by side: both reports share a frame.
const [completed, failed] = await Promise.all([
  client.call({ op: "complete", items: [{ token: first.token, result: { done: "grün" } }] }),
  client.call({
    op: "fail",
    items: [{ token: second.token, error: { type: "builtins.ValueError", message: "no" } }],
  }),
]);
const again = await client.call({ op: "complete", items: [{ token: first.token, result: null }] });
const lateItem = { token: first.token, error: { type: "builtins.ValueError" } };
const late = await client.call({ op: "fail", items: [lateItem] });
tell("reported", {
  completed: completed.items,
  failed: failed.items,
  again: again.items,
  late: late.items,
});

const refusal = await client
  .call({ op: "cancel", request: await client.requestId(), ids: [third.id], expected: "running" })
  .catch((error) => (error instanceof Refused ? error.problem : Promise.reject(error)));
tell("refused", { code: refusal.code });

tell("holding", { opened: client.opened });
await once(input, "line");
const reported = await client.call({ op: "complete", items: [{ token: third.token, result: 3 }] });
const { jobs } = await client.call({ op: "get", ids: [first.id, second.id, third.id] });
tell("ended", { items: reported.items, jobs, opened: client.opened, epoch: client.welcome.epoch });
client.close();
input.close();
