import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { topRows, workerKey, type TopInput, type TopZone } from '../../src/app/top.ts';
import type { TpuRow } from '../../src/app/tpus.ts';
import type { QuotaRow } from '../../src/reports/quota.ts';
import { now, tpuRow } from '../cli/support/harness.ts';
import { jobActivity, measuredWorker } from '../support/top-builders.ts';

const hour = 3_600_000;

function input(changes: Partial<TopInput> = {}): TopInput {
  return {
    jobs: [],
    clusterJobs: [],
    workers: new Map(),
    tpus: { list: null, at: now, message: null },
    limits: [],
    ...changes,
  };
}

function listed(rows: readonly TpuRow[], changes: Partial<TopInput['tpus']['list'] & object> = {}): TopInput['tpus'] {
  const list = {
    rows,
    unchecked: [],
    anyAnswered: true,
    forgettable: [],
    projects: ['lab'],
    suggestion: null,
    ...changes,
  };
  return { list, at: now, message: null };
}

/** A zone as `held busy idle waiting`, with its owners. */
function shortly({ zone, generation, heldChips, busyChips, idleChips, waitingChips, users }: TopZone): string {
  const by = users.map(({ user, chips }) => `${user} ${chips}`).join(' ');
  return `${zone} ${generation}: ${heldChips} ${busyChips} ${idleChips} ${waitingChips} ${by}`.trim();
}

