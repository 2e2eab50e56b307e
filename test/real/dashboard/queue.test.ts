/** The queue, with real jobs that wait for a slot of this machine, for capacity, and for quota of the TPU emulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from '../../support/browser.ts';
import { openDashboard } from '../../support/dashboard.ts';

test('a person sees what waits and for what, and a job that starts leaves the queue', async (t) => {
  const opened = await openDashboard(t);
  if (opened === undefined) return;
  const { world, open, address, command } = opened;
  await world.runOk(['settings', 'set', 'local.slots', '1']);
  const { page } = await open();
  await page.goto(address);
  await page.getByText('No jobs yet.').waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('q');
  await page.getByText('No job waits for a slot, for a TPU or for capacity.').waitFor();
  await assertAccessible(page);

  await world.runOk(['emulator', 'start']);
  await world.runOk(['emulator', 'stockout', 'us-central2-b']);
  await world.runOk(['emulator', 'quota', 'us-west4-a/v5e', '--limit', '0']);
  const running = await world.create(world.localManifest('sleep 900', { name: 'first' }));
  await world.waitForPhase(running, 'running');
  await world.create(world.localManifest('true', { name: 'second' }));
  await world.create(world.localManifest('true', { name: '<b>third' }));
  await world.create(world.tpuManifest('true', { name: 'fourth' }));
  await world.create(
    world.tpuManifest('true', { name: 'fifth', tpu: { accelerator: 'v5litepod-16', zone: 'us-west4-a' } }),
  );
  const row = (name: string) => page.getByRole('row', { name: new RegExp(name) });
  await row('second').getByText('1 of 2 on this machine').waitFor();
  await row('second').getByText('1 of 1 slot on this machine in use').waitFor();
  await row('<b>third').getByText('2 of 2 on this machine').waitFor();
  await row('<b>third').getByText('ahead: 1 job').waitFor();
  await row('fourth').locator('.blocked-capacity').waitFor();
  await row('fourth').getByText('No capacity for v4-16 spot in us-central2-b.').waitFor();
  await row('fifth').locator('.blocked-quota').waitFor();
  await page.getByText('This machine: 1 of 1 slot used, 2 jobs waiting.').waitFor();
  await page.getByText('Google does not publish the position of a request').waitFor();
  assert.equal(await row('first').count(), 0);
  await assertAccessible(page);
  assert.match(await world.output('queue'), /^TPUs: 2 jobs waiting\.$/m);

  await page.getByRole('button', { name: 'Mine' }).click();
  await page.waitForURL(/\?of=mine$/);
  await row('second').waitFor();
  await world.runOk(['cancel', running]);
  await row('second').waitFor({ state: 'hidden' });
  await row('<b>third').waitFor({ state: 'hidden' });
  await row('fifth').click();
  await page.getByRole('heading', { name: /fifth/ }).waitFor();
  await page.goBack();
  await row('fifth').waitFor();

  const phone = await open({
    viewport: { width: 360, height: 740 },
    storageState: await page.context().storageState(),
  });
  await phone.page.goto(page.url());
  await phone.page.getByRole('row', { name: /fifth/ }).locator('.blocked-quota').waitFor();
  await assertAccessible(phone.page);
  assert.equal(await phone.page.evaluate('document.documentElement.scrollWidth'), 360);

  // A read that fails keeps the rows, with their age.
  command.child.kill('SIGINT');
  assert.equal((await command.result).code, 0);
  await page.getByText(/The contents below are \S+ old\./).waitFor();
  await row('fifth').waitFor();
  await assertAccessible(page);
});
