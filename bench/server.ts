// Server: the real `jobman server`, as a group uses it. Its memory, a list under load, changes to many subscribers, many
// followed logs, and a thousand running jobs on simulated TPU hosts. With JOBMAN_BENCH_SERVER its database is on that
// PostgreSQL server, else a file.

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../src/app/client.ts';
import { createServerClient } from '../src/http-client/client.ts';
import { withSimulatedHosts } from './at-rest.ts';
import type { Load, LoadOptions } from './http-load.ts';
import { openInProcessCli } from './in-process-cli.ts';
import {
  databaseOf,
  jobman,
  node,
  pause,
  report,
  root,
  waitForCount,
  withCleanUp,
  withHome,
  type Home,
} from './home.ts';
import { residentMbOf, usageOf } from './machine.ts';
import type { Result } from './result.ts';
import type { Arrivals, SubscribersOptions } from './subscribers.ts';
import { openStore, withStore, type JobmanStore } from '../src/store/store.ts';
import { local, spec } from '../test/core/world.ts';

interface Server {
  readonly home: Home;
  readonly url: string;
  readonly token: string;
  readonly pid: number;
  readonly client: Client;
}

const settlingMs = 20_000;

/** With one slot, taken by the first job, all other jobs wait. */
const waiting = { local: { slots: 1 } };

/** Separate measurements, because each takes minutes. */
export const serverMeasurements: Readonly<Record<string, () => Promise<readonly Result[]>>> = {
  'server-rest': () => withServer({}, measureIdle),
  'server-list': () => withServer(waiting, measureList),
  'server-changes': () => withServer(waiting, measureChanges),
  'server-logs': () => withServer({ local: { slots: followed } }, measureLogs),
  'server-jobs': () => withServer({}, (server) => withSimulatedHosts(server.home, () => measureJobs(server))),
};

function create(client: Client, run: string): Promise<string> {
  const base = spec({ capacity: local, steps: [], preset: 'pass' });
  return client
    .create({ spec: { ...base, command: { ...base.command, script: run } }, manifest: 'command:\n' })
    .then((answer) => {
      if (answer.kind === 'created') return answer.id;
      throw new Error(`a question: ${JSON.stringify(answer)}`);
    });
}

/** Without the limit of requests per second, because one user sends all of them. */
function withServer(
  settings: object,
  measure: (server: Server) => Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  return withHome((home) => serve(home, measure), { server: { rate_limit: 0 }, ...settings });
}

