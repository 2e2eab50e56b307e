// Lineages of attempts: resumes and reruns of one job, and parents on other TPUs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attempt } from '../../src/core/model/job.ts';
import {
  type Lineages,
  readLineages,
  lineageOf,
  attemptKey,
  newestReport,
  stageOf,
  continuedWork,
} from '../../src/lab/lineage.ts';
import type { LabJob, LabWindow } from '../../src/lab/lab-store.ts';
import { openStore } from '../../src/store/store.ts';
import { spec, t0, tpu } from '../core/world.ts';
import { aLabJob, aReport, aWindow } from '../support/lab-builders.ts';

function labJob(job: string, parent: LabJob['parent'] = null, baseStage = 0): LabJob {
  return aLabJob(job, 'alice', { parent, baseStage });
}

/** `f`: fresh, by a rule after the first; `s`: resumed; `r`: rerun by the owner; a capital letter: it never started. */
function attemptsOf(text: string): readonly Attempt[] {
  const ways = { f: 'fresh', s: 'resume', r: 'rerun' } as const;
  let stage = 0;
  return text.split('').map((letter, index): Attempt => {
    const startMode = ways[letter.toLowerCase() as keyof typeof ways];
    stage = startMode === 'resume' ? stage + 1 : 0;
    const startedAt = letter === letter.toUpperCase() ? null : t0;
    return {
      ordinal: index + 1,
      stage,
      startMode,
      startedByOwner: index === 0 || startMode === 'rerun',
      startedAt,
    } as Attempt;
  });
}

function window(job: string, attempt: number, number: number, logFolder: string | null): LabWindow {
  const report = logFolder === null ? null : aReport(logFolder, `${logFolder}/stage`);
  return aWindow(labJob(job), { window: number, attempt, report });
}

function lineagesOf(jobs: readonly LabJob[], windows: readonly LabWindow[] = []): Lineages {
  return {
    jobs: new Map(jobs.map((job) => [job.job, job])),
    windows: new Map(windows.map((one) => [attemptKey(one), one])),
  };
}

test('a lineage has the earlier attempts of the job and then of its parent', () => {
  const all = lineagesOf([
    labJob('000001'),
    labJob('000002', { job: '000001', attempt: 2, startMode: 'resume' }),
    labJob('000003', { job: '000002', attempt: 1, startMode: 'rerun' }),
  ]);
  assert.deepEqual(lineageOf(all, { job: '000003', attempt: 2 }).map(attemptKey), [
    '000003/2',
    '000003/1',
    '000002/1',
    '000001/2',
    '000001/1',
  ]);
});

test('two jobs that are each other’s parent have a finite lineage', () => {
  const all = lineagesOf([
    labJob('000001', { job: '000002', attempt: 1, startMode: 'resume' }),
    labJob('000002', { job: '000001', attempt: 1, startMode: 'resume' }),
  ]);
  assert.equal(lineageOf(all, { job: '000001', attempt: 1 }).length, 2);
  assert.equal(continuedWork(all, { job: '000001', attempt: 1 }, () => ({ attempts: attemptsOf('f') })).length, 2);
});

test('continued work goes back to a start from the beginning', () => {
  const all = lineagesOf([labJob('000001'), labJob('000002', { job: '000001', attempt: 2, startMode: 'resume' })]);
  const cases: readonly (readonly [first: string, second: string, attempt: number, work: string])[] = [
    ['fs', 'f', 1, '000002/1 000001/2 000001/1'],
    ['fs', 'fss', 3, '000002/3 000002/2 000002/1 000001/2 000001/1'],
    ['fs', 'fsr', 3, '000002/3'],
    ['fs', 'fsrs', 4, '000002/4 000002/3'],
    ['fr', 'f', 1, '000002/1 000001/2'],
    // The next attempt replaces an attempt that never started.
    ['fs', 'Ff', 2, '000002/2 000002/1 000001/2 000001/1'],
    ['fS', 'fSr', 3, '000002/3'],
    ['fs', 'fSs', 3, '000002/3 000002/2 000002/1 000001/2 000001/1'],
    // A resume continues the last attempt that ran, not a rerun that never started.
    ['fs', 'fRs', 3, '000002/3 000002/2 000002/1 000001/2 000001/1'],
    ['fs', 'frRs', 4, '000002/4 000002/3 000002/2'],
    ['fs', 'fRrs', 4, '000002/4 000002/3'],
  ];
  for (const [first, second, attempt, work] of cases) {
    const jobOf = (job: string) => ({ attempts: attemptsOf(job === '000001' ? first : second) });
    const found = continuedWork(all, { job: '000002', attempt }, jobOf).map(attemptKey).join(' ');
    assert.equal(found, work, `${first} ${second}`);
  }
});

test('the stage counts resumes including those of parents, from 0 after a rerun', () => {
  const at = (base: number, text: string): number =>
    stageOf(labJob('000002', null, base), { attempts: attemptsOf(text) }, text.length);
  assert.deepEqual(
    ['f', 'fs', 'fss', 'fsr', 'fsrs', 'Ff'].map((text) => at(0, text)),
    [0, 1, 2, 0, 1, 0],
  );
  assert.deepEqual(
    ['f', 'fs', 'fsr', 'fsrs', 'Ff', 'Ffs', 'fRs', 'frRs'].map((text) => at(3, text)),
    [3, 4, 0, 1, 3, 4, 4, 1],
  );
});

test('newestReport is the report of the newest attempt that has one', () => {
  const all = lineagesOf(
    [labJob('000001')],
    [window('000001', 1, 9, '/logs/1'), window('000001', 2, 10, '/logs/2'), window('000001', 3, 11, null)],
  );
  assert.equal(newestReport(all, lineageOf(all, { job: '000001', attempt: 3 }))?.report.logFolder, '/logs/2');
  assert.equal(newestReport(all, lineageOf(all, { job: '000001', attempt: 1 }))?.report.logFolder, '/logs/1');
  assert.equal(newestReport(lineagesOf([]), [{ job: '000001', attempt: 1 }]), null);
});

test('lineages are read from the store with all parents and the windows of all', async (t) => {
  const store = openStore({ file: ':memory:', installation: 'abcdef' });
  t.after(() => store.close());
  const { lab } = store;
  const ids: string[] = [];
  for (let index = 0; index < 3; index += 1) {
    const { job } = await store.insert({ owner: 'alice', spec: spec({ capacity: tpu }), manifest: '', at: t0 });
    const before = ids.at(-1);
    await lab.addJob(labJob(job.id, before === undefined ? null : { job: before, attempt: 1, startMode: 'resume' }));
    await lab.openWindow(job.id, 1, t0);
    ids.push(job.id);
  }
  await lab.setWindowState([{ job: ids[0] ?? '', attempt: 1 }], 'cleared', t0);
  const last = await lab.job(ids[2] ?? '');
  assert.ok(last !== null);
  const all = await readLineages(lab, [last]);
  assert.deepEqual([...all.jobs.keys()].toSorted(), ids);
  assert.deepEqual(
    [...all.windows.values()].map((one) => one.window),
    [1, 2, 3],
  );
  const read = await lab.windows({ jobs: [last.job], cleared: true });
  const further = await readLineages(lab, [last], read);
  assert.deepEqual(further.windows, all.windows, 'windows that were read before and the others');
});
