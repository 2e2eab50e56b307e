// Subscribers: many readers of the changes of a server. `node bench/subscribers.ts JSON` prints a line when all are
// connected, and then, as JSON, how long the events took to arrive. A time counts from the one of the event, which is
// before its commit.

import type { Change } from '../src/app/client.ts';
import { parseEvents } from '../src/api/events.ts';
import { quantile } from './start-times.ts';

export interface SubscribersOptions {
  readonly url: string;
  readonly token: string;
  readonly count: number;
  /** Each reader ends after as many events of commands by that user. */
  readonly events: number;
  readonly by: string;
}

export interface Arrivals {
  readonly received: number;
  readonly medianMs: number;
  readonly p99Ms: number;
}

const { url, token, count, events, by } = JSON.parse(process.argv[2] ?? '') as SubscribersOptions;
const times: number[] = [];
let connected = 0;

async function subscribe(): Promise<void> {
  const answer = await fetch(`${url}/v1/changes`, { headers: { authorization: `Bearer ${token}` } });
  if (answer.status !== 200 || answer.body === null) throw new Error(`status ${answer.status}`);
  let own = 0;
  let isConnected = false;
  for await (const { data } of parseEvents(answer.body)) {
    const change = JSON.parse(data) as Change;
    // The first change says that the reader is connected.
    if (!isConnected && ++connected === count) console.log('connected');
    isConnected = true;
    if (change.kind !== 'event' || change.event.kind !== 'command_received' || change.event.by !== by) continue;
    times.push(Date.now() - change.event.at);
    own += 1;
    if (own === events) return;
  }
}

await Promise.all(Array.from({ length: count }, subscribe));
const arrivals: Arrivals = { received: times.length, medianMs: quantile(times, 0.5), p99Ms: quantile(times, 0.99) };
console.log(JSON.stringify(arrivals));
process.exit(0);
