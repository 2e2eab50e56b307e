/** The page of TPUs with the emulator: TPUs of jobs and of others, an orphan, and a zone that refuses its lists. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from '../../support/browser.ts';
import { openDashboard } from '../../support/dashboard.ts';
import { eventually } from '../../support/eventually.ts';
import type { JobWorld } from '../../support/jobs.ts';

const zone = 'us-central2-b';

function manifestOf(world: JobWorld, name: string, accelerator: string): string {
  const tpu = { project: 'emulator', accelerator, zone, pricing: 'spot' };
  return world.manifest({ job: { name }, tpu, recovery: 'pass', command: { run: 'sleep 1000' } });
}

/** A node that jobman did not create. */
async function makeNode(world: JobWorld, name: string, node: object): Promise<void> {
  const body = JSON.stringify({ acceleratorType: 'v4-8', runtimeVersion: 'tpu-ubuntu2204-base', ...node });
  const path = `/v2/projects/emulator/locations/${zone}/nodes?nodeId=${name}`;
  const headers = { 'content-type': 'application/json' };
  const { ok } = await fetch(world.emulatorEndpoint().url + path, { method: 'POST', headers, body });
  assert.ok(ok, name);
}

test('a person finds the most expensive idle TPU and releases it, and releases an orphan', async (t) => {
  const opened = await openDashboard(t);
  if (opened === undefined) return;
  const { world, open, address, command } = opened;
  const runs = await world.create(manifestOf(world, 'runs', 'v4-8'));
  const kept = await world.create(manifestOf(world, 'kept', 'v4-16'));
  for (const id of [runs, kept]) await world.waitForPhase(id, 'running');
  await world.output('stop', kept);
  await world.waitForPhase(kept, 'stopped');
  const [row] = await world.jsonRows<{ readonly owner: { readonly installation: string } }>('tpus', '--json');
  const label = { 'jobman-installation': row?.owner.installation, 'jobman-job': '000077', 'jobman-allocation': '1' };
  await makeNode(world, 'dev', { metadata: { owner: 'grace' } });
  await makeNode(world, 'forgotten', { schedulingConfig: { spot: true } });
  await makeNode(world, 'unclaimed', { labels: label, schedulingConfig: { spot: true } });
  const areReady = async () => {
    const nodes = await world.jsonRows<{ readonly state: string }>('tpus', '--json');
    return nodes.every(({ state }) => state === 'READY');
  };
  assert.ok(await eventually(areReady, { withinMs: 60_000 }), 'a node is not ready');
  await world.output('emulator', 'hold', zone);
  await world.output('emulator', 'quota', `${zone}/v4`, '--limit', '64');
  await world.create(manifestOf(world, 'waits', 'v4-8'));

  const { page } = await open();
  await page.goto(address);
  await page.getByText('live', { exact: true }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  const table = page.getByRole('table', { name: 'TPUs' });
  const rowOf = (name: string | RegExp) => table.getByRole('row').filter({ hasText: name });
  const [keptName, runsName] = [`kept-${kept}-1`, `runs-${runs}-1`];
  await rowOf(runsName).filter({ hasText: 'busy' }).waitFor();
  await rowOf('dev').filter({ hasText: 'held' }).waitFor();
  await rowOf('waits-000003-1').filter({ hasText: 'waiting' }).waitFor();
  await rowOf('unclaimed').filter({ hasText: 'orphan' }).waitFor();
  await rowOf('forgotten').filter({ hasText: 'idle' }).waitFor();
  await assertAccessible(page);

  // The limits are read when a person asks for them.
  const zones = page.getByRole('table', { name: 'Chips by zone' });
  await page.getByRole('button', { name: 'Read the limits now' }).click();
  await zones.getByRole('row', { name: new RegExp(`${zone} v4 \\d+ \\d+s ago`) }).waitFor();
  const answers = page.getByRole('table', { name: 'Answers to requests for capacity' });
  await answers.getByRole('row', { name: /v4-16 spot granted one, \d+s ago/ }).waitFor();

  // The most idle money is first.
  await page.getByRole('button', { name: /^idle \d/ }).click();
  await page.waitForURL(/state=idle/);
  await rowOf(runsName).waitFor({ state: 'hidden' });
  assert.match((await table.getByRole('row').nth(1).textContent()) ?? '', new RegExp(`^${keptName}`));
  await page.getByRole('searchbox', { name: 'Filter' }).fill('nothing has this name');
  await page.getByText('is idle and matched by “nothing has this name”.').waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await rowOf(runsName).waitFor();

  await page.getByRole('button', { name: `Release… ${keptName}` }).click();
  const question = page.getByRole('dialog', { name: keptName });
  await question.getByText('Its v4-16 is released. The same capacity may not come back.').waitFor();
  await question.getByText('jobman stop 2 --release').waitFor();
  await assertAccessible(page);
  await question.getByRole('button', { name: `Release ${keptName}` }).click();
  await rowOf(keptName).waitFor({ state: 'hidden' });
  await world.waitUntil(kept, ({ heldCapacity }) => heldCapacity === null);

  await rowOf('dev').click();
  const others = page.getByRole('dialog', { name: 'dev' });
  await others.getByText('dev does not belong to this installation; gc never touches it.').waitFor();
  await others.getByText(/^gcloud compute tpus tpu-vm delete dev /).waitFor();
  await others.getByRole('button', { name: 'Keep it as it is' }).click();
  await page.getByRole('button', { name: 'Release… unclaimed' }).click();
  await page.getByRole('button', { name: 'Release unclaimed', exact: true }).click();
  await page
    .getByRole('status')
    .getByText(/nodes\/unclaimed is deleted\./)
    .waitFor();

  // A zone that refuses its list keeps its last rows with their age.
  await world.output('emulator', 'permission', zone);
  await page.keyboard.press('r');
  const refusal = page.getByRole('alert').filter({ hasText: `Permission denied on 'locations/${zone}'` });
  await refusal.getByText(/Its rows below are \d+\w old\./).waitFor();
  await rowOf('forgotten')
    .filter({ hasText: /READY \d+s ago/ })
    .waitFor();
  await assertAccessible(page);
  const phone = await open({
    viewport: { width: 360, height: 740 },
    storageState: await page.context().storageState(),
  });
  await phone.page.goto(new URL('/tpus', address).href);
  await phone.page.getByRole('table', { name: 'TPUs' }).getByText(runsName).waitFor();
  await assertAccessible(phone.page);
  await world.output('emulator', 'clear', 'permission');
  await page.getByRole('button', { name: 'Try again' }).click();
  await refusal.waitFor({ state: 'hidden' });
  command.child.kill('SIGINT');
  assert.equal((await command.result).code, 0);
});
