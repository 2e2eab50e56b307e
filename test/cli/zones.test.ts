import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zoneLines } from '../../src/cli/commands/zones.ts';
import type { ZoneRow } from '../../src/app/zones.ts';
import { hour, minute } from '../../src/core/time.ts';
import { jobman, now } from './support/pretend.ts';

const rows: readonly ZoneRow[] = [
  {
    project: 'lab',
    zone: 'us-east5-b',
    accelerator: 'v6e-16',
    pricing: 'spot',
    last: { answer: 'ready', at: now - 2 * hour, job: '000007' },
    gave: { at: now - 2 * hour, waited: 41 * minute },
    holds: ['000007'],
    awaits: ['000008', '000009'],
    pretended: false,
  },
  {
    project: 'lab',
    zone: 'us-west4-a',
    accelerator: 'v5litepod-16',
    pricing: 'ondemand',
    last: { answer: 'stockout', at: now - minute, job: '000008' },
    gave: null,
    holds: [],
    awaits: [],
    pretended: false,
  },
];

test('places are told with what they answered and what we have there', () => {
  const [head = '', first = '', second = ''] = zoneLines(rows, null, now);
  assert.match(head, /^ZONE +ACCELERATOR +PRICING +LAST ANSWER +GOT ONE +JOBS$/);
  assert.match(first, /^us-east5-b .* gave one, 2h ago +2h ago after 41m +held by 000007; awaited by 000008, 000009$/);
  assert.match(second, /^us-west4-a +v5litepod-16 +ondemand +no capacity, 1m ago +never +-$/);
  for (const line of zoneLines(rows, 40, now)) assert.ok(line.length <= 40, line);
  assert.match(
    zoneLines(rows, 60, now)[0] ?? '',
    /^ZONE +ACCELERATOR +PRICING +LAST ANSWER *$/,
    'whole columns go, no heading is cut',
  );
});

test('jobman zones prints a table, objects for programs, and a sentence where nothing is known', async () => {
  const table = await jobman(['zones'], { zones: rows });
  assert.equal(table.code, 0);
  assert.equal(table.out.split('\n').length, 4);
  const json = await jobman(['zones', '--json', '--project', 'lab'], { zones: rows });
  const [one] = json.out.split('\n').map((line) => (line === '' ? null : (JSON.parse(line) as ZoneRow)));
  assert.deepEqual(one?.gave, { at: '2026-11-21T06:20:14.000Z', waited: 41 * minute });
  const none = await jobman(['zones', '--project', 'other'], { zones: rows });
  assert.deepEqual([none.code, none.out], [0, '']);
  assert.match(none.err, /No job has asked/);
});
