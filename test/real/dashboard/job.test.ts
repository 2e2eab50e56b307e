/** The page of one job, with a real job of the TPU emulator that is preempted and then cancelled. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertAccessible } from '../../support/browser.ts';
import { openDashboard } from '../../support/dashboard.ts';
import { root } from '../../support/root.ts';

test('a person follows a job through a preemption, reads each section, and cancels it', async (t) => {
  const opened = await openDashboard(t);
  if (opened === undefined) return;
  const { world, open, address, command } = opened;
  const example = join(root, 'configs/quick-start.yaml');
  await world.create(example, '--set', 'command.env.IRIS_PACE=2', '--set', 'job.budget=5 USD');

  const { page } = await open();
  await page.goto(address);
  // It has no such part, so the job is shown.
  await page.goto(new URL('/jobs/000001/constructor', address).href);
  await page.getByRole('heading', { name: '000001 iris' }).waitFor();
  await page.getByRole('region', { name: 'Reason' }).waitFor();
  await assertAccessible(page);
  const running = page.getByRole('button', { name: /Attempt 1: running/ });
  await running.waitFor({ timeout: 120_000 });
  await assertAccessible(page);

  // A segment opens its events, also by key.
  await page.getByRole('button', { name: /Attempt 1: setup/ }).click();
  const events = page.getByRole('region', { name: 'Events of the segment' });
  await events.getByRole('heading', { name: /Attempt 1: setup/ }).waitFor();
  await page.getByRole('button', { name: /Attempt 1: setup/ }).press('ArrowRight');
  await events.getByText('attempt 1 is running').waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'As a table' }).click();
  await page.getByRole('table', { name: 'Timeline' }).getByRole('button', { name: 'setup' }).waitFor();
  await page.getByRole('button', { name: 'As a table' }).click();

  await page.keyboard.press('2');
  await page.getByRole('heading', { name: '2 workers of attempt 1' }).waitFor();
  await page.getByRole('row', { name: /Logs of worker 1.*%/ }).waitFor({ timeout: 60_000 });
  await assertAccessible(page);
  await page.keyboard.press('3');
  await page.getByRole('img', { name: /Plot of loss/ }).waitFor({ timeout: 60_000 });
  await page.locator('.plot canvas').first().waitFor();
  await page.getByRole('row', { name: /accuracy/ }).waitFor();
  await assertAccessible(page);

  await world.runOk(['emulator', 'preempt', '1']);
  await page.keyboard.press('1');
  await page.getByRole('button', { name: /Attempt 2: running/ }).waitFor({ timeout: 180_000 });
  await page.getByRole('row', { name: /preempted/ }).waitFor();
  await assertAccessible(page);

  await page.keyboard.press('4');
  await page
    .getByRole('table', { name: 'Cost by use' })
    .getByRole('row', { name: /useful/ })
    .waitFor();
  await page.getByText(/job\.budget of \$5\.00: .* of \$5\.00 used/).waitFor();
  await assertAccessible(page);
  await page.keyboard.press('5');
  await page
    .getByRole('region', { name: 'Manifest as written' })
    .getByText(/# A first job/)
    .waitFor();
  await page.getByRole('button', { name: 'Resolved' }).click();
  await page
    .getByRole('region', { name: 'Resolved manifest' })
    .getByText(/"accelerator": "v4-16"/)
    .waitFor();
  await page.getByRole('button', { name: 'Plan and rules' }).click();
  await page
    .getByText(/preempted/)
    .first()
    .waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'all', exact: true }).click();
  await page.keyboard.press('6');
  await page.getByText('attempt 2 is running').waitFor();
  await page.keyboard.press('[');
  await page.getByText('attempt 2 of 2').waitFor();
  await page.keyboard.press('[');
  await page.getByText('attempt 1 of 2').waitFor();
  await page.getByText('attempt 2 is running').waitFor({ state: 'hidden' });
  await assertAccessible(page);
  // A link shows the same to another person.
  await page.waitForURL(/\?section=history&attempt=1$/);
  await page.reload();
  await page.getByText('attempt 1 is running').waitFor();
  await page.keyboard.press('7');
  await page
    .getByText(/^decided$/)
    .first()
    .waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'all', exact: true }).click();
  await page.getByRole('button', { name: 'Only what this version decides differently' }).click();
  await page.getByText(/^Version \S+ makes the same decision in \d+ recorded passes\.$/).waitFor();
  await page.getByRole('button', { name: 'Only what this version decides differently' }).click();

  // The question names the losses. A stopped job keeps its TPU until it is released.
  await page.getByRole('button', { name: 'Stop' }).click();
  const question = page.getByRole('dialog', { name: 'Stop 000001 (iris)?' });
  await question.getByText(/work .*is lost/i).waitFor();
  await assertAccessible(page);
  await question.getByRole('button', { name: 'Stop 000001' }).click();
  await page.getByRole('button', { name: 'Release' }).click({ timeout: 60_000 });
  const release = page.getByRole('dialog', { name: 'Release the TPU of 000001 (iris)?' });
  await release.getByText('Its v4-16 is released. The same capacity may not come back.').waitFor();
  await release.getByRole('button', { name: 'Release the TPU of 000001' }).click();
  await page.locator('.phase-cancelled').waitFor({ timeout: 60_000 });
  await page
    .getByRole('region', { name: 'Replay' })
    .getByText(/requested cancel/)
    .first()
    .waitFor();
  // Escape closes a menu, and so does a click elsewhere.
  const remove = page.getByRole('button', { name: 'Delete' });
  for (const close of [() => page.keyboard.press('Escape'), () => page.getByRole('heading').first().click()]) {
    await page.getByText('More', { exact: true }).click();
    await remove.waitFor();
    await close();
    await remove.waitFor({ state: 'hidden' });
  }
  // A command that does not apply says why, once the page has the answer to the one before.
  await page.getByRole('button', { name: 'Rerun', disabled: false }).waitFor();
  await page.getByRole('button', { name: 'Stop' }).click({ force: true });
  await page
    .getByRole('status')
    .getByText(/^Stop: /)
    .waitFor();
  command.child.kill('SIGINT');
  assert.equal((await command.result).code, 0);
});
