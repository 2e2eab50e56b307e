import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  observeQuota,
  quotaWarnings,
  type LimitsAnswer,
  type QuotaCache,
  type QuotaParts,
} from '../../src/app/quota.ts';
import type { ObservedTpu, TpuCloud, UncheckedLocation } from '../../src/app/tpus.ts';
import type { Job } from '../../src/core/model/job.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import type { QuotaLimit, ReadLimits } from '../../src/reports/quota.ts';
import { aJob, noon, observedTpu, readyAllocation, tpuCapacity, withAttempts } from '../support/builders.ts';

const zone = 'us-west4-a';

const job: Job = {
  ...withAttempts(aJob(), [{ ...readyAllocation, readyAt: noon - 3 * hour }], []),
  id: '000042',
  installation: 'ours00',
};
const label = { installation: 'ours00', job: '000042', allocation: 1 };
const finished: Job = {
  ...job,
  startRequest: null,
  finish: { at: noon - 2 * hour, verdict: 'succeeded', reason: 'succeeded' },
};

const limit: QuotaLimit = {
  generation: 'v5e',
  variant: null,
  pricing: 'spot',
  scope: 'zone',
  location: zone,
  limit: 64,
};

interface World {
  readonly tpus?: readonly ObservedTpu[];
  readonly unchecked?: readonly UncheckedLocation[];
  readonly jobs?: readonly Job[];
  readonly answers?: Readonly<Record<string, LimitsAnswer>>;
}

function partsOf({ tpus = [], unchecked = [], jobs = [], answers = {} }: World) {
  const written = new Map<string, ReadLimits>();
  const cache: QuotaCache = {
    read: (project) => written.get(project),
    write: (project, limits) => void written.set(project, limits),
  };
  const read: string[] = [];
  const cloud: TpuCloud = {
    list: async ({ project }) => ({
      tpus: tpus.filter((one) => one.project === project),
      unchecked: unchecked.filter((one) => one.project === project),
    }),
    pricePerHour: () => null,
    isSimulated: () => false,
  };
  const parts: QuotaParts = {
    store: {
      list: async () => ({ jobs, total: jobs.length }) as object as Awaited<ReturnType<QuotaParts['store']['list']>>,
      orphans: async () => [],
      loadMany: async () =>
        jobs.map((one) => ({ job: one })) as object as Awaited<ReturnType<QuotaParts['store']['loadMany']>>,
    },
    installation: 'ours00',
    cloud,
    quotas: {
      limits: async (project) => {
        read.push(project);
        return answers[project] ?? { ok: true, limits: [limit], unreadable: [] };
      },
    },
    cache,
    settings: { project: 'lab', grants: [], forgottenProjects: [] },
    now: () => noon,
  };
  return { parts, written, read };
}

const denied: LimitsAnswer = {
  ok: false,
  problem: { project: 'lab', message: 'not yours', permission: 'cloudquotas.quotas.get', fix: null },
};

