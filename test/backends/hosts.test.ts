import assert from 'node:assert/strict';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { CapacityPort } from '../../src/app/ports.ts';
import { hostsOf, type NamedHost } from '../../src/app/hosts.ts';
import type { Allocation, Job } from '../../src/core/model/job.ts';
import { createHostsCapacity, parseSshAddress } from '../../src/backends/hosts/hosts.ts';
import { freshJob, spec, World } from '../core/world.ts';
import { followFile } from '../../src/backends/hosts/tail.ts';
import { openWorld } from '../support/world.ts';

/** No search without a file system event. */
const noRounds = () => () => undefined;

test('a program that prints as fast as it is read does not block other work', async (t) => {
  const { folder } = openWorld(t);
  const log = join(folder, 'log');
  writeFileSync(log, 'x');
  let chunks = 0;
  let chunksBeforeTurn: number | undefined;
  setImmediate(() => {
    chunksBeforeTurn = chunks;
  });
  await new Promise<void>((resolve) => {
    const callOff = followFile(
      { folder, file: 'log', hasEnded: () => false, from: 0, addPeriodicCheck: noRounds },
      {
        bytes() {
          chunks += 1;
          if (chunks < 1_000) appendFileSync(log, 'x');
          else {
            callOff();
            resolve();
          }
        },
        ended: () => assert.fail('it still runs'),
        dropped: (reason) => assert.fail(reason),
      },
    );
  });
  assert.ok(chunksBeforeTurn !== undefined && chunksBeforeTurn < 10, `${chunksBeforeTurn} chunks came first`);
});

test('a follower has the function that cancels before the first bytes come', async (t) => {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'log'), 'all of it');
  const heard: string[] = [];
  await new Promise<void>((resolve) => {
    followFile(
      { folder, file: 'log', hasEnded: () => true, from: 4, addPeriodicCheck: noRounds },
      {
        bytes: (chunk) => void heard.push(new TextDecoder().decode(chunk)),
        ended: () => {
          heard.push('ended');
          resolve();
        },
        dropped: (reason) => assert.fail(reason),
      },
    );
    heard.push('held');
  });
  assert.deepEqual(heard, ['held', 'of it', 'ended']);
});

suite('capacity', () => {
  const [gpu1] = hostsOf({ local: { slots: 1, gpus: 0 }, hosts: { gpu1: { ssh: 'ada@gpu1:2222' } } }).slice(1);
  const capacityWith = (...hosts: readonly NamedHost[]) =>
    createHostsCapacity({ hosts, resolve: async (address) => `${address} resolved`, now: () => 7 });
  const jobOn = (...hosts: readonly string[]) =>
    freshJob(spec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts } })).job;
  const observed = async (capacity: CapacityPort, job: Job, allocation: Partial<Allocation> = {}) =>
    (await capacity.observe([{ job, allocation: { ordinal: 1, hosts: null, ...allocation } as Allocation }]))[0];
  const addresses = [{ internalIp: 'ada@gpu1:2222 resolved', externalIp: 'ada@gpu1:2222' }];

  test('this machine is always ready, and another host that the settings name, with its address', async () => {
    const value = { state: 'ready', detail: 'this machine', workers: 1 };
    assert.deepEqual(await observed(capacityWith(), jobOn('localhost')), { kind: 'known', value, observedAt: 7 });
    const other = await observed(capacityWith(gpu1!), jobOn('gpu1'));
    assert.deepEqual(other?.kind === 'known' && other.value.hosts, addresses);
  });

  test('a host that has left the settings or has another address is unknown, and absent only after a forced delete', async () => {
    const gone = await observed(capacityWith(), jobOn('gpu1'));
    assert.equal(gone?.kind === 'unknown' && gone.reason, 'the settings no longer name the host gpu1');
    // After a forced delete the user has given up the machine.
    const removed = await observed(capacityWith(), { ...jobOn('gpu1'), removed: true });
    assert.equal(removed?.kind === 'known' && removed.value.state, 'absent');
    const world = new World(spec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['gpu1'] } }));
    world.runUntilIdle();
    const moved = await observed(capacityWith({ ...gpu1!, ssh: 'gpu9' }), world.job, { hosts: addresses });
    assert.match((moved?.kind === 'unknown' && moved.reason) || '', /another address than ada@gpu1:2222/);
    // Nothing runs there, so the new address counts.
    const other = await observed(capacityWith({ ...gpu1!, ssh: 'gpu9' }), jobOn('gpu1'), { hosts: addresses });
    assert.equal(other?.kind === 'known' && other.value.hosts?.[0]?.externalIp, 'gpu9');
  });

  test('an SSH address has a host, and may have a user and a port', () => {
    assert.deepEqual(parseSshAddress('gpu1'), { host: 'gpu1', port: null, user: null });
    assert.deepEqual(parseSshAddress('ada@[::1]:2222'), { host: '::1', port: 2222, user: 'ada' });
  });
});
