/** A command that only reads writes nothing into the record, whoever looks and however often. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { LabRecord } from '../../../src/lab/record.ts';
import { table } from '../../../src/cli/tpu/table.ts';
import { openLabWorld, openUsualLab } from './lab-world.ts';

/** What a reader may ask of the record. */
const reading: ReadonlySet<string> = new Set([
  'users',
  'tpus',
  'tpuAliases',
  'job',
  'jobs',
  'lives',
  'alike',
  'windows',
  'windowOf',
  'bookings',
  'eventsSince',
] satisfies readonly (keyof LabRecord)[]);

/** The record, and what was asked of it beyond reading. */
function watched(record: LabRecord): { readonly record: LabRecord; readonly written: string[] } {
  const written: string[] = [];
  const proxy = new Proxy(record, {
    get(target, name) {
      if (!reading.has(String(name))) written.push(String(name));
      return Reflect.get(target, name) as unknown;
    },
  });
  return { record: proxy, written };
}

/** What goes on until somebody leaves has tests of its own. */
const goesOn = (line: string): boolean => /^monitor\b| -f$/.test(line);

suite('reads only', () => {
  for (const row of table.filter(({ changes, hidden }) => !changes && !hidden)) {
    test(row.names[0], async () => {
      const world = await openUsualLab();
      await world.job('xibo', { tag: 'baseline' });
      const { record, written } = watched(world.record);
      const { tpu } = openLabWorld({ record });
      for (const [example] of row.examples) {
        const line = /tpu ([^)|]*)/.exec(example)?.[1]?.trim() ?? '';
        if (goesOn(line)) continue;
        const words = line
          .replaceAll('"', '')
          .replaceAll(/\b(ada|NAME)\b/g, 'xibo')
          .split(' ');
        // Some of them need more than the record; what they have written until then counts.
        await tpu(words).catch((error: unknown) => {
          assert.match(String(error), /has no/);
        });
      }
      assert.deepEqual(written, []);
    });
  }
});