suite('zones', () => {
  // The node of `jobActivity`.
  const node = { name: 'vit-000042-3', idleMs: null };
  const busy = tpuRow(node);
  const zonesOf = (changes: Partial<TopInput>): readonly string[] => topRows(input(changes), {}).zones.map(shortly);

  test('have the TPUs of the cloud, also those of other people, and the requests of the jobs', () => {
    const waiting = jobActivity({
      id: '000045',
      owner: 'carol',
      phase: 'queued',
      tpus: [{ ...jobActivity().tpus[0]!, name: 'x-000045-1', readyAt: null }],
    });
    const idle = tpuRow({ name: 'mine', owner: { kind: 'none' }, job: null, idleMs: 3 * hour });
    const other = tpuRow({
      name: 'theirs',
      owner: { kind: 'user', name: 'bob' },
      job: null,
      idleMs: null,
      accelerator: 'v5litepod-64',
    });
    const dead = tpuRow({ name: 'dead', state: 'PREEMPTED', nodeState: 'PREEMPTED' });
    const found = topRows(input({ jobs: [jobActivity(), waiting], tpus: listed([busy, idle, other, dead]) }), {});
    assert.deepEqual(found.zones.map(shortly), ['us-west4-a v5e: 96 16 16 16 bob 64 alice 16 none 16']);
    assert.equal(found.zones[0]?.idleSinceAt, now - 3 * hour);
    assert.equal(found.zones[0]?.checkedAt, now);
    assert.deepEqual(
      found.tpus.map(({ name, user }) => `${name} ${user}`),
      ['mine none', 'theirs bob'],
    );
    // The job has ended since the cloud's list, and has released its TPU.
    assert.deepEqual(topRows(input({ jobs: [], tpus: listed([busy]) }), {}).tpus, []);
  });

  test('count a TPU once, whatever the cloud and the store have', () => {
    assert.deepEqual(zonesOf({ jobs: [jobActivity()], tpus: listed([busy]) }), ['us-west4-a v5e: 16 16 0 0 alice 16']);
    // Requested: the cloud has a queued resource for it, then a node that is not ready.
    const requested = jobActivity({ tpus: [{ ...jobActivity().tpus[0]!, readyAt: null }] });
    const queued = tpuRow({
      ...node,
      nodeState: null,
      queuedResourceState: 'WAITING_FOR_RESOURCES',
      state: 'WAITING_FOR_RESOURCES',
    });
    assert.deepEqual(zonesOf({ jobs: [requested], tpus: listed([queued]) }), ['us-west4-a v5e: 0 0 0 16']);
    const creating = tpuRow({ ...node, nodeState: 'CREATING', state: 'CREATING' });
    assert.deepEqual(zonesOf({ jobs: [requested], tpus: listed([creating]) }), ['us-west4-a v5e: 16 0 0 0 alice 16']);
    const foreign = { ...queued, owner: { kind: 'user', name: 'bob' } as const, job: null };
    assert.deepEqual(zonesOf({ tpus: listed([foreign]) }), ['us-west4-a v5e: 0 0 0 16']);
    const ofFourNodes = { ...foreign, nodeCount: 4 };
    assert.deepEqual(zonesOf({ tpus: listed([ofFourNodes]) }), ['us-west4-a v5e: 0 0 0 64']);
  });

  test('have what has changed since the list of the cloud', () => {
    const [tpu] = jobActivity().tpus;
    const idle = jobActivity({ tpus: [{ ...tpu!, idleSinceAt: now - 1_000 }] });
    // The command of the job has ended or begun, a second node has become ready, the job has lost its node.
    assert.deepEqual(zonesOf({ jobs: [idle], tpus: listed([busy]) }), ['us-west4-a v5e: 16 0 16 0 alice 16']);
    const listedAsIdle = tpuRow({ ...node, idleMs: hour });
    assert.deepEqual(zonesOf({ jobs: [jobActivity()], tpus: listed([listedAsIdle]) }), [
      'us-west4-a v5e: 16 16 0 0 alice 16',
    ]);
    const ready = jobActivity({ tpus: [{ ...tpu!, readyAt: now + 1_000 }] });
    assert.deepEqual(zonesOf({ jobs: [ready], tpus: listed([]) }), ['us-west4-a v5e: 16 16 0 0 alice 16']);
    assert.deepEqual(zonesOf({ jobs: [jobActivity({ tpus: [] })], tpus: listed([busy]) }), []);
    // Ready before the list, and not in it: the cloud has deleted it.
    assert.deepEqual(zonesOf({ jobs: [jobActivity()], tpus: listed([]) }), []);
    // A node of a queued resource of several nodes.
    const nodes = [0, 1].map((index) => tpuRow({ ...node, name: `vit-000042-3-${index}` }));
    assert.deepEqual(zonesOf({ jobs: [jobActivity()], tpus: listed(nodes) }), ['us-west4-a v5e: 32 32 0 0 alice 32']);
  });

  test('that the cloud did not report have the TPUs of the jobs, and say so', () => {
    const gap = { project: 'lab', zone: 'us-west4-a', message: '403: no', isEmulatorStopped: false };
    const [zone] = topRows(input({ jobs: [jobActivity()], tpus: listed([], { unchecked: [gap] }) }), {}).zones;
    assert.equal(zone && shortly(zone), 'us-west4-a v5e: 16 16 0 0 alice 16');
    assert.deepEqual([zone?.checkedAt, zone?.message], [null, '403: no']);
    const [unread] = topRows(input({ jobs: [jobActivity()] }), {}).zones;
    assert.equal(unread?.message, 'not checked yet');
    const failed = { list: null, at: now, message: 'the login has expired' };
    assert.equal(
      topRows(input({ jobs: [jobActivity()], tpus: failed }), {}).zones[0]?.message,
      'the login has expired',
    );
  });

  test('with a TPU of unknown size have no number for it', () => {
    assert.deepEqual(
      zonesOf({ tpus: listed([tpuRow({ accelerator: 'v99-8', owner: { kind: 'user', name: 'bob' }, idleMs: null })]) }),
      ['us-west4-a v99-8: null 0 0 0 bob null'],
    );
    assert.match(zonesOf({ tpus: listed([tpuRow({ accelerator: null })]) })[0] ?? '', /^us-west4-a null: null/);
  });

  test('have the limit of the quota with its time', () => {
    const limit: QuotaRow = {
      project: 'lab',
      zone: 'us-west4-a',
      generation: 'v5e',
      variant: null,
      pricing: 'spot',
      quotaId: 'TPUV5s',
      scope: 'zone',
      limitState: 'limited',
      limitChips: 256,
      limitReadAt: now - hour,
      usedChips: null,
      reclaimableChips: null,
      requestedChips: null,
      leftChips: null,
      holders: [],
    };
    const [zone] = topRows(
      input({
        tpus: listed([busy]),
        limits: [limit, { ...limit, pricing: 'ondemand', limitChips: 16, limitReadAt: now }, { ...limit, zone: 'x' }],
      }),
      {},
    ).zones;
    assert.deepEqual([zone?.limitChips, zone?.limitReadAt], [272, now - hour]);
  });
});

