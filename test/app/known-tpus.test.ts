// TPUs of the clouds and of jobs as one list, and how a person gives each of them back.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JobActivity } from '../../src/app/activity.ts';
import { knownTpus, nextCheck, sortKnownTpus, type CheckedTpus, type KnownTpu } from '../../src/app/known-tpus.ts';
import { releaseOf, releaseOrphans } from '../../src/app/reclaim.ts';
import { topZones } from '../../src/app/top.ts';
import type { TpuList, TpuRow, UncheckedLocation } from '../../src/app/tpus.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { now, tpuRow } from '../cli/support/harness.ts';
import { aMember } from '../support/builders.ts';
import { jobActivity } from '../support/top-builders.ts';

function list(rows: readonly TpuRow[], unchecked: readonly UncheckedLocation[] = []): TpuList {
  return { rows, unchecked, anyAnswered: true, forgettable: [], projects: ['lab'], suggestion: null };
}

const none: CheckedTpus = { list: null, at: now, message: null };
const checked = (...rows: readonly TpuRow[]) => nextCheck(none, list(rows), now);
const gap = (zone: string | null) => ({ project: 'lab', zone, message: '403: no', isEmulatorStopped: false });
const foreign = (name: string, changes: Partial<TpuRow> = {}) =>
  tpuRow({ name, owner: { kind: 'none' }, job: null, ...changes });

function only(jobs: readonly JobActivity[], tpus: CheckedTpus): KnownTpu {
  const found = knownTpus(jobs, tpus);
  assert.equal(found.length, 1, found.map(({ name }) => name).join());
  return found[0]!;
}

suite('a location that does not answer', () => {
  const [here, there] = [foreign('here'), foreign('there', { zone: 'us-east5-b' })];
  const names = (tpus: CheckedTpus) => knownTpus([], tpus).map(({ name, checkedAt }) => `${name} ${checkedAt}`);

  test('keeps its last rows with their time, until it answers', () => {
    const first = nextCheck(none, list([here, there]), now);
    const second = nextCheck(first, list([here], [gap('us-east5-b')]), now + minute);
    assert.deepEqual(names(second), [`here ${now + minute}`, `there ${now}`]);
    const third = nextCheck(second, list([here], [gap('us-east5-b')]), now + 2 * minute);
    assert.deepEqual(names(third), [`here ${now + 2 * minute}`, `there ${now}`], 'also after a second failure');
    assert.deepEqual(names(nextCheck(third, list([here]), now + 3 * minute)), [`here ${now + 3 * minute}`]);
  });

  test('is the whole project if no zone is named, and a row that the new list has is not kept', () => {
    const first = nextCheck(none, list([here, there]), now);
    const next = nextCheck(first, list([here], [gap(null)]), now + minute);
    assert.deepEqual(names(next), [`here ${now + minute}`, `there ${now}`]);
  });

  test('counts in its zone with the time of the old list and the reason, and a TPU of a job once', () => {
    const node = tpuRow({ name: 'vit-000042-3', idleMs: null });
    const tpus = nextCheck(checked(node, here), list([], [gap('us-west4-a')]), now + minute);
    const [zone, ...others] = topZones(knownTpus([jobActivity()], tpus), { tpus, limits: [] });
    assert.equal(others.length, 0);
    assert.deepEqual(
      [zone?.heldChips, zone?.busyChips, zone?.idleChips, zone?.checkedAt, zone?.message, zone?.idleSinceAt],
      [32, 16, 16, now, '403: no', now - 3 * hour],
    );
  });
});

suite('a known TPU', () => {
  test('has ended if Google has taken it, and counts apart from what is held', () => {
    const dead = foreign('dead', { state: 'PREEMPTED', nodeState: 'PREEMPTED' });
    const orphan = foreign('lost', { owner: { kind: 'orphan', id: '000007' }, job: '000007' });
    const tpus = checked(dead, orphan);
    const known = knownTpus([], tpus);
    assert.deepEqual(
      known.map(({ use }) => use),
      ['ended', 'idle'],
    );
    const [zone] = topZones(known, { tpus, limits: [] });
    assert.deepEqual([zone?.heldChips, zone?.endedChips, zone?.orphanChips], [16, 16, 16]);
  });

  test('of a job has the state and the price of the store before the clouds answer', () => {
    const tpu = only([jobActivity()], none);
    assert.deepEqual(
      [tpu.state, tpu.use, tpu.pricePerHourUsd, tpu.user, tpu.job?.id, tpu.row],
      ['READY', 'busy', 7.68, 'alice', '000042', null],
    );
  });

  test('comes first if its idle time has cost most, also if only its job knows it', () => {
    const [own] = jobActivity().tpus;
    const idle = jobActivity({ tpus: [{ ...own!, idleSinceAt: now - 2 * hour }] });
    const tpus = nextCheck(none, list([foreign('a', { idleMs: hour }), foreign('b')], []), now - minute);
    const known = knownTpus([{ ...idle, tpus: [{ ...idle.tpus[0]!, readyAt: now }] }], tpus);
    assert.deepEqual(
      sortKnownTpus(known, now).map(({ name }) => name),
      ['b', own!.name, 'a'],
    );
  });
});

