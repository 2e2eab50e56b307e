/** The budget of a user in a grant: two jobs on the TPU emulator share it, and each ends when it is used up. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openJobWorld } from '../support/jobs.ts';

const endless =
  'echo "from ${JOBMAN_RESUME_FROM##*/}"; echo 1 >"$JOBMAN_CHECKPOINT_DIR/step_1"; while :; do echo tick; sleep 0.2; done';

test('the jobs of a user are warned and end at the budget of a grant; a new one is refused until it is raised', async (t) => {
  const world = openJobWorld(t);
  const writeSettings = (budgetUsd: number): void => {
    const grants = [{ accelerator: 'v*', budgetUsd, budgetPeriod: 'week' }];
    // 40 cents in a second.
    const prices = [{ accelerator: 'v*', usdPerHour: 1_440 }];
    writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ grants, prices }));
  };
  mkdirSync(world.home, { recursive: true });
  writeSettings(20);
  const manifest = world.tpuManifest(endless, { name: 'shares', job: { checkpoint_dir: '~/bucket/runs' } });
  const ids = [await world.create(manifest), await world.create(manifest)];

  for (const id of ids) {
    const job = await world.waitForFinish(id, 1);
    const [attempt] = job.attempts;
    assert.equal(attempt?.reason, 'budget');
    assert.match(
      attempt.evidence?.message ?? '',
      /^the budget of \S+ for v\* is used up until the next week begins on/,
    );
    const history = await world.output('history', id);
    assert.match(history, /\$\d+\.\d\d of \$20\.00 have been used \(its owner's budget of v\* for this week\)/);
    assert.match(await world.output('why', id), /because {3}\$\d+\.\d\d of \$20\.00 have been spent: the budget of/);
    await world.waitUntil(id, ({ allocations }) => allocations.every(({ goneAt }) => goneAt !== null));
  }

  const [id = ''] = ids;
  for (const command of [
    ['create', manifest],
    ['resume', id],
  ]) {
    const used =
      /the budget of \S+ for v\* is used up: \$\d+\.\d\d of \$20\.00 have been spent this week; the next week begins on/;
    const stderr = await world.runRefused(4, used, command);
    assert.match(stderr, /Raise budgetUsd of that grant \(setting `grants`\)/);
  }
  writeSettings(10_000);
  await world.runOk(['resume', id]);
  await world.waitForPhase(id, 'running');
  await world.waitUntil(id, () => world.readLog(id).toString().includes('from step_1'));
  assert.match(
    await world.output('show', id),
    /^budget {4}\$\d+\.\d\d of \$10000\.00 used \(0%\) by \S+ on v\*, this week/m,
  );
  await world.runOk(['cancel', id]);
  await world.waitForFinish(id, 1);
});
