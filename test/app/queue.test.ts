import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readQueue } from '../../src/app/queue.ts';
import { formatAhead, formatBlockedBy, formatOrder, formatBriefWait } from '../../src/app/queue-text.ts';
import type { Job } from '../../src/core/model/job.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { openStore } from '../../src/store/store.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import {
  aMember,
  endedAttempt,
  localSpec,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
  withAttempts,
} from '../support/builders.ts';

const now = noon + hour;
const quota = {
  kind: 'quota' as const,
  message: 'over quota',
  raw: "Quota limit 'TPUV5sLitepodPerProjectPerZone' has been exceeded.",
};

const onBox = (name: string): JobSpec =>
  localSpec({ name, capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['box'] } });
const onTpu = (name: string): JobSpec => tpuSpec({ name }, { ownership: 'persistent', name: 'lab-v4' });

/** A store with a job for each of these specs, in the state that `life` gives it. */
async function openQueue(
  t: { after(undo: () => unknown): void },
  jobs: readonly (readonly [JobSpec, (job: Job) => Job])[],
) {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  for (const [index, [spec, life]] of jobs.entries()) {
    const at = noon + index * second;
    const { job, revision } = await store.insert({ owner: index % 2 === 0 ? 'ada' : 'bob', spec, manifest: '', at });
    const changed = { ...life(job), spec };
    if (life !== fresh)
      await store.commit({
        job: changed,
        revision,
        events: [],
        foldedOutcomes: [],
        wakeAt: now + 16 * second,
        epoch: null,
      });
  }
  const pools = async () => [
    { name: 'localhost', slots: 1, gpus: null },
    { name: 'box', slots: 2, gpus: 8 },
  ];
  return { store, pools };
}

const fresh = (job: Job): Job => job;
const running = (job: Job): Job => withAttempts(job, [{ ...readyAllocation, readyAt: noon }], [runningAttempt]);
const requested =
  (changes: Parameters<typeof withAttempts>[1][number] = {}) =>
  (job: Job): Job =>
    withAttempts(job, [{ confirmedAt: noon, ...changes }], [{ createdAt: noon + minute }]);

test('the queue has the jobs that wait, with the reason, the position where jobman decides the order, and the typical wait', async (t) => {
  const granted =
    (minutes: number) =>
    (job: Job): Job => ({
      ...withAttempts(
        job,
        [{ ...readyAllocation, readyAt: noon + minutes * minute, goneAt: noon + hour }],
        [{ ...runningAttempt, ...endedAttempt('succeeded', { message: '' }) }],
      ),
      finish: { at: now, verdict: 'succeeded', reason: 'succeeded' },
    });
  const stockout = { state: 'waiting', detail: 'WAITING_FOR_RESOURCES', at: noon + minute } as const;
  const sources = await openQueue(t, [
    [onBox('one'), running],
    [onBox('two'), running],
    [onBox('three'), fresh],
    [onBox('four'), fresh],
    [onTpu('five'), running],
    [
      onTpu('six'),
      (job) => ({ ...job, startRequest: { startMode: 'fresh', at: noon + 9 * second, waitsForTpu: true } }),
    ],
    [tpuSpec({ name: 'seven' }), requested({ lastObserved: stockout })],
    [
      tpuSpec({ name: 'eight' }, { accelerator: 'v4-8' }),
      requested({ confirmedAt: null, lastError: { at: noon + minute, error: quota }, errorCount: 1 }),
    ],
    [tpuSpec({ name: 'nine' }, { zone: 'us-east5-b' }), running],
    [
      onBox('ten'),
      (job) =>
        withAttempts(
          job,
          [{ ...readyAllocation }],
          [
            { ...runningAttempt, ...endedAttempt('command_failed', { message: 'exit 1', worker: 0, exitCode: 1 }) },
            { allocation: 1, createdAt: now - minute, notBeforeAt: now + 4 * minute },
          ],
        ),
    ],
    ...[3, 4, 5, 6, 20].map((minutes) => [tpuSpec(), granted(minutes)] as const),
  ]);
  const { rows, more, hosts } = await readQueue(sources, aMember('ada'), now);
  assert.equal(more, 0);
  assert.deepEqual(
    hosts.map(({ pool, slotsUsed, waiting }) => [pool, slotsUsed, waiting.length]),
    [
      ['localhost', 0, 0],
      ['box', 2, 3],
    ],
  );
  assert.deepEqual(
    rows.map((row) => [
      row.name,
      row.requests,
      formatBlockedBy(row.blockedBy),
      formatOrder(row),
      formatAhead(row.queuePosition),
      formatBriefWait(row.typicalWait),
    ]),
    [
      ['three', '1 slot', 'a slot of box', '1 of 3 on box', 'none', ''],
      ['four', '1 slot', 'a slot of box', '2 of 3 on box', '1 job, 4 GPUs', ''],
      ['ten', '1 slot', 'backoff until 13:04:00 UTC', '3 of 3 on box', '2 jobs, 8 GPUs', ''],
      ['six', 'v5litepod-16 spot in us-west4-a', 'the TPU lab-v4', '1 of 1 for lab-v4', 'none', ''],
      ['seven', 'v5litepod-16 spot in us-west4-a', 'capacity', 'Google Cloud', '-', '5m, 90% within 20m (5)'],
      ['eight', 'v4-8 spot in us-west4-a', 'quota', 'Google Cloud', '-', ''],
    ],
  );
  assert.equal(rows[4]?.sentence, 'No capacity for v5litepod-16 spot in us-west4-a.');
  assert.equal(rows[0]?.sentence, '2 of 2 slots on box in use.');
  assert.equal(rows[4]?.nextAt, now + 16 * second);
  assert.equal(rows[4]?.waitsSinceAt, noon + minute);

  const forViewer = await readQueue(sources, aMember('ada', { role: 'viewer' }), now);
  assert.deepEqual(
    forViewer.rows.map(({ owner, sentence }) => [owner, sentence === null]),
    rows.map(({ owner }) => [owner, owner !== 'ada']),
  );
});
