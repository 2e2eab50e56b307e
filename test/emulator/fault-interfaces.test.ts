/**
 * The same verbs over HTTP, in the terminal and from a fault schedule have the same effect. Three emulators with one
 * seed run all calls at the same times, each through one interface, and are compared after each call.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { runAdminVerb, queryEmulator } from '../../src/emulator/admin.ts';
import { bucketsFolder } from '../../src/emulator/hosts/boot-script.ts';
import type { FaultCondition, ScheduledEvent, NodeRecord } from '../../src/emulator/world/records.ts';
import { openBuckets } from '../../src/emulator/world/buckets.ts';
import { verbs } from '../../src/emulator/world/verbs.ts';
import { createEmulatorService } from '../../src/wiring/emulator-service.ts';
import { jobman, createCliHarness } from '../cli/support/harness.ts';
import { type EmulatorFixture, minutes, startTestEmulator, zone } from './test-emulator.ts';
import { temporaryFolder } from '../support/folder.ts';

/** A verb as a user writes it. */
type VerbCall = readonly [verb: string, target?: string, options?: Readonly<Record<string, string | number | boolean>>];

/** Every verb and every option of each, at least once. The last three calls are refused. */
const calls: readonly VerbCall[] = [
  ['stockout', `${zone}/v4`, { for: '10m', times: 3, pricing: 'spot', project: 'p' }],
  ['capacity', `${zone}/v4`, { chips: 64, for: '1h', pricing: 'spot', project: 'p' }],
  ['quota', `${zone}/addresses`, { limit: 8, for: '1h', times: 2, pricing: 'ondemand', project: 'p' }],
  ['reserve', `${zone}/v4`, { chips: 64, name: 'ours', project: 'p', for: '2h' }],
  ['price', 'v4', { usd: 1.1, for: '90s', pricing: 'reserved', project: 'p' }],
  ['permission', 'tpu.reservations.list', { for: '5m', times: 1 }],
  ['hold', 'v5p', { for: '5m' }],
  ['fail', 'v4-32', { code: 8, message: 'IN_USE_ADDRESSES limit (8)', times: 2, for: '5m' }],
  ['slow', 'us-central1-a', { factor: 2.5, for: '1h', times: 4 }],
  ['slow', 'storage', { replies: '1500ms' }],
  ['drop', 'create', { for: '30m', times: 2 }],
  ['flaky', 'us-central1-a', { p: 0.25, for: '0.5h', times: 7 }],
  ['stockout', `${zone}/v4`, { clear: true }],
  ['hold', 'v5p', { clear: true }],
  ['hold', '*'],
  ['clear', 'hold'],
  ['permission', 'login', { for: '1m' }],
  ['permission', 'login', { clear: true }],
  ...['capacity', 'quota', 'reserve', 'price', 'fail', 'slow', 'drop', 'flaky'].map((verb): VerbCall => [
    verb,
    '*',
    { clear: true },
  ]),
  ['bucket', 'my-bucket', { location: 'EU' }],
  ['bucket', 'gs://my-bucket/'],
  ['kill-host', 'b/1', { for: '10m' }],
  ['hang-host', 'b', { worker: 2, for: '20m' }],
  ['fill-disk', 'b', { worker: 3, for: '1h' }],
  ['ssh-refuse', 'b', { worker: 0, for: 45 }],
  ['start-host', 'b/3'],
  ['kill-host', 'b', { worker: 3 }],
  ['start-host', 'b', { worker: 3 }],
  ['maintenance', 'b', { in: '1h' }],
  ['maintenance', 'c'],
  ['preempt', '7', { after: '15m' }],
  ['preempt', '000007'],
  ['bill'],
  ['clear', 'all'],
  ['preempt', 'missing'],
  ['kill-host', 'c'],
  ['quota', 'nowhere', { limit: 8 }],
];

/**
 * The time of the first call in seconds after the start; each further call comes a second later. All nodes are READY by
 * then.
 */
const firstAt = 600;

function callAt(index: number): VerbCall {
  const call = calls[index];
  assert.ok(call !== undefined);
  return call;
}

/** Runs the call of that index and returns the reply or the refusal. */
type Interface = (cloud: EmulatorFixture, index: number) => Promise<string>;

interface Step {
  readonly answer: string;
  readonly world: object;
}

test('the calls of this test cover every verb and every option', () => {
  const covered = new Set(
    calls.flatMap(([verb, , options]) => [verb, ...Object.keys(options ?? {}).map((name) => `${verb} ${name}`)]),
  );
  const all = Object.entries(verbs).flatMap(([verb, { options }]) => [
    verb,
    ...Object.keys(options).map((name) => `${verb} ${name}`),
  ]);
  assert.deepEqual(
    all.filter((each) => !covered.has(each)),
    [],
  );
});

