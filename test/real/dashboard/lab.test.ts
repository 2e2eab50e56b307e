/** The page of a lab with two users, a member and an admin, who share TPUs of the TPU emulator; then with a spreadsheet. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { openSheetServer, sheetId } from '../../sheet/server.ts';
import { assertAccessible, openBrowser } from '../../support/browser.ts';
import { openJobWorld, type JobWorld } from '../../support/jobs.ts';
import { findProgram, requireReal } from '../../support/real.ts';

const zone = 'us-central1-b';

/** Runs until its job is killed. */
const staging = `tpu upd-log $(tmux display-message -p -t "$TMUX_PANE" '#S:#I') "$PWD" "$PWD" "\${1#ka=}" 20260420_011026
echo 'epoch: 3'; exec sleep 600
`;

/** Two users with working directories, and three TPUs, of which the first one exists. */
async function openLab(world: JobWorld): Promise<void> {
  await world.output('settings', 'set', 'tpu.project', 'emulator');
  await world.output('settings', 'set', 'lab.zones', JSON.stringify([zone]));
  await world.output('settings', 'set', 'lab.namePrefix', 'lab-');
  for (const user of ['ada', 'bob']) {
    const folder = join(world.folder, `code-${user}`);
    mkdirSync(folder);
    writeFileSync(join(folder, 'staging.sh'), staging);
    await world.output('tpu', 'add-user', `name=${user}`, `session=${user}`, `sheet=${user}`, `dir=${folder}`);
  }
  for (const number of [1, 2, 3]) await world.output('tpu', 'register', `lab-v2-8-${number}`, `zone=${zone}`);
  await world.output('tpu', 'apply', 'lab-v2-8-1');
}