suite('a release', () => {
  const member = aMember('alice');
  const of = (tpu: KnownTpu, actor = member) => {
    const { kind, command, ...rest } = releaseOf(tpu, actor);
    return [kind, command, 'reason' in rest ? rest.reason : null];
  };

  test('of the TPU of a job stops the job, finished or not', () => {
    assert.deepEqual(of(only([jobActivity()], none)), ['job', 'jobman stop 42 --release', null]);
    const viewer = of(only([jobActivity()], none), aMember('bob', { role: 'viewer' }));
    assert.deepEqual(viewer, ['none', 'jobman stop 42 --release', 'Your role is viewer, which may not stop a job.']);
    const row = tpuRow({
      label: { installation: 'ours00', job: '000042', allocation: 1 },
      owner: { kind: 'job', id: '000042', name: 'vit', jobOwner: 'bob', owner: 'bob', isFinished: true },
    });
    assert.deepEqual(of(only([], checked(row))), ['job', 'jobman stop 42 --release', null]);
  });

  test('is not for a TPU that existed before its job, or that its job releases', () => {
    const [own] = jobActivity().tpus;
    const persistent = only([jobActivity({ tpus: [{ ...own!, ownership: 'persistent' }] })], none);
    assert.match(of(persistent).join(), /^none,,.*existed before job 000042 and stays after it/);
    const dead = only([], checked(tpuRow({ state: 'PREEMPTED', nodeState: 'PREEMPTED' })));
    assert.deepEqual(of(dead), ['none', null, 'Job 000042 releases vit-000042-1 itself.']);
    const deleting = only([], checked(foreign('x', { state: 'DELETING', nodeState: 'DELETING' })));
    assert.deepEqual(of(deleting), ['none', null, 'x is being deleted.']);
  });

  test('of an orphan needs a role that may release it', () => {
    const label = { installation: 'ours00', job: '000007', allocation: 1 };
    const orphan = only(
      [],
      checked(foreign('lost', { owner: { kind: 'orphan', id: '000007' }, job: '000007', label })),
    );
    assert.deepEqual(of(orphan), ['orphan', 'jobman gc lost --yes', null]);
    const viewer = aMember('bob', { role: 'viewer' });
    assert.deepEqual(of(orphan, viewer).slice(0, 1), ['none']);
    assert.match(of(orphan, viewer).join(), /Your role is viewer, which may not release TPUs\./);
  });

  test('of the TPU of other people is a command of theirs', () => {
    assert.match(of(only([], checked(foreign('theirs')))).join(), /^none,gcloud .*delete theirs .*,theirs does not/);
    const shared = foreign('lab-1', { owner: { kind: 'shared', name: 'grace' } });
    assert.match(of(only([], checked(shared))).join(), /^none,tpu delete lab-1,lab-1 is a TPU that people share/);
  });

  test('of orphans answers once each is gone, or has failed', async () => {
    const orphan = { backend: 'tpu', installation: 'ours00', job: '000007', allocation: 1, state: 'READY' } as const;
    const [one, two] = ['nodes/a', 'nodes/b'].map((resource) => ({ ...orphan, resource }));
    const acts: string[] = [];
    const client = {
      releaseOrphan: async ({ resource }: { readonly resource: string }) =>
        resource === 'nodes/a'
          ? ({ kind: 'done' } as const)
          : ({ kind: 'refused', evidence: { message: 'no permission' } } as const),
      observeOrphans: async () => [{ ...one!, presence: 'gone' as const, message: 'gone' }],
      forgetOrphan: async ({ resource }: { readonly resource: string }) => void acts.push(`forget ${resource}`),
    };
    const answers = await Array.fromAsync(
      releaseOrphans(client, [one!, two!], () => now, new AbortController().signal),
    );
    assert.deepEqual(
      answers.map(({ outcome, message }) => `${outcome}: ${message}`),
      ['failed: nodes/b was not released: no permission', 'gone: nodes/a is deleted.'],
    );
    assert.deepEqual(acts, ['forget nodes/a']);
  });
});