suite('what counts against the quota', () => {
  const commandOf = async (tpu: ObservedTpu, jobs: readonly Job[] = []) => {
    const { rows } = await observeQuota(partsOf({ tpus: [tpu], jobs }).parts, {});
    const [row] = rows;
    const [holder] = row?.holders ?? [];
    assert.ok(row && holder);
    return [holder.owner, holder.use, holder.reclaimable, holder.command, row.leftChips];
  };
  const labelled = observedTpu('vit-000042-1', { label });

  test('a TPU of an unfinished job is in use; while it is dead, its job releases it', async () => {
    assert.deepEqual(await commandOf(labelled, [job]), [job.owner, 'used', null, null, 48]);
    const dead = { ...labelled, nodeState: 'PREEMPTED' };
    assert.deepEqual(await commandOf(dead, [job]), [job.owner, 'used', 'ended', null, 48]);
  });

  test('a TPU that a finished job keeps is idle', async () => {
    const command = 'jobman stop 42 --release';
    assert.deepEqual(await commandOf(labelled, [finished]), [job.owner, 'used', 'idle', command, 48]);
  });

  test('an orphan is released by gc, alive or dead', async () => {
    const command = 'jobman gc vit-000042-1 --yes';
    assert.deepEqual(await commandOf(labelled), [null, 'used', 'orphan', command, 48]);
    const suspended = { ...labelled, nodeState: null, queuedResourceState: 'SUSPENDED', metadataOwner: 'grace' };
    assert.deepEqual(await commandOf(suspended), ['grace', 'used', 'ended', command, 48]);
  });

  test('a TPU of others counts as in use until it is dead', async () => {
    assert.deepEqual(await commandOf(observedTpu('dev')), [null, 'used', null, null, 48]);
    const node = await commandOf(observedTpu('dev', { nodeState: 'PREEMPTED' }));
    assert.equal(node[3], `gcloud compute tpus tpu-vm delete dev --zone ${zone} --project lab`);
    const resource = `projects/lab/locations/${zone}/queuedResources/q;rm`;
    const queued = await commandOf(
      observedTpu('q', { resource, nodeState: null, queuedResourceState: 'FAILED', nodeCount: 2 }),
    );
    assert.equal(queued[3], `gcloud compute tpus queued-resources delete 'q;rm' --zone ${zone} --project lab --force`);
    assert.equal(queued[4], 32);
    const shared = await commandOf(observedTpu('v5e-1', { sharedByInstallation: 'ours00', nodeState: 'PREEMPTED' }));
    assert.equal(shared[3], 'tpu delete v5e-1');
  });

  test('a queued resource that waits is requested, and takes from what is left', async () => {
    const waits = observedTpu('q', { nodeState: null, queuedResourceState: 'WAITING_FOR_RESOURCES' });
    assert.deepEqual(await commandOf(waits), [null, 'requested', null, null, 48]);
  });

  test('a job whose request Google refused waits, and takes nothing from what is left', async () => {
    const waiting: Job = { ...job, allocations: [], spec: { ...job.spec } };
    const { rows } = await observeQuota(partsOf({ jobs: [waiting] }).parts, {});
    const [row] = rows;
    assert.deepEqual([row?.usedChips, row?.requestedChips, row?.leftChips], [0, 16, 64]);
    assert.deepEqual(
      row?.holders.map(({ owner, job: id, use, state }) => [owner, id, use, state]),
      [[job.owner, '000042', 'waiting', 'WAITING']],
    );
    const over = await observeQuota(partsOf({ jobs: [finished] }).parts, {});
    assert.equal(over.rows[0]?.requestedChips, 0);
  });

  test('what is being deleted is not to be released again', async () => {
    assert.equal((await commandOf(observedTpu('a', { nodeState: 'DELETING' })))[2], null);
  });

  test('a TPU of an unknown type is named instead of counted', async () => {
    const { rows, uncounted } = await observeQuota(
      partsOf({ tpus: [observedTpu('a', { accelerator: 'v99-8' })] }).parts,
      {},
    );
    assert.deepEqual([rows[0]?.usedChips, uncounted.length], [0, 1]);
  });
});

test('one project without permission is named, and the others are shown', async () => {
  const tpus = [observedTpu('a'), observedTpu('b', { project: 'other' })];
  const other = { ...finished, spec: { ...job.spec, capacity: tpuCapacity({ project: 'other' }) } };
  const { parts, written } = partsOf({ tpus, jobs: [other], answers: { lab: denied } });
  const { rows, unread, anyAnswered } = await observeQuota(parts, {});
  assert.deepEqual(
    rows.map((row) => [row.project, row.limitState, row.usedChips]),
    [
      ['lab', 'unknown', 16],
      ['other', 'limited', 16],
    ],
  );
  assert.deepEqual(unread, [denied.ok ? null : denied.problem]);
  assert.equal(anyAnswered, true);
  assert.deepEqual([...written.keys()], ['other']);
});