test('the users of a lab see who has booked, holds and uses each TPU, and change bookings', async (t) => {
  if (!requireReal(t, 'tmux', findProgram('tmux'))) return;
  const world = openJobWorld(t);
  world.atEnd(() => void spawnSync('tmux', ['kill-server'], { env: world.env }));
  const server = world.start(['server', '--listen', '127.0.0.1:0'], { withinMs: 900_000 });
  world.atEnd(() => void server.child.kill('SIGTERM'));
  const open = await openBrowser(t, world);
  if (open === undefined) return;
  await server.waitForOutput(/runs at \S+\. /);
  const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
  const logIn = async (page: Page, path: string, ...whom: string[]) => {
    await page.goto(`${url}${path}`);
    const token = (await world.output('token', 'create', ...whom)).trim();
    await page.getByLabel('Token', { exact: true }).fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
  };
  const row = (page: Page, alias: string) => page.getByRole('row', { name: new RegExp(`^v2-8-${alias}`) });

  const { page: admin } = await open();
  await logIn(admin, '/jobs', '--name', 'root');
  await admin.getByText('No jobs yet.').waitFor();
  await admin.keyboard.press('g');
  await admin.keyboard.press('l');
  await admin.getByText('This home has no lab.').waitFor();
  await admin.getByText('tpu add-user NAME').waitFor();
  await assertAccessible(admin);

  // It runs until the end of the test.
  const emulator = world.start(['emulator', 'serve', '--speed', '200'], { withinMs: 900_000 });
  await emulator.waitForOutput('127.0.0.1');
  await openLab(world);
  const { page: bob } = await open({ viewport: { width: 360, height: 740 } });
  await logIn(bob, '/lab', '--user', 'bob');
  await bob.getByRole('button', { name: 'Book v2-8-1' }).click();
  const question = bob.getByRole('dialog', { name: 'Book v2-8-1?' });
  await question.getByText('In the booking table, lab-v2-8-1 is free.').waitFor();
  await question.getByLabel('Note').fill('until <b>monday</b>');
  await assertAccessible(bob);
  await question.getByRole('button', { name: 'Book v2-8-1 for bob' }).click();
  await bob.getByText('lab-v2-8-1 is reserved for bob in the booking table. It was free.').waitFor();
  await row(bob, '1').getByText('until <b>monday</b>').waitFor();
  await row(bob, '1')
    .getByText(/booked and idle for/)
    .waitFor();
  await bob.getByText('bob has no windows.').waitFor();

  // The job of another user takes the TPU, and then its booking is changed back.
  await world.output('tpu', 'run', 'lab-v2-8-1', 'ada', 'tag=first', '-f', '-q');
  await world.waitForPhase('000002', 'running');
  await world.output('tpu', 'book', 'lab-v2-8-1', 'bob', '--yes');
  await admin.reload();
  const differs = 'The sheet says reserved for bob, but window 1 (job 000002) of ada is running here.';
  await admin.getByText(differs).waitFor();
  await row(admin, '1').getByRole('link', { name: '000002' }).waitFor();
  await admin.getByText('3 TPUs: 2 free, 0 booked and idle').waitFor();
  await row(admin, '1')
    .getByRole('button', { name: /^Release/ })
    .press('Enter');
  await admin.getByText(/^Window 1 \(job 000002\) of ada .*A TPU with a job stays booked\./).waitFor();
  await row(admin, '1')
    .getByRole('button', { name: /^Check the programs/ })
    .click();
  await row(admin, '1').getByText('no program uses its devices').waitFor();

  // The windows of one user, with a filter in the address.
  await admin.getByLabel('User whose windows are shown').selectOption('bob');
  await admin.waitForURL(/\?user=bob$/);
  await admin.getByText('bob has no windows.').waitFor();
  await admin.goto(`${url}/lab?user=ada`);
  const window = admin.getByRole('row', { name: /^1 000002\/1 first code-ada/ });
  await window.getByText('Running(ep 3)').waitFor();
  await assertAccessible(admin);
  await admin.goto(`${url}/lab?user=zed&types=v4`);
  await admin.getByText('The lab has no user zed.').waitFor();
  await admin.getByText('None of 3 TPUs has the type v4.').waitFor();
  await assertAccessible(admin);
  await admin.goto(`${url}/lab`);

  // The question shows a change by another user while it is open.
  await row(admin, '2').getByRole('button', { name: 'Book v2-8-2' }).click();
  const taken = admin.getByRole('dialog', { name: 'Book v2-8-2?' });
  await taken.getByLabel('User').selectOption('bob');
  await taken.getByText(/You are .+; this would book v2-8-2 for bob\./).waitFor();
  await world.output('tpu', 'book', 'lab-v2-8-2', 'ada', 'ssn=mine', '--yes');
  await taken.getByText(/is reserved for ada \(mine\)\. \S+ changed it \d+s ago\./).waitFor();
  await taken.getByRole('button', { name: 'Book v2-8-2 for bob anyway' }).click();
  await admin
    .getByText('lab-v2-8-2 is reserved for bob in the booking table. It was reserved for ada (mine).')
    .waitFor();
  await row(admin, '2').getByRole('button', { name: 'Release v2-8-2' }).click();
  await admin.getByRole('dialog').getByRole('button', { name: 'Release v2-8-2' }).click();
  await admin.getByText('lab-v2-8-2 is free in the booking table. It was reserved for bob (mine).').waitFor();

  await world.output('tpu', 'kill', 'w=1', 'ada', '--yes');
  await row(admin, '1')
    .getByText(/booked and idle for/)
    .waitFor();

  const { page: eve } = await open();
  await world.output('user', 'add', 'eve', '--role', 'viewer');
  await logIn(eve, '/lab', '--user', 'eve');
  await row(eve, '3').getByRole('button', { name: 'Book v2-8-3' }).press('Enter');
  await eve.getByText('Your role is viewer, which may not change the lab.').waitFor();
  await eve.getByText('Your role is viewer, which may not see the output of the jobs of ada.').waitFor();

  // A spreadsheet that stops answering leaves its last copy, which cannot be changed.
  const sheet = await openSheetServer([
    ['', 'v2-8-1', 'lab', 'running', 'bob'],
    ['', 'v2-8-2', 'lab', 'free'],
  ]);
  world.atEnd(() => sheet.close());
  const spreadsheet = { id: sheetId, credentials: 'unused.json', endpoint: sheet.url };
  await world.output('settings', 'set', 'lab.spreadsheet', JSON.stringify(spreadsheet));
  await admin.getByText('The sheet says running for bob, but no job runs here.').waitFor();
  await row(admin, '3').getByText('not in the sheet').waitFor();
  sheet.fault = 503;
  await admin.getByText(/^The booking spreadsheet returned an error \(503\)/).waitFor();
  await admin.getByText(/These are its bookings of .* ago\. They cannot be changed until it answers\./).waitFor();
  await row(admin, '2').getByRole('button', { name: 'Book v2-8-2' }).press('Enter');
  await admin.getByText('The spreadsheet does not answer, so no booking can be changed now.').waitFor();
  await assertAccessible(admin);
  assert.equal(sheet.grid[1]?.[3], 'free');
});
