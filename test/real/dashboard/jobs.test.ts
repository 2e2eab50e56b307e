/** The page of the jobs, with real jobs of the TPU emulator. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertAccessible } from '../../support/browser.ts';
import { openDashboard } from '../../support/dashboard.ts';
import { root } from '../../support/root.ts';

const example = join(root, 'configs/quick-start.yaml');

test('a person opens the dashboard, sees jobs change, opens one, and cancels it', async (t) => {
  const opened = await openDashboard(t);
  if (opened === undefined) return;
  const { world, open, address, command } = opened;
  const { page } = await open();
  await page.clock.install();
  await page.goto(address);
  await page.getByText('No jobs yet.').waitFor();
  await assertAccessible(page);

  await world.create(example, '--set', 'command.env.IRIS_PACE=5');
  await page.getByRole('row', { name: /000001 iris/ }).waitFor();
  await page.getByRole('row', { name: /running/ }).waitFor();
  await assertAccessible(page);

  // After an hour of sleep the page reads everything again. Its clock is an hour fast now, which changes no age.
  const secondStream = page.waitForRequest(/\/v1\/changes(?!.*cursor)/);
  await page.clock.fastForward('01:00:00');
  await secondStream;
  await page.getByText('live', { exact: true }).waitFor();
  await page.getByRole('row', { name: /running \d+s / }).waitFor();

  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: '000001 iris' }).waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  const question = page.getByRole('dialog', { name: 'Cancel 000001 (iris)?' });
  await question.waitFor();
  await assertAccessible(page);
  // It begins at the button that changes nothing.
  await page.keyboard.press('Enter');
  await question.waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Cancel' }).click();
  await question.getByRole('button', { name: 'Cancel 000001' }).click();
  await page.locator('.phase-cancelled').waitFor();
  assert.match(await world.output('list', '--json', '--all'), /"phase":"cancelled"/);

  // The address was a login, once.
  const other = await open();
  await other.page.goto(address);
  const login = other.page.getByRole('dialog', { name: 'Log in' });
  await login.getByText('This command prints a new one:').waitFor();
  assert.equal(await login.getByLabel('Token').count(), 0);
  await assertAccessible(other.page);
  command.child.kill('SIGINT');
  assert.equal((await command.result).code, 0);
  await page.getByRole('button', { name: /offline/ }).waitFor();
});

test('a person filters the list, and cancels several jobs after a question that names what each loses', async (t) => {
  const opened = await openDashboard(t);
  if (opened === undefined) return;
  const { world, open, address } = opened;
  const create = (name: string) =>
    world.create(example, '--set', `job.name=${name}`, '--set', 'command.env.IRIS_PACE=5');
  for (const name of ['alpha', 'beta', 'gamma']) await create(name);
  const { page } = await open();
  await page.goto(address);
  const row = (name: string) => page.getByRole('row', { name: new RegExp(name) });
  await row('alpha').locator('.phase-running').waitFor();

  // The filter has the terms of the command, and the address has the filter.
  await page.keyboard.press('/');
  await page.keyboard.type('name:*a BET');
  await row('alpha').waitFor({ state: 'hidden' });
  await row('beta').waitFor();
  await page.waitForURL(({ searchParams }) => searchParams.get('filter') === 'name:*a BET');
  await page.reload();
  await row('beta').waitFor();
  assert.equal(await row('alpha').count(), 0);
  await page.getByLabel('Filter').fill('phase:faild zzz');
  await page.getByText('There is no phase faild. Did you mean failed?').waitFor();
  await page.getByText(/None of 3 jobs/).waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Clear phase:faild zzz' }).click();
  await row('alpha').waitFor();

  // A new job waits while jobs are selected, and no row moves.
  await row('alpha').getByRole('checkbox').click();
  await row('gamma').getByRole('checkbox').click();
  await create('delta');
  const more = page.getByRole('button', { name: '1 new' });
  await more.waitFor();
  assert.equal(await row('delta').count(), 0);
  await assertAccessible(page);
  await more.click();
  await row('delta').waitFor();

  await page.getByRole('group', { name: 'Selected jobs' }).getByRole('button', { name: 'Cancel' }).click();
  const question = page.getByRole('dialog', { name: 'Cancel 2 jobs?' });
  await question.getByText('000001 alpha').waitFor();
  await question
    .getByText(/of work is lost|Work since/)
    .first()
    .waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Enter');
  await question.waitFor({ state: 'hidden' });
  await page.getByRole('group', { name: 'Selected jobs' }).getByRole('button', { name: 'Cancel' }).click();
  await question.getByRole('button', { name: 'Cancel 2 jobs' }).click();
  await page.getByText('Cancel: 2 of 2 jobs processed').waitFor();
  await page.getByRole('button', { name: /^cancelled 2/ }).click();
  await row('alpha').locator('.phase-cancelled').waitFor();
  await row('gamma').waitFor();
  assert.equal(await row('beta').count(), 0);
  await assertAccessible(page);

  const phone = await open({
    viewport: { width: 360, height: 740 },
    storageState: await page.context().storageState(),
  });
  await phone.page.goto(page.url());
  await phone.page.getByRole('row', { name: /alpha.*cancelled/ }).waitFor();
  await assertAccessible(phone.page);
  assert.equal(await phone.page.evaluate('document.documentElement.scrollWidth'), 360);
});
