/** The cost report over a real ledger: the database's sums and the pure report of the rows are the same. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { suite, test, type TestContext } from 'node:test';
import type { CostRequest } from '../../src/app/client.ts';
import { costOf } from '../../src/app/cost.ts';
import { periodStarts } from '../../src/core/policy/grants.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { costReport, usageUses } from '../../src/reports/cost.ts';
import type { UsageRow } from '../../src/reports/usage.ts';
import { openStore } from '../../src/store/store.ts';
import { noon, usageRow } from '../support/builders.ts';
import { temporaryFolder } from '../support/folder.ts';
import { aUser } from '../support/lab-builders.ts';

const now = noon + 20 * hour;

/** Jobs of several users, zones and prices, on the emulator, on this machine and in two clusters, one of them twice. */
const rows: readonly UsageRow[] = Array.from({ length: 60 }, (_, index) => {
  const number = (index % 17) + 1;
  // One row crosses several midnights.
  const from = index === 19 ? noon - 75 * hour : noon + index * 17 * minute;
  const base = usageRow({
    job: String(number).padStart(6, '0'),
    jobName: `run-${number}`,
    owner: number % 5 === 0 ? null : `user${number % 3}`,
    tags: ['big', 'sweep', 'x'].slice(0, number % 4),
    use: usageUses[index % usageUses.length] ?? 'useful',
    accelerator: number % 2 === 0 ? 'v4-8' : null,
    chips: number % 2 === 0 ? 4 : null,
    from,
    until: index % 11 === 0 ? null : noon + (index * 17 + ((index % 7) + 1) * 13) * minute,
    pricePerHourUsd: number % 4 === 0 ? null : index % 13 === 7 ? 0 : number / 3,
    pricesOf: number % 4 === 0 || index % 26 === 7 ? null : number % 3 === 0 ? 'settings' : '2026-08-01',
    simulated: number === 6 || number === 7,
  });
  if (number < 15) return base;
  const cluster = { source: 'kubernetes', location: `hpc/team${number % 2}` } as const;
  const uid = uidOf(index);
  return { ...base, job: 'train', uid, jobName: 'train', user: 'user1', tags: [], ...cluster };
});

/** A uid may begin with the digits of a job's id. */
function uidOf(index: number): string {
  return `${(index % 17) - 14}-uid`;
}

