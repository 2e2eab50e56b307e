// HTTP load: requests at a fixed rate, whatever the server does. `node bench/http-load.ts JSON` prints a Load.
// A time counts from the instant at which the request was due, so a server that stalls delays all that were due meanwhile.

import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export interface LoadOptions {
  readonly url: string;
  readonly token: string;
  /** Requests per second. */
  readonly rate: number;
  readonly seconds: number;
  readonly connections: number;
}

export interface Load {
  readonly answered: number;
  /** Answers with another status than 200, and broken connections. */
  readonly failed: number;
  readonly perSecond: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly bytes: number;
}

const tickMs = 2;
const warmUpMs = 2_000;

async function load({ url, token, rate, seconds, connections }: LoadOptions): Promise<Load> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const headers = { authorization: `Bearer ${token}` };
  const times: number[] = [];
  let [failed, bytes, open] = [0, 0, 0];
  const send = (due: number, isCounted: boolean): void => {
    open += 1;
    const end = (isOk: boolean): void => {
      open -= 1;
      if (!isCounted) return;
      if (isOk) times.push(performance.now() - due);
      else failed += 1;
    };
    request(url, { agent, headers }, (answer) => {
      answer.on('data', (chunk: Buffer) => {
        if (isCounted) bytes += chunk.length;
      });
      answer.on('end', () => end(answer.statusCode === 200));
    })
      .on('error', () => end(false))
      .end();
  };
  const began = performance.now();
  const total = Math.round(((warmUpMs + seconds * 1_000) / 1_000) * rate);
  for (let sent = 0; sent < total; await sleep(tickMs)) {
    for (; sent < total && began + (sent / rate) * 1_000 <= performance.now(); sent += 1) {
      const due = began + (sent / rate) * 1_000;
      send(due, due - began >= warmUpMs);
    }
  }
  while (open > 0) await sleep(tickMs);
  const tookMs = performance.now() - began - warmUpMs;
  agent.destroy();
  times.sort((one, other) => one - other);
  const at = (share: number): number => times[Math.floor(times.length * share)] ?? Infinity;
  return {
    answered: times.length,
    failed,
    perSecond: (times.length / tookMs) * 1_000,
    medianMs: at(0.5),
    p99Ms: at(0.99),
    bytes,
  };
}

if (import.meta.main) console.log(JSON.stringify(await load(JSON.parse(process.argv[2] ?? '') as LoadOptions)));