/** Starts a server at a free port with the token of an admin, and stops it afterwards. */
async function serve<T>(home: Home, measure: (server: Server) => Promise<T>): Promise<T> {
  const token = (await home.run(['token', 'create'])).trim();
  const child = spawn(jobman, ['server', '--listen', '127.0.0.1:0'], {
    env: home.env as NodeJS.ProcessEnv,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return withCleanUp(
    () => void child.kill(),
    async () => {
      const url = await firstMatch(child, /http:\/\/\S+:\d+/);
      const client = createServerClient({ server: url, token, env: {} });
      try {
        return await measure({ home, url, token, pid: child.pid ?? 0, client });
      } finally {
        await client.close();
        child.kill();
        await once(child, 'exit');
      }
    },
  );
}

async function firstMatch(child: ChildProcess, pattern: RegExp): Promise<string> {
  if (child.stdout === null) throw new Error('the output is not read');
  for await (const line of createInterface({ input: child.stdout })) {
    const [found] = pattern.exec(line) ?? [];
    if (found !== undefined) {
      child.stdout.resume();
      return found;
    }
  }
  throw new Error('the process ended before it listened');
}

// ------------------------------------------------------------------------------------------------ memory at rest

const maxIdleMb = 90;

async function measureIdle(server: Server): Promise<readonly Result[]> {
  await server.client.list({});
  await pause('the server comes to rest', settlingMs);
  const bare = spawn(node, ['-e', 'require("node:http").createServer().listen(0, "127.0.0.1")'], { stdio: 'ignore' });
  await sleep(2_000);
  const bareMb = residentMbOf(bare.pid ?? 0);
  bare.kill();
  const mb = residentMbOf(server.pid);
  return [
    {
      name: 'server, resident memory at rest',
      measured: `${mb.toFixed(0)} MB`,
      budget: `${maxIdleMb} MB`,
      comparison: `a Node that only listens: ${bareMb.toFixed(0)} MB; measured elsewhere: SkyPilot 952 MB, dstack 195 MB`,
      isWithinBudget: mb <= maxIdleMb,
    },
  ];
}

// ------------------------------------------------------------------------------------------------ lists

const listRate = 1_000;
const listRows = 50;
const maxListMs = 50;

/** A bare Node answers the same bytes at the same rate: the generator shares the two cores with what is measured. */
async function measureList({ url: address, token, pid, client }: Server): Promise<readonly Result[]> {
  await create(client, 'exec sleep 1000000');
  for (let index = 1; index < listRows; index += 1) await create(client, 'true');
  const url = `${address}/v1/jobs`;
  const text = await (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).text();
  const count = (JSON.parse(text) as { readonly rows: readonly unknown[] }).rows.length;
  if (count !== listRows) throw new Error(`the list has ${count} rows, not ${listRows}`);
  const options = { token, rate: listRate, seconds: 15, connections: 50 };
  const before = usageOf(pid).cpuMs;
  const loaded = await runLoad({ ...options, url });
  const cpuMs = (usageOf(pid).cpuMs - before) / (loaded.answered + loaded.failed);
  const bare = await withBareServer(text, (bareUrl) => runLoad({ ...options, url: bareUrl }));
  return [
    {
      name: `server, ${listRate.toLocaleString('en')} requests per second of a list of ${listRows} jobs, 99th percentile`,
      measured: `${loaded.p99Ms.toFixed(1)} ms`,
      budget: `${maxListMs} ms`,
      comparison:
        `${loaded.perSecond.toFixed(0)} answers per second, ${loaded.failed} failed, median ${loaded.medianMs.toFixed(1)} ms, ` +
        `${cpuMs.toFixed(2)} ms of a core each; a bare Node with the same bytes (${(text.length / 1_000).toFixed(0)} kB): ` +
        `median ${bare.medianMs.toFixed(1)} ms, 99th percentile ${bare.p99Ms.toFixed(1)} ms`,
      isWithinBudget: loaded.p99Ms <= maxListMs && loaded.failed === 0 && loaded.perSecond >= listRate * 0.99,
    },
  ];
}

async function runLoad(options: LoadOptions): Promise<Load> {
  const child = spawn(process.execPath, [join(root, 'bench/http-load.ts'), JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return withCleanUp(
    () => void child.kill(),
    async () => JSON.parse(await firstMatch(child, /^\{.*\}$/)) as Load,
  );
}

async function withBareServer<T>(text: string, measure: (url: string) => Promise<T>): Promise<T> {
  const program = `const text = ${JSON.stringify(text)};
    require('node:http').createServer((_, answer) => answer.setHeader('content-type', 'application/json').end(text))
      .listen(0, '127.0.0.1', function () { console.log('http://127.0.0.1:' + this.address().port); });`;
  const child = spawn(node, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  return withCleanUp(
    () => void child.kill(),
    async () => {
      try {
        return await measure(await firstMatch(child, /http:\S+/));
      } finally {
        child.kill();
      }
    },
  );
}

// ------------------------------------------------------------------------------------------------ changes

const subscribers = 200;
const eventRate = 100;
const eventCount = 1_000;
const changedJobs = 50;
const maxChangeMs = 1_000;

/** Another program writes the events, because a server that creates a hundred jobs per second does little else. */
async function measureChanges({ home, url, token, pid, client }: Server): Promise<readonly Result[]> {
  const jobs: string[] = [await create(client, 'exec sleep 1000000')];
  while (jobs.length < changedJobs) jobs.push(await create(client, 'true'));
  const options: SubscribersOptions = { url, token, count: subscribers, events: eventCount, by: 'bench' };
  const readers = spawn(process.execPath, [join(root, 'bench/subscribers.ts'), JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return withCleanUp(
    () => void readers.kill(),
    async () => {
      const lines = createInterface({ input: readers.stdout })[Symbol.asyncIterator]();
      await lines.next();
      report(`${subscribers} subscribers are connected`);
      const before = usageOf(pid).cpuMs;
      const began = Date.now();
      await withStore(openStore(databaseOf(home)), async (store) => {
        const writes: Promise<void>[] = [];
        for (let sent = 0; sent < eventCount; sent += 1) {
          await sleep(Math.max(0, began + (sent / eventRate) * 1_000 - Date.now()));
          writes.push(writeEvent(store, jobs[sent % jobs.length] ?? '', options.by));
        }
        await Promise.all(writes);
      });
      const tookMs = Date.now() - began;
      const { received, medianMs, p99Ms } = JSON.parse((await lines.next()).value as string) as Arrivals;
      const share = (usageOf(pid).cpuMs - before) / (Date.now() - began);
      return [
        {
          name: `server, ${subscribers} subscribers, ${eventRate} events per second, 99th percentile until one is received`,
          measured: `${p99Ms.toFixed(0)} ms`,
          budget: `${maxChangeMs} ms`,
          comparison:
            `median ${medianMs.toFixed(0)} ms, ${received} of ${eventCount * subscribers} received, ` +
            `${((eventCount / tookMs) * 1_000).toFixed(0)} events per second; the server took ` +
            `${(share * 100).toFixed(0)} % of a core, ${residentMbOf(pid).toFixed(0)} MB resident`,
          isWithinBudget: p99Ms <= maxChangeMs && received === eventCount * subscribers,
        },
      ];
    },
  );
}

/** Commits an event of the job. The controller may change the job meanwhile. */
async function writeEvent(store: JobmanStore, id: string, by: string): Promise<void> {
  for (;;) {
    const stored = await store.load(id);
    if (stored === undefined) throw new Error(`there is no job ${id}`);
    const { job, revision, wakeAt } = stored;
    const event = { kind: 'command_received', at: Date.now(), verb: 'start', by, desired: job.desired } as const;
    const commit = { job, revision, wakeAt, events: [event], foldedOutcomes: [], epoch: null };
    if ((await store.commit(commit)) === 'committed') return;
  }
}

// ------------------------------------------------------------------------------------------------ followed logs

const followed = 64;
const logBytesPerSecond = 10_000_000;
const followMs = 30_000;
const maxBehindBytes = logBytesPerSecond * 2;

/** Each program writes a line every 10 ms, as much as its share. A follower reads as `logs -f` does. */
async function measureLogs({ home, pid, client }: Server): Promise<readonly Result[]> {
  const lineBytes = Math.round(logBytesPerSecond / followed / 100);
  const program = `setInterval(() => fs.writeSync(1, "x".repeat(${lineBytes - 1}) + "\\n"), 10)`;
  const jobs: string[] = [];
  for (let index = 0; index < followed; index += 1) jobs.push(await create(client, `exec ${node} -e '${program}'`));
  await waitForCount('jobs run', followed, async () => (await client.list({ phases: ['running'] })).rows.length);
  const received = new Map<string, number>();
  const follow = async (job: string): Promise<void> => {
    const [log] = await client.logs(job, {});
    if (log === undefined) throw new Error(`job ${job} has no log`);
    let from = 0;
    for await (const change of client.changesSince(null, [job])) {
      if (change.kind === 'event' || (change.kind === 'log' && change.log.size <= from)) continue;
      for (;;) {
        const { bytes } = await client.readLog(job, log.id, from, 1024 * 1024);
        if (bytes.length === 0) break;
        from += bytes.length;
        received.set(job, from);
      }
    }
  };
  const failures: unknown[] = [];
  for (const job of jobs) follow(job).catch((error: unknown) => failures.push(error));
  await pause('the followers read from the beginning', settlingMs);
  const before = { cpuMs: usageOf(pid).cpuMs, bytes: sum(received.values()) };
  await pause(`${followed} logs are followed`, followMs);
  const [written, now] = [writtenBytes(home, jobs), sum(received.values())];
  if (failures.length > 0) throw failures[0];
  const share = (usageOf(pid).cpuMs - before.cpuMs) / followMs;
  const behind = written - now;
  return [
    {
      name: `server, ${followed} followed logs, bytes that the followers are behind`,
      measured: `${(behind / 1e6).toFixed(1)} MB`,
      budget: `${maxBehindBytes / 1e6} MB`,
      comparison:
        `they received ${((now - before.bytes) / (followMs / 1_000) / 1e6).toFixed(1)} MB per second; the server took ` +
        `${(share * 100).toFixed(0)} % of a core, ${residentMbOf(pid).toFixed(0)} MB resident`,
      isWithinBudget: behind <= maxBehindBytes,
    },
  ];
}

/** Before the followers' bytes are counted, so that it is never too high. */
function writtenBytes(home: Home, jobs: readonly string[]): number {
  return sum(jobs.map((job) => statSync(join(home.path, 'runs', job, '0', 'attempt_1', 'log')).size));
}

function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const one of numbers) total += one;
  return total;
}

// ------------------------------------------------------------------------------------------------ many running jobs

const jobCount = 1_000;
const restMs = 60_000;
const maxCoreShare = 0.1;
const maxJobsMb = 150;
const maxGrowth = 0.1;
/** An hour for the result in RESULTS.md. */
const churnMinutes = Number(process.env['JOBMAN_BENCH_MINUTES'] ?? '5');

/** On simulated TPU hosts: at rest, and then with a job that is cancelled and another that is created each second. */
async function measureJobs({ home, pid, client }: Server): Promise<readonly Result[]> {
  const manifest = join(home.path, 'sleep.yaml');
  writeFileSync(
    manifest,
    'tpu:\n  project: emulator\n  accelerator: v4-8\n  zone: us-central2-b\n  pricing: spot\ncommand:\n  run: exec sleep 1000000\n',
  );
  const cli = openInProcessCli(home);
  const submit = (): Promise<unknown> => cli.run(['create', manifest, '--quiet']);
  const running = async (): Promise<readonly { readonly id: string }[]> =>
    (await client.list({ phases: ['running'] })).rows;
  for (let index = 0; index < jobCount; index += 1) await submit();
  await waitForCount('jobs run', jobCount, async () => (await running()).length, 1_800_000);
  await pause('the effects of the start end', settlingMs);
  const before = usageOf(pid).cpuMs;
  await pause('nothing happens', restMs);
  const share = (usageOf(pid).cpuMs - before) / restMs;
  const mb = residentMbOf(pid);
  report(`at rest: ${mb.toFixed(0)} MB, ${(share * 100).toFixed(1)} % of a core`);
  const jobs = `${jobCount.toLocaleString('en')} running jobs on simulated TPU hosts`;

  const samples: number[] = [];
  let replaced = 0;
  const began = Date.now();
  for (let minute = 1; minute <= churnMinutes; minute += 1) {
    for (const { id } of (await running()).slice(-60)) {
      await client.sendCommand(id, 'cancel', {});
      await submit();
      replaced += 1;
      await sleep(Math.max(0, began + replaced * 1_000 - Date.now()));
    }
    samples.push(residentMbOf(pid));
    report(`minute ${minute} of ${churnMinutes}: ${samples.at(-1)?.toFixed(0)} MB, ${replaced} jobs replaced`);
  }
  await cli.close();
  // The first sixth is the warm-up of the program's caches.
  const steady = samples.slice(Math.floor(samples.length / 6));
  const part = Math.max(1, Math.floor(steady.length / 3));
  const [first, last] = [mean(steady.slice(0, part)), mean(steady.slice(-part))];
  return [
    {
      name: `server at rest, ${jobs}`,
      measured: `${(share * 100).toFixed(2)} % of a core`,
      budget: `${maxCoreShare * 100} %`,
      comparison: `over ${restMs / 1_000} s`,
      isWithinBudget: share <= maxCoreShare,
    },
    {
      name: `server, resident memory with ${jobs}`,
      measured: `${mb.toFixed(0)} MB`,
      budget: `${maxJobsMb} MB`,
      comparison: '-',
      isWithinBudget: mb <= maxJobsMb,
    },
    {
      name: `server, growth of its memory while ${replaced} of ${jobs} are replaced`,
      measured: `${((last / first - 1) * 100).toFixed(1)} %`,
      budget: `${maxGrowth * 100} %`,
      comparison: `${first.toFixed(0)} MB to ${last.toFixed(0)} MB, means of the first and last third of ${churnMinutes} minutes`,
      isWithinBudget: last <= first * (1 + maxGrowth),
    },
  ];
}

function mean(numbers: readonly number[]): number {
  return sum(numbers) / numbers.length;
}