async function openLedger(t: TestContext): Promise<ReturnType<typeof openStore>> {
  const file = join(temporaryFolder(t), 'state.db');
  const store = openStore({ file });
  t.after(() => store.close());
  await store.installationId();
  const db = new DatabaseSync(file);
  db.exec('pragma foreign_keys = off');
  const insertTag = db.prepare('insert into job_tag (tag, job) values (?, ?) on conflict do nothing');
  const insert = db.prepare(`
    insert into usage (subject, seq, job, source, allocation, name, owner, job_name, project, location, accelerator,
      pricing, chips, ownership, used_for, attempt, began_at, ended_at, price, prices_of, simulated)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  for (const [index, row] of rows.entries()) {
    const { job, source, allocation, name, owner, jobName, project, location, accelerator, pricing, chips } = row;
    const about = [source, allocation, name, owner, jobName, project, location, accelerator, pricing, chips];
    const subject = row.uid ?? job;
    const { ownership, use, attempt, from, until, pricePerHourUsd, pricesOf, simulated } = row;
    const rest = [ownership, use, attempt, from, until, pricePerHourUsd, pricesOf, simulated ? 1 : 0];
    for (const tag of row.tags) insertTag.run(tag, Number(job));
    insert.run(subject, index, job, ...about, ...rest);
  }
  db.close();
  return store;
}

/** Dollars are sums of fractions, whose order differs. */
function rounded(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, one: unknown) =>
      key === 'estimateUsd' && typeof one === 'number' ? Number(one.toFixed(6)) : one,
    ),
  );
}

suite('the sums of the database', () => {
  const periods = [
    {},
    { since: noon + 3 * hour },
    { since: noon - 70 * hour, until: noon - 5 * hour },
    { since: noon + 2 * hour, until: noon + 9 * hour },
    { until: now + hour },
  ];
  for (const by of ['job', 'user', 'accelerator', 'zone', 'tag', 'day'] as const) {
    test(`by ${by}`, async (t) => {
      const store = await openLedger(t);
      for (const period of periods) {
        for (const limit of [undefined, 3, 100]) {
          const query = { by, ...period, ...(limit === undefined ? {} : { limit }) };
          const expected = costReport(rows, query, now);
          assert.deepEqual(rounded(await costOf(store, query, now)), rounded(expected), JSON.stringify(query));
        }
      }
    });
  }

  test('of one user, of jobs, and of each filter', async (t) => {
    const store = await openLedger(t);
    const report = (request: CostRequest) => costOf(store, request, now);
    const own = rows.filter(({ owner }) => owner === 'user1');
    await store.lab.addUser(aUser('team', { logins: ['user1'] }));
    assert.deepEqual(await report({ by: 'job', user: 'team' }), await report({ by: 'job', user: 'user1' }));
    assert.deepEqual(
      rounded(await report({ by: 'job', user: 'user1', limit: 2 })),
      rounded(costReport(own, { by: 'job', limit: 2 }, now)),
    );
    // hpc/team1 has had two jobs of that name.
    const uid = uidOf(14);
    const train = rows.filter((row) => row.uid === uid);
    const [group, ...others] = (await report({ by: 'job', jobs: [uid] })).groups;
    assert.deepEqual([group?.key, group?.cluster, group?.uid, others], ['train', 'hpc/team1', uid, []]);
    const filters: readonly (readonly [Omit<CostRequest, 'by'>, readonly UsageRow[]])[] = [
      [{ jobs: [uid] }, train],
      [{ name: 'train' }, rows.filter(({ jobName }) => jobName === 'train')],
      [{ name: 'Run-1?' }, rows.filter(({ jobName }) => /^run-1\d$/.test(jobName))],
      [{ tag: 'sweep' }, rows.filter(({ tags }) => tags.includes('sweep'))],
      [{ zone: 'hpc/team1' }, rows.filter(({ location }) => location === 'hpc/team1')],
      [{ accelerator: 'v4-8' }, rows.filter(({ accelerator }) => accelerator === 'v4-8')],
      [{ accelerator: 'v4', user: 'user1' }, own.filter(({ accelerator }) => accelerator === 'v4-8')],
    ];
    for (const [filter, expected] of filters) {
      assert.ok(expected.length > 0, JSON.stringify(filter));
      for (const query of [{ by: 'job' }, { by: 'job', limit: 2 }, { by: 'tag' }, { by: 'day' }] as const)
        assert.deepEqual(rounded(await report({ ...query, ...filter })), rounded(costReport(expected, query, now)));
    }
    const none = await report({ by: 'job', jobs: ['train'], limit: 5 });
    assert.deepEqual([none.groups, none.rest, none.beginsAt], [[], [], null]);
    assert.deepEqual((await report({ by: 'job', limit: 5, since: now - minute, user: 'x' })).groups, []);
  });

  test('of each user since the start of a day, a week and a month', async (t) => {
    const store = await openLedger(t);
    const starts = periodStarts(now);
    assert.deepEqual(
      Object.values(starts).map((at) => new Date(at).toISOString().slice(0, 10)),
      ['2026-11-21', '2026-11-16', '2026-11-01'],
    );
    await store.lab.addUser(aUser('user1', { logins: ['user2'] }));
    const isOwn = (owner: string | null) => owner === 'user1' || owner === 'user2';
    const found = await store.spending(starts, now);
    for (const period of ['day', 'week', 'month'] as const) {
      for (const simulated of [false, true]) {
        const own = rows.filter((row) => row.source === 'tpu' && isOwn(row.owner) && row.simulated === simulated);
        const { totals } = costReport(own, { by: 'user', since: starts[period] }, now);
        const expected = totals.reduce((total, { held }) => total + (held.estimateUsd ?? 0), 0);
        const sum = found
          .filter((one) => one.owners.includes('user1') && one.simulated === simulated)
          .reduce((total, { spentUsd }) => total + spentUsd[period], 0);
        assert.ok(Math.abs(sum - expected) < 1e-6, `${period} ${simulated}: ${sum} ${expected}`);
      }
    }
    const current = rows.filter(
      ({ until, owner, source, use }) => until === null && isOwn(owner) && source === 'tpu' && use !== 'waiting',
    );
    const rate = found
      .filter(({ owners }) => owners.includes('user1'))
      .reduce((total, { rateUsd }) => total + rateUsd, 0);
    const expectedRate = current.reduce((total, { pricePerHourUsd }) => total + (pricePerHourUsd ?? 0), 0);
    assert.ok(expectedRate > 0 && Math.abs(rate - expectedRate) < 1e-9);
  });
});
