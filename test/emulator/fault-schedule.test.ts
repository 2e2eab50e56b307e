// A fault schedule runs each entry once, at its time, with randomness from the seed.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { queryEmulator } from '../../src/emulator/admin.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { parseFaultSchedule } from '../../src/emulator/world/fault-schedule.ts';
import { minutes, startTestEmulator, zone } from './test-emulator.ts';
import { createManualClock } from './manual-clock.ts';
import { temporaryFolder } from '../support/folder.ts';

function fileOf(t: TestContext, text: string): string {
  const folder = temporaryFolder(t);
  const file = join(folder, 'storm.yaml');
  writeFileSync(file, text);
  return file;
}

test('each entry runs at its time, like a call of a user', async (t) => {
  const schedule = fileOf(
    t,
    `- { at: 5m, preempt: n1 }
- { at: 10m, stockout: ${zone}/v4, for: 5m }
- { at: 1m, preempt: missing }
`,
  );
  const cloud = await startTestEmulator(t, { schedule });
  await cloud.createNode('n1');
  cloud.clock.advance(minutes(4.9));
  assert.equal(await cloud.nodeState('n1'), 'READY');
  cloud.clock.advance(minutes(0.2));
  assert.equal(await cloud.nodeState('n1'), 'PREEMPTED');
  cloud.clock.advance(minutes(5));
  const refused = await cloud.createNode('n2');
  cloud.clock.advance(minutes(2));
  assert.equal((await cloud.operation(refused)).error.code, 8);
  cloud.clock.advance(minutes(4));
  await cloud.createReadyNode('n2');
  assert.equal(await cloud.nodeState('n2'), 'READY');
});

test('the seed determines the run, whatever clients request in the meantime', async (t) => {
  const schedule = fileOf(t, '- { every: 1m..5m, chance: 0.5, preempt: any }\n');
  async function story(seed: number, asksBetween = 0): Promise<string> {
    const cloud = await startTestEmulator(t, { schedule, seed });
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) await cloud.createNode(id);
    const states: string[] = [];
    for (let minute = 0; minute < 20; minute += 1) {
      cloud.clock.advance(minutes(1));
      // The id at the end of each error is random.
      for (let count = 0; count < asksBetween; count += 1) {
        await cloud.call('GET', '/v2/projects/emulator/locations/moon-a/nodes');
      }
      const { nodes } = await cloud.ok('GET', 'nodes');
      states.push(nodes.map((node: { state: string }) => node.state.slice(0, 1)).join(''));
    }
    return states.join(' ');
  }
  const first = await story(3);
  assert.match(first, /P/);
  assert.equal(await story(3), first);
  assert.equal(await story(3, 3), first);
  assert.notEqual(await story(4), first);
});

test('a restart with the same schedule continues it; another schedule replaces it', async (t) => {
  const stateDir = temporaryFolder(t);
  const time = createManualClock();
  const first = fileOf(t, '- { at: 1m, hold: "*" }\n- { at: 10m, hold: v4 }\n');
  const second = fileOf(t, '- { at: 1m, hold: v5p }\n');
  async function conditionsAfter(length: number, schedule?: string): Promise<string[]> {
    const more = schedule === undefined ? {} : { schedule };
    const emulator = await startEmulator({ stateDir, clock: time, isolation: 'none', env: {}, ...more });
    try {
      time.advance(length);
      const { conditions } = await queryEmulator(emulator.url, 'state');
      return (conditions as { target: string }[]).map(({ target }) => target);
    } finally {
      await emulator.close();
    }
  }
  assert.deepEqual(await conditionsAfter(minutes(2), first), ['*']);
  // Nine minutes after the first start. If the schedule began again, `*` would be in force a second time and v4 not at
  // all.
  assert.deepEqual(await conditionsAfter(minutes(9), first), ['*', 'v4']);
  assert.deepEqual(await conditionsAfter(minutes(2), second), ['*', 'v4', 'v5p']);
  assert.deepEqual(await conditionsAfter(minutes(2)), ['*', 'v4', 'v5p']);
});

test('every mistake in a schedule is reported with its line before the emulator starts', () => {
  const mistakes = (text: string): string => {
    try {
      parseFaultSchedule(text, 'storm.yaml');
    } catch (error) {
      return error instanceof Error ? error.message : '';
    }
    return 'none';
  };
  assert.equal(
    mistakes(`- { at: 5m, premept: n1 }
- { preempt: n1 }
- { at: soon, preempt: n1 }
- { at: 3m..1m, preempt: n1 }
- { at: 1m, flaky: read, p: 2 }
- { at: 1m, stockout: v4, fro: 1m }
- { every: 0s, clear: all }
- { at: 1m, chance: 2, clear: all }
- preempt n1
`),
    `storm.yaml:1: premept is not a verb. Did you mean preempt?
storm.yaml:2: preempt needs \`at\` or \`every\`.
storm.yaml:3: at: soon: write a duration such as 30s, 10m or 2h, or a range: 1m..3m.
storm.yaml:4: at: 3m..1m: write a duration such as 30s, 10m or 2h, or a range: 1m..3m.
storm.yaml:5: flaky p=2: write a number from 0 to 1.
storm.yaml:6: stockout has no option "fro". Did you mean for? Its options: for, times, clear, pricing, project.
storm.yaml:7: every: must be greater than 0.
storm.yaml:8: chance: write a number from 0 to 1.
storm.yaml:9: an entry needs a time and a verb: { at: 2m, preempt: any }.`,
  );
  assert.match(mistakes('preempt: n1\n'), /a fault schedule is a list/);
  assert.match(mistakes('- { at: 1m\n'), /^storm\.yaml:\d+: /);
  assert.equal(mistakes(''), 'none');
  assert.equal(mistakes('- { at: 90, kill-host: 1/3, for: 2m }\n- { at: 1m, preempt: 1 }\n'), 'none');
});
