// One of the processes of store-contention.test.ts, which all write to one database until a time. Each operation has a
// token. It prints `try KIND TOKEN` before and `KIND TOKEN ANSWER` after the operation. ANSWER is `nothing` or `unclear`
// for a StoreError. `follow` prints the token of each event instead, until its input ends.

import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { JobmanError, StoreError } from '../../src/app/errors.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { Job } from '../../src/core/model/job.ts';
import { factsNeeded } from '../../src/core/policy/guards.ts';
import type { DatabaseAddress } from '../../src/store/open-database.ts';
import { openStore } from '../../src/store/store.ts';
import {
  endedAttempt,
  localSpec,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
  withAttempts,
} from '../support/builders.ts';

const [role, address = '', name = '', seed = '', until = '', ...shared] = process.argv.slice(2);
const store = openStore(JSON.parse(address) as DatabaseAddress);
const print = (line: string) => writeSync(1, `${line}\n`);
const random = createRandom(Number(seed));
const one = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
let count = 0;

async function attempt(kind: string, run: (token: string) => Promise<string>, prefix = ''): Promise<string> {
  count += 1;
  const token = `${prefix}${name}-${count}`;
  print(`try ${kind} ${token}`);
  let answer: string;
  try {
    answer = await run(token);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    answer = error.message.includes('Nothing was changed') ? 'nothing' : 'unclear';
    await sleep(200);
  }
  print(`${kind} ${token} ${answer}`);
  return answer;
}

/** Adds 1 to the job, with an event, and ends its outcomes. */
function commit(epoch: number | null): Promise<string> {
  return attempt(
    'commit',
    async (token) => {
      // Two of the jobs are in demand, so that processes often meet.
      const stored = await store.load(one(random() < 0.5 ? shared.slice(0, 2) : shared));
      if (stored === undefined) return 'missing';
      const { job, revision } = stored;
      const stage = job.desiredAt % 3;
      const attempts =
        stage === 1 ? [runningAttempt] : [{ ...runningAttempt, ...endedAttempt('preempted', { message: 'gone' }) }];
      const changed = stage === 0 ? job : withAttempts(job, [readyAllocation], attempts);
      const event: Event = { kind: 'unreachable', at: noon, allocation: 1, message: token };
      const foldedOutcomes = (await store.outcomes(job.id)).map(({ id }) => id);
      const next = { ...changed, desiredAt: job.desiredAt + 1 };
      return store.commit({ job: next, revision, events: [event], foldedOutcomes, wakeAt: null, epoch });
    },
    epoch === null ? '' : `E${epoch}:`,
  );
}

async function insert(): Promise<void> {
  await attempt('insert', async (token) => {
    const { job } = await store.insert({ owner: token, spec: localSpec(), manifest: '', at: noon });
    return job.id;
  });
}

async function changeLab(): Promise<void> {
  if (random() < 0.5)
    await attempt('booking', async () => {
      for (;;) {
        const [row] = await store.lab.bookings();
        const { status, ...seen } = row ?? { status: 'free', user: '', note: '', scriptNote: '' };
        const scriptNote = String(Number(seen.scriptNote) + 1);
        const command = {
          kind: 'book',
          user: 'xibo',
          scriptNote,
          seen: { ...seen, status: { kind: status } },
        } as const;
        try {
          await store.lab.changeBooking('v2-8', command, noon);
          return 'done';
        } catch (error) {
          // Another process has booked it since it was read.
          if (!(error instanceof JobmanError)) throw error;
        }
      }
    });
  else
    await attempt('user', async (token) => {
      await store.lab.changeUser('xibo', { kind: 'set_config_alias', alias: token, key: 'config.contended' });
      return 'done';
    });
}

async function addOutcome(): Promise<void> {
  await attempt('outcome', async () => {
    const subject = { kind: 'request', allocation: 1 + Math.floor(random() * 3) } as const;
    await store.addOutcome(one(shared), { subject, at: noon, result: { kind: 'done' } });
    return 'done';
  });
}

/** Creates a job on the one TPU, and ends the job that uses it. */
async function useTpu(): Promise<void> {
  const spec = tpuSpec({}, { ownership: 'persistent', name: 'lab-v4' });
  await attempt('claim', async (token) => {
    const given = { owner: token, spec, manifest: '', at: noon };
    const stored = await store.insertGuarded(given, { grants: [], request: '', confirmed: [] });
    return stored === 'unconfirmed' ? stored : stored.job.id;
  });
  await attempt('release', async () => {
    const { onTpu } = await store.guardFacts(factsNeeded({ owner: '', spec, job: null }, [], noon), noon);
    const stored = onTpu[0] && (await store.load(onTpu[0].id));
    if (stored === undefined || stored.job.finish !== undefined) return 'free';
    const job: Job = {
      ...stored.job,
      startRequest: null,
      finish: { at: noon, verdict: 'succeeded', reason: 'succeeded' },
    };
    const event: Event = { kind: 'finished', at: noon, verdict: 'succeeded', reason: 'succeeded' };
    const { revision } = stored;
    return store.commit({ job, revision, events: [event], foldedOutcomes: [], wakeAt: null, epoch: null });
  });
}

/** Holds the lease for a short time, and then sometimes commits with an epoch that is over. */
async function control(): Promise<void> {
  const ttl = 300;
  const taken = await store.takeLease(name, '1', Date.now(), ttl, false).catch(() => undefined);
  if (taken?.taken !== true) return sleep(20);
  print(`lease ${name} ${taken.lease.epoch}`);
  for (let commits = 0; commits < 3; commits += 1) await commit(taken.lease.epoch);
  if (random() < 0.5) return;
  await sleep(ttl * 2);
  await commit(taken.lease.epoch);
}

async function follow(): Promise<void> {
  let after = 0;
  let isEnding = false;
  process.stdin.on('end', () => (isEnding = true)).resume();
  for (;;) {
    const isLast = isEnding;
    const events = await store.lab.eventsSince('xibo', after, ['unreachable']).catch(() => []);
    for (const { number, event } of events) {
      print(`event ${number} ${event.message}`);
      after = number;
    }
    if (isLast) return;
    await sleep(10);
  }
}

function createRandom(from: number): () => number {
  let state = from;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

if (role === 'follow') await follow();
while (role !== 'follow' && Date.now() < Number(until)) {
  const dice = random();
  if (role === 'control') await control();
  else if (dice < 0.4) await commit(null);
  else if (dice < 0.5) await insert();
  else if (dice < 0.6) await useTpu();
  else if (dice < 0.9) await changeLab();
  else await addOutcome();
}
await store.close();
