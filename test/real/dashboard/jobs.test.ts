/** The page of the jobs, with real jobs of the TPU emulator. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertAccessible, openBrowser } from '../../support/browser.ts';
import { jobman, startJobman } from '../../support/jobman.ts';
import { root } from '../../support/root.ts';
import { openWorld } from '../../support/world.ts';

test('a person opens the dashboard, sees jobs change, opens one, and cancels it', async (t) => {
  const open = await openBrowser(t);
  if (open === undefined) return;
  const world = openWorld(t);
  world.atEnd(async () => {
    await jobman(world, ['controller', 'stop']);
    await jobman(world, ['emulator', 'stop']);
  });
  const dashboard = startJobman(world, ['dashboard', '--no-browser']);
  world.atEnd(() => void dashboard.child.kill('SIGKILL'));
  await dashboard.waitForOutput(/open\?code=\S+\n/);
  const [, address = ''] = /at (http\S+)/.exec(dashboard.stdout) ?? [];
  const { page } = await open();
  await page.goto(address);
  await page.getByText('No jobs yet.').waitFor();
  await assertAccessible(page);

  const example = join(root, 'configs/quick-start.yaml');
  await jobman(world, ['create', example, '--set', 'command.env.IRIS_PACE=5']);
  await page.getByRole('row', { name: /000001 iris/ }).waitFor();
  await page.getByRole('row', { name: /running/ }).waitFor();
  await assertAccessible(page);

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
  const { stdout } = await jobman(world, ['list', '--json', '--all']);
  assert.match(stdout, /"phase":"cancelled"/);

  // The address was a login, once.
  const other = await open();
  await other.page.goto(address);
  await other.page.getByRole('dialog', { name: 'Log in' }).waitFor();
  await assertAccessible(other.page);
  dashboard.child.kill('SIGINT');
  assert.equal((await dashboard.result).code, 0);
  await page.getByRole('button', { name: /offline/ }).waitFor();
});
