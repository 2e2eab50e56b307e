/** The reports, with what real jobs of the TPU emulator and of this machine have used. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { day, utcDate } from '../../../src/core/model/time.ts';
import { billedRows, coverageOf, isCoverage, openBigQueryServer } from '../../google/bigquery-server.ts';
import { assertAccessible } from '../../support/browser.ts';
import { openDashboard } from '../../support/dashboard.ts';

/** The lines of the CSV file of the table. */
async function savedLines(page: Page): Promise<readonly string[]> {
  const saving = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save this table as CSV' }).click();
  const csv = await readFile(await (await saving).path(), 'utf8');
  return csv.trimEnd().split('\r\n');
}

test('a person reads what was used, by user and by day, and saves exactly that', async (t) => {
  const opened = await openDashboard(t);
  if (opened === undefined) return;
  const { world, open, address } = opened;
  const { page } = await open();
  await page.goto(address);
  await page.getByText('No jobs yet.').waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('p');
  await page.getByText('No usage of any job in the last 30 days.').waitFor();
  await assertAccessible(page);

  const onTpu = await world.create(world.tpuManifest('sleep 3', { name: 'vit' }));
  const here = await world.create(world.localManifest('true', { name: 'iris' }));
  await world.waitForFinish(here);
  await world.waitForFinish(onTpu);
  await world.runOk(['emulator', 'quota', 'us-central2-b/v4', '--limit', '32']);
  await page.reload();
  const table = (name: string) => page.getByRole('table', { name, exact: true });
  await table('Cost by user')
    .getByRole('row', { name: /\(simulated\)/ })
    .first()
    .waitFor();
  // An estimate names its prices, and what has no price says so.
  await page.getByText(/^Estimated cost of all jobs in the last 30 days, by user, with the list prices of /).waitFor();
  await page.getByText('Simulated: the TPU emulator. It is free;').waitFor();
  await page.getByText('Not priced: there is no list price.').waitFor();
  await table('Simulated by use').getByRole('rowheader', { name: 'total' }).waitFor();
  await assertAccessible(page);

  await page.getByRole('combobox', { name: 'By' }).selectOption('job');
  await page.waitForURL(/\?by=job$/);
  await page.getByRole('button', { name: 'Today' }).click();
  await page.waitForURL(/by=job&period=today$/);
  await table('Cost by job').getByRole('row', { name: /vit/ }).waitFor();
  await page.getByText(/^jobman cost --by job --since \d{4}-\d\d-\d\d$/).waitFor();
  const names = await table('Cost by job').getByRole('rowheader').allTextContents();
  const lines = await savedLines(page);
  assert.match(lines[0] ?? '', /^job,name,user,hours,chip_hours,estimate_usd,useful_usd,/);
  assert.deepEqual(
    lines.slice(1).map((line) => line.split(',')[0]),
    names,
  );

  // The address has the whole report.
  await page.reload();
  await table('Cost by job').getByRole('row', { name: /iris/ }).waitFor();
  await page.getByLabel('From').fill('2026-01-31');
  await page.waitForURL(/since=2026-01-31/);
  await page.getByLabel('to', { exact: true }).fill('2026-01-30');
  await page.getByText('The period ends before it begins.').waitFor();
  await page.getByRole('button', { name: 'Last 30 days' }).click();

  await page.getByRole('button', { name: 'Usage' }).click();
  await table('Usage')
    .getByRole('row', { name: /vit.*useful.*estimate: prices of/ })
    .waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Billed' }).click();
  await page.getByText('No billing export is set, so these are estimates').waitFor();
  await assertAccessible(page);

  // With an export, the same page has the bill of Google, and so has the file.
  const today = utcDate(Date.now());
  const rows = billedRows([
    [today, 'Cloud TPU', 'TPU v4 spot', 'lab', null, onTpu, 'EUR', '92.5', '-2.5', '100'],
    [today, 'Cloud Storage', 'Standard', 'lab', null, null, 'EUR', '1.25', '0', '1.4'],
  ]);
  const coverage = coverageOf(Date.now() - 30 * day, Date.now());
  const bill = await openBigQueryServer(({ query }) => (isCoverage(query) ? coverage : rows));
  world.atEnd(() => bill.close());
  await world.output('settings', 'set', 'tpu.tokenCommand', 'echo token-of-the-test');
  await world.output('settings', 'set', 'google.endpoints', JSON.stringify({ bigquery: bill.url }));
  await world.output('settings', 'set', 'billing.exportTable', 'lab-billing.costs.gcp_billing_export_v1_A_B_C');
  await page.reload();
  await page.getByText(/^Billed by Google from .*, from lab-billing\.costs\./).waitFor();
  await page.getByRole('combobox', { name: 'By' }).selectOption('service');
  await table('Billed by service')
    .getByRole('row', { name: /^Cloud TPU .*90\.00/ })
    .waitFor();
  await assertAccessible(page);
  const cells = await table('Billed by service')
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((one) => [...one.children].map(({ textContent }) => textContent)));
  // A cell that a spreadsheet would read as a formula begins with an apostrophe.
  const saved = (await savedLines(page)).slice(1).map((line) => line.split(',').map((cell) => cell.replace(/^'/, '')));
  assert.deepEqual(saved, cells);
  await page.getByRole('button', { name: 'Quota' }).click();
  await table('Quota')
    .getByRole('row', { name: /us-central2.*v4/ })
    .first()
    .waitFor();
  await page.getByText(/^In chips\. Limits read from the TPU emulator at /).waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Storage' }).click();
  await table('Storage')
    .getByRole('row', { name: /shared/ })
    .waitFor();
  await assertAccessible(page);

  const phone = await open({
    viewport: { width: 360, height: 740 },
    storageState: await page.context().storageState(),
  });
  await phone.page.goto(page.url().replace(/\?.*/, '?by=day'));
  await phone.page.getByRole('table', { name: 'Cost by day' }).waitFor();
  await assertAccessible(phone.page);
  assert.equal(await phone.page.evaluate('document.documentElement.scrollWidth'), 360);
});