test('a verb has the same effect through every interface', async (t) => {
  const overHttp: Interface = async (cloud, index) => {
    const [verb, target, options] = callAt(index);
    cloud.clock.advance(1_000);
    return runAdminVerb(cloud.emulator.url, verb, target, options).then(
      ({ message }) => message,
      (error: unknown) => (error as Error).message,
    );
  };
  const inTheTerminal: Interface = async (cloud, index) => {
    const [verb, target, options = {}] = callAt(index);
    // Write half of the options as two arguments and half with `=`. A flag that is set has no value.
    const flags = Object.entries(options).flatMap(([name, value], position) =>
      value === true
        ? [`--${name}`]
        : position % 2 === 0
          ? [`--${name}`, String(value)]
          : [`--${name}=${String(value)}`],
    );
    cloud.clock.advance(1_000);
    const emulator = (): Promise<ReturnType<typeof createEmulatorService>> =>
      Promise.resolve(createEmulatorService({ io: createCliHarness().services.io, home: join(cloud.stateDir, '..') }));
    const { out, err } = await jobman(['emulator', verb, ...(target === undefined ? [] : [target]), ...flags], {
      services: { emulator },
    });
    return (out === '' ? err.replace(/^jobman: /, '') : out).trim();
  };
  const lines: string[] = [];
  const bySchedule: Interface = (cloud) => {
    lines.length = 0;
    cloud.clock.advance(1_000);
    const line = lines.find((each) => each.startsWith('fault schedule: ')) ?? 'nothing';
    return Promise.resolve(line.replace(/^fault schedule: ([\w-]+ failed: )?/, ''));
  };

  const http = await runAll(t, overHttp);
  const terminal = await runAll(t, inTheTerminal);
  const scheduled = await runAll(t, bySchedule, { schedule: scheduleOf(t), log: (line) => lines.push(line) });
  for (const [index, [verb, target]] of calls.entries()) {
    const sentence = `${verb} ${target ?? ''} (${String(index)})`;
    assert.deepEqual(terminal[index], http[index], `${sentence} in the terminal and over HTTP`);
    assert.deepEqual(scheduled[index], http[index], `${sentence} by a schedule and over HTTP`);
  }
  // The agreement proves little if no call had an effect.
  const done = http.map(({ world }, index) => JSON.stringify(world) !== JSON.stringify(http[index - 1]?.world));
  const idle = calls
    .filter((_, index) => done[index] === false)
    .map(([verb, target]) => `${verb} ${target ?? ''}`.trim());
  assert.deepEqual(idle, ['bucket gs://my-bucket/', 'bill', 'preempt missing', 'kill-host c', 'quota nowhere']);
});

/** A fault schedule of all calls. It has the values as users write them, so `1.1` is a number and `10m` a string. */
function scheduleOf(t: TestContext): string {
  const folder = temporaryFolder(t);
  const lines = calls.map(([verb, target, options = {}], index) => {
    const parts = Object.entries(options).map(([name, value]) => `, ${name}: ${String(value)}`);
    const about =
      target === undefined
        ? ''
        : ` ${/^\d+$/.test(target) && !target.startsWith('0') ? target : JSON.stringify(target)}`;
    return `- { at: ${String(firstAt + index)}s, ${verb}:${about}${parts.join('')} }\n`;
  });
  const file = join(folder, 'faults.yaml');
  writeFileSync(file, lines.join(''));
  return file;
}

/**
 * Starts an emulator with three nodes, runs all calls through one interface, and returns the reply and the state after
 * each.
 */
async function runAll(
  t: TestContext,
  run: Interface,
  more: Parameters<typeof startTestEmulator>[1] = {},
): Promise<Step[]> {
  const home = mkdtempSync(join(tmpdir(), 'interfaces-test-'));
  const stateDir = join(home, 'emulator');
  mkdirSync(stateDir);
  const cloud = await startTestEmulator(t, { ...more, stateDir });
  t.after(() => rmSync(home, { recursive: true, force: true }));
  // The terminal finds the emulator by this file.
  const { url, sshPort } = cloud.emulator;
  writeFileSync(join(stateDir, 'endpoint.json'), JSON.stringify({ url, sshPort, pid: process.pid }));
  await cloud.createNode('a', { labels: { 'jobman-job': '000007' } });
  await cloud.createNode('b', { acceleratorType: 'v4-32' });
  await cloud.createNode('c');
  cloud.clock.advance(minutes(10) - 1_000);
  const steps: Step[] = [];
  for (const [index, [verb]] of calls.entries()) {
    const answer = await run(cloud, index);
    // The READY time of a node depends on the random duration of its creation.
    steps.push({ answer: verb === 'bill' ? answer.replaceAll(/[\d.]+/g, '#') : answer, world: await stateOf(cloud) });
  }
  return steps;
}

/** The state without its random parts: ids, keys, addresses, and the durations of the emulator's own actions. */
async function stateOf({ emulator, stateDir }: EmulatorFixture): Promise<object> {
  const state = (await queryEmulator(emulator.url, 'state')) as unknown as {
    readonly nodes: readonly NodeRecord[];
    readonly conditions: readonly FaultCondition[];
    readonly events: readonly ScheduledEvent[];
  };
  return {
    nodes: state.nodes.map(({ nodeId, state: is, health, maintenance, workers }) => ({
      nodeId,
      is,
      health,
      maintenance: maintenance?.status === 'PENDING' ? [maintenance.type, maintenance.from] : maintenance?.type,
      workers: workers.map(({ boot, power, hung, diskFull, sshRefused }) => ({
        boot,
        power,
        hung,
        diskFull,
        sshRefused,
      })),
    })),
    conditions: state.conditions.map(({ key: _key, ...condition }) => condition),
    events: state.events
      .filter(({ kind }) => ['node-preempted', 'host-recovered', 'node-maintenance'].includes(kind))
      .map(({ key: _key, at, ...event }) => ({ ...event, id: undefined, at })),
    bucket: openBuckets(bucketsFolder(stateDir)).location('my-bucket') ?? null,
  };
}
