// The phase of a job.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { phaseOf, phaseSince } from '../../src/core/decide/phase.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { World, freshJob, spec, t0 } from './world.ts';

test('a job goes through the phases in order, each with its start', () => {
  const world = new World();
  const heard: [string, number][] = [];
  const hear = (): void => void heard.push([phaseOf(world.job), phaseSince(world.job) - t0]);
  hear();
  world.pass();
  world.now += second;
  world.pass();
  hear();
  world.nodes.set(1, world.newNode('provisioning'));
  world.now += second;
  world.pass();
  hear();
  Object.assign(world.node, { state: 'ready', detail: 'READY' });
  world.now += second;
  world.pass();
  hear();
  world.runUntilIdle();
  hear();
  world.now += minute;
  world.preempt();
  world.pass();
  hear();
  assert.deepEqual(heard, [
    ['queued', 0],
    ['queued', 0],
    ['provisioning', 2 * second],
    ['setup', 3 * second],
    ['running', 3 * second],
    ['recovering', 3 * second + minute],
  ]);
});

test('it is recovering until the next attempt is seen running', () => {
  const world = new World();
  world.runUntilIdle();
  world.preempt();
  const heard = new Set<string>();
  world.onPass = () => void heard.add(phaseOf(world.job));
  world.runUntilRunning(10 * minute);
  assert.deepEqual([...heard], ['recovering', 'running']);
});

test('an attempt that no rule follows is stopping, not recovering', () => {
  const world = new World(spec({ preset: 'pass' }));
  world.runUntilIdle();
  world.exit(0, 1);
  world.pass();
  assert.equal(phaseOf(world.job), 'stopping');
});

test('a first wait for capacity is queued, however many requests failed', () => {
  const world = new World();
  world.pass();
  world.pass();
  world.nodes.set(1, { ...world.newNode('lost'), cause: 'failed' });
  world.runUntil(() => world.job.allocations.length > 1, 10 * minute);
  assert.equal(phaseOf(world.job), 'queued');
});

test('a new job is queued', () => {
  assert.deepEqual([phaseOf(freshJob().job), phaseSince(freshJob().job)], ['queued', t0]);
});