suite('jobs', () => {
  const job = jobActivity();
  const withWorkers = (...workers: readonly ReturnType<typeof measuredWorker>[]) => {
    const map = new Map(workers.map((worker, index) => [workerKey(job, index), worker]));
    const rows = topRows(input({ jobs: [job], workers: map }), {});
    return { job: rows.jobs[0]!, workers: rows.workers.get('000042')! };
  };

  test('have the mean of CPU and duty, the fullest memory and disk, and the whole network', () => {
    const found = withWorkers(
      measuredWorker(),
      measuredWorker({ cpuPercent: 12, dutyPercent: 71, memoryUsedBytes: 60_000_000_000, diskUsedBytes: null }),
    );
    const { cpuPercent, memoryPercent, diskPercent, dutyPercent, receivedBytesPerSecond, runningCount } = found.job;
    assert.deepEqual([cpuPercent, memoryPercent, diskPercent, dutyPercent], [21.5, 60, 20, 82]);
    assert.deepEqual([receivedBytesPerSecond, runningCount, found.job.workerCount], [2_400_000, 2, 2]);
    // The worker that has printed nothing for longest.
    assert.deepEqual([found.job.logAt, found.job.lastLine], [now - 8_000, 'step 40209 loss 2.114']);
  });

  test('keep the figures of a worker that does not answer, and name it', () => {
    const silent = measuredWorker(
      { cpuPercent: 12 },
      { silentSinceAt: now - 60_000, message: 'no answer within 10 s' },
    );
    const found = withWorkers(measuredWorker(), silent);
    assert.equal(found.job.runningCount, 1);
    assert.equal(found.job.message, 'worker 1 silent: no answer within 10 s');
    assert.equal(found.job.cpuPercent, 21.5);
    assert.deepEqual([found.workers[1]?.cpuPercent, found.workers[1]?.silentSinceAt], [12, now - 60_000]);
    const never = { figures: null, measuredAt: null, silentSinceAt: now, message: 'refused' };
    assert.equal(withWorkers(measuredWorker(), never).workers[1]?.state, null);
  });

  test('have no figures of an earlier attempt, and unknown is not zero', () => {
    const old = new Map([[workerKey({ ...job, attempt: 2 }, 0), measuredWorker()]]);
    const [row] = topRows(input({ jobs: [job], workers: old }), {}).jobs;
    assert.deepEqual(
      [row?.cpuPercent, row?.memoryPercent, row?.runningCount, row?.measuredAt],
      [null, null, null, null],
    );
    const exited = withWorkers(measuredWorker(), measuredWorker({ program: 'exited' }));
    const { runningCount, exitedCount, logAt } = exited.job;
    assert.deepEqual([runningCount, exitedCount, logAt], [1, 1, now - 4_000], 'its silence is normal');
  });

  test('on this machine have the share of their own processes', () => {
    const local = jobActivity({
      backend: 'hosts',
      hosts: ['localhost'],
      tpus: [],
      workers: [jobActivity().workers[0]!],
    });
    const map = new Map([[workerKey(local, 0), measuredWorker({ cpuPercent: 90, programCpuPercent: 25 })]]);
    const { jobs, workers } = topRows(input({ jobs: [local], workers: map }), {});
    const [worker] = workers.get(local.id) ?? [];
    assert.deepEqual([jobs[0]?.cpuPercent, jobs[0]?.memoryPercent], [25, 10]);
    assert.deepEqual([worker?.cpuPercent, worker?.memoryUsedBytes], [25, worker?.programMemoryBytes]);
  });

  test('are selected by user, zone, tag and id; their own filter leaves no zones', () => {
    const other = jobActivity({ id: '000043', owner: 'bob', zone: 'us-east5-b', tags: ['a'] });
    const all = input({ jobs: [other, job], tpus: listed([tpuRow({ owner: { kind: 'none' }, job: null })]) });
    const ids = (filter: Parameters<typeof topRows>[1]) => topRows(all, filter).jobs.map(({ id }) => id);
    assert.deepEqual(ids({}), ['000043', '000042']);
    assert.deepEqual(ids({ user: 'bob' }), ['000043']);
    assert.deepEqual(ids({ zone: 'us-west4-a' }), ['000042']);
    assert.deepEqual(ids({ tag: 'a' }), ['000043']);
    const one = topRows(all, { jobs: ['000042'] });
    assert.deepEqual([one.jobs.length, one.zones.length, one.tpus.length], [1, 0, 0]);
    assert.deepEqual(topRows(all, { user: 'dave' }).tpus, []);
  });

  test('are idle while their TPU is ready without a command', () => {
    const kept = jobActivity({
      phase: 'succeeded',
      isRunning: false,
      workers: [],
      tpus: [{ ...job.tpus[0]!, idleSinceAt: now - hour }],
    });
    const rows = topRows(input({ jobs: [kept] }), {});
    assert.equal(rows.jobs[0]?.idleSinceAt, now - hour);
    assert.equal(rows.zones[0]?.idleChips, 16);
  });
});
