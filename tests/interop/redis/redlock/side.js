// SPDX-License-Identifier: Apache-2.0
// node-redlock in contention with Rota, on one Redis or on several.
//
//   node side.js lock SERVERS NAME FOLDER THINK_US     $ROTA_GUARD_SIDE: the guard's program
//   node side.js told SERVERS NAME                     what to do comes line by line: lock, unlock
//   node side.js peer SERVERS                          what to measure does: mutex K MS, K loops with a lock of
//                                                      their own each, for so long: pairs per second
"use strict";
const { spawn } = require("child_process");
const readline = require("readline");
const Redis = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const TTL_MS = 2000;
const PAUSE_MS = 20; // between two tries

const [how, servers, name, folder, think] = process.argv.slice(2);
const clients = servers.split(",").map((server) => {
  const [host, port] = server.split(":");
  return new Redis({ host, port: Number(port) });
});
const settings = (retryCount) => ({ retryCount, retryDelay: PAUSE_MS, retryJitter: PAUSE_MS / 2 });

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// One line to the guard, one line back: true, go on.
function openGuard() {
  const child = spawn(process.env.ROTA_GUARD_SIDE, ["node", folder], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async (request) => {
    child.stdin.write(request + "\n");
    const { value, done } = await lines.next();
    if (done) throw new Error("the guard ended");
    return value === "1";
  };
}

async function contend() {
  const redlock = new Redlock(clients, settings(50));
  redlock.on("error", () => {}); // each try that was refused
  const guard = openGuard();
  let on = await guard("ask");
  for (let round = 1; on; round++) {
    let lock;
    try {
      lock = await redlock.acquire([name], TTL_MS);
    } catch (e) {
      if (!(e instanceof ExecutionError)) throw e;
      on = await guard("ask"); // tries are used up
      continue;
    }
    on = await guard("inside " + round); // it has no fence
    try {
      await lock.release();
    } catch (e) {
      // It ended by its time: while inside, that would be an overlap.
      if (!(e instanceof ExecutionError)) throw e;
      await guard(`say S node ${process.pid} ${e.message}`);
    }
    await sleep((Math.random() * Number(think)) / 1000);
  }
}

async function told() {
  const redlock = new Redlock(clients, settings(-1));
  redlock.on("error", () => {});
  let lock;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === "lock") {
      lock = await redlock.acquire([name], 600000);
      console.log("locked " + lock.value);
    } else {
      await lock.release();
      console.log("unlocked");
    }
  }
}

async function crowd(redlock, k, ms) {
  let pairs = 0;
  const begin = performance.now();
  const loop = async (i) => {
    while (performance.now() - begin < ms) {
      const lock = await redlock.acquire([`redlock-${i}`], 60000);
      await lock.release();
      pairs++;
    }
  };
  await Promise.all(Array.from({ length: k }, (_, i) => loop(i)));
  return (pairs * 1000) / (performance.now() - begin);
}

async function peer() {
  const redlock = new Redlock(clients, settings(10));
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [, k, ms] = line.split(" ").map(Number);
    console.log((await crowd(redlock, k, ms)).toFixed(3));
  }
}

({ told, peer, lock: contend })[how]().then(
  () => process.exit(0),
  (e) => {
    console.error(e);
    process.exit(1);
  }
);
