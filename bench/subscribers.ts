// Subscribers: many readers of the changes of a server. `node bench/subscribers.ts JSON` prints a line when all are
// connected, and then, as JSON, the job and the time of each creation that each of them has received.

import { parseEvents } from '../src/http-client/events.ts';

export interface SubscribersOptions {
  readonly url: string;
  readonly token: string;
  readonly count: number;
  /** Each reader ends after as many creations. */
  readonly jobs: number;
}

const { url, token, count, jobs } = JSON.parse(process.argv[2] ?? '') as SubscribersOptions;
const received: (readonly [job: string, at: number])[] = [];
let connected = 0;

async function subscribe(): Promise<void> {
  const answer = await fetch(`${url}/v1/changes`, { headers: { authorization: `Bearer ${token}` } });
  if (answer.status !== 200 || answer.body === null) throw new Error(`status ${answer.status}`);
  let own = 0;
  for await (const { data } of parseEvents(answer.body)) {
    // The first change says that the reader is connected.
    if (own === 0 && data.includes('"jobs"') && ++connected === count) console.log('connected');
    const [, job = ''] = /"kind":"event","job":"(\d+)","seq":1,/.exec(data) ?? [];
    if (job === '') continue;
    received.push([job, Date.now()]);
    own += 1;
    if (own === jobs) return;
  }
}

await Promise.all(Array.from({ length: count }, subscribe));
console.log(JSON.stringify(received));
process.exit(0);