test('limits that fail before the list of TPUs is there end the request, and not the process', async (t) => {
  const { parts } = partsOf({});
  const quotas = { limits: () => Promise.reject(new Error('no limits')) };
  // An unhandled rejection is reported after the turn in which it happens.
  const cloud = {
    ...parts.cloud,
    list: () => new Promise<never>((_, reject) => setTimeout(() => reject(new Error('no TPUs')), 20)),
  };
  const unhandled = t.mock.fn();
  process.on('unhandledRejection', unhandled);
  t.after(() => process.off('unhandledRejection', unhandled));
  await assert.rejects(observeQuota({ ...parts, quotas, cloud }, {}), /no TPUs/);
  assert.equal(unhandled.mock.callCount(), 0);
});

test('one zone alone still counts the other zones of its region', async () => {
  const regional: QuotaLimit = { ...limit, scope: 'region', location: 'us-west4', limit: 40 };
  const tpus = [observedTpu('a'), observedTpu('b', { zone: 'us-west4-b' })];
  const { parts } = partsOf({ tpus, answers: { lab: { ok: true, limits: [regional], unreadable: [] } } });
  const { rows } = await observeQuota(parts, { zone });
  assert.deepEqual(
    rows.map((row) => [row.zone, row.usedChips, row.leftChips]),
    [[zone, 16, 8]],
  );
});

suite('create', () => {
  const capacity = tpuCapacity({ project: 'lab', zone, accelerator: 'v5litepod-64' });

  test('warns about each alternative that exceeds what is left', async () => {
    const { parts } = partsOf({ tpus: [observedTpu('a')] });
    assert.deepEqual(await quotaWarnings(parts, capacity), [
      'v5litepod-64 spot in us-west4-a exceeds the quota of v5e spot: it has 64 chips, and 48 of 64 are left in this zone. To see what uses them: jobman quota',
    ]);
    const small = tpuCapacity({ project: 'lab', zone, accelerator: 'v5litepod-32' });
    assert.deepEqual(await quotaWarnings(parts, small), []);
    const alternatives = [{ ...capacity, pricePerHourUsd: null }];
    assert.equal((await quotaWarnings(parts, { ...small, alternatives })).length, 1);
  });

  test('uses stored limits only if the project does not answer, and names their age', async () => {
    const stored = (age: number): ReadLimits => ({ readAt: noon - age, limits: [{ ...limit, limit: 0 }] });
    const { parts, written } = partsOf({});
    written.set('lab', stored(40 * minute));
    assert.deepEqual(await quotaWarnings(parts, capacity), [], 'the new limit is high enough');
    assert.equal(written.get('lab')?.readAt, noon);
    const silent = { ...parts, quotas: { limits: () => new Promise<never>(() => undefined) } };
    const warningsAfter = (age: number) => {
      written.set('lab', stored(age));
      return quotaWarnings(silent, capacity);
    };
    const [warning = ''] = await warningsAfter(40 * minute);
    assert.match(
      warning,
      / can never fit .* it has 64 chips, and the limit in this zone is 0 \(limits read 40m ago\)\. Ask Google/,
    );
    assert.deepEqual(await warningsAfter(61 * minute), []);
    assert.deepEqual(await warningsAfter(-minute), [], 'the clock was set back');
  });

  test('says nothing if it does not know, and never rejects', async () => {
    assert.deepEqual(await quotaWarnings(partsOf({ answers: { lab: denied } }).parts, capacity), []);
    const { parts } = partsOf({});
    const never: Promise<never> = new Promise(() => undefined);
    assert.deepEqual(await quotaWarnings({ ...parts, cloud: { ...parts.cloud, list: () => never } }, capacity), []);
    const broken = { limits: () => Promise.reject(new Error('no')) };
    assert.deepEqual(await quotaWarnings({ ...parts, quotas: broken }, { ...capacity, accelerator: 'v4-8' }), []);
  });

  test('does not check an existing TPU', async () => {
    const { parts, read } = partsOf({ tpus: [observedTpu('a')] });
    assert.deepEqual(await quotaWarnings(parts, { ...capacity, ownership: 'persistent' }), []);
    assert.deepEqual(read, []);
  });
});
