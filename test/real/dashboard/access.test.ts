/** Users, tokens, the audit log and the settings of a server, for an admin and for a viewer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertAccessible, openBrowser } from '../../support/browser.ts';
import { openJobWorld } from '../../support/jobs.ts';

test('an admin adds a user, limits and disables them; a viewer sees only what is theirs', async (t) => {
  const world = openJobWorld(t);
  // It runs until the end of the test.
  const server = world.start(['server', '--listen', '127.0.0.1:0'], { withinMs: 900_000 });
  world.atEnd(() => void server.child.kill('SIGTERM'));
  const open = await openBrowser(t, world);
  if (open === undefined) return;
  await server.waitForOutput(/runs at \S+\. /);
  const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
  const token = (await world.output('token', 'create', '--name', 'root')).trim();
  const logIn = async (page: Page, value: string) => {
    await page.getByLabel('Token', { exact: true }).fill(value);
    await page.getByRole('button', { name: 'Log in' }).click();
  };

  const { page, context } = await open();
  // The address of the page is kept during the login.
  await page.goto(`${url}/users`);
  await logIn(page, 'wrong');
  await page.getByText('does not accept this token').waitFor();
  await logIn(page, token);
  await page.getByRole('form', { name: 'New user' }).waitFor();
  await page.getByLabel('Name', { exact: true }).fill('bob');
  await page.getByRole('button', { name: 'Add a user' }).click();
  await page.getByRole('rowheader', { name: 'bob' }).waitFor();
  await page.getByLabel('Role of bob').selectOption('viewer');
  await page.getByRole('button', { name: 'Limits of bob' }).click();
  await page.getByLabel('Unfinished jobs').fill('3');
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Save the limits of bob' }).click();
  await page.getByRole('cell', { name: '3 jobs' }).waitFor();
  await assertAccessible(page);

  // A page that cannot be drawn leaves the others.
  await page.route('**/v1/tokens*', (route) => route.fulfill({ json: { rows: [null] } }));
  const menu = page.getByRole('navigation', { name: 'Pages' });
  await menu.getByRole('link', { name: 'Tokens' }).click();
  await page.getByRole('alert').getByText('This page cannot be drawn').waitFor();
  await page.unroute('**/v1/tokens*');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('form', { name: 'New token' }).waitFor();
  await menu.getByRole('link', { name: 'Users' }).click();
  await page.getByRole('rowheader', { name: 'bob' }).waitFor();

  const bobs = (await world.output('token', 'create', '--user', 'bob')).trim();
  const bob = await open({ viewport: { width: 360, height: 740 } });
  await bob.page.goto(`${url}/tokens`);
  await logIn(bob.page, bobs);
  await bob.page.getByLabel('Name', { exact: true }).fill('laptop');
  await bob.page.getByRole('button', { name: 'Create a token' }).dblclick();
  const shown = await bob.page.locator('.notice code').textContent();
  assert.match(shown ?? '', /^jobman_\w{38}$/);
  assert.equal(await bob.page.evaluate('document.querySelector(".notice").getBoundingClientRect().right <= 360'), true);
  await bob.page.getByRole('button', { name: 'I have stored it' }).click();
  assert.equal(await bob.page.getByText(shown ?? '').count(), 0);
  assert.equal(await bob.page.getByRole('alert').count(), 0);
  await assertAccessible(bob.page);
  await bob.page.getByRole('button', { name: 'Revoke laptop' }).click();
  await bob.page.getByRole('dialog').getByRole('button', { name: 'Revoke laptop' }).click();
  await bob.page.getByRole('cell', { name: 'revoked' }).waitFor();
  await bob.page.goto(`${url}/users`);
  await bob.page.getByText('Only an admin sees and changes other users.').waitFor();
  bob.problems.length = 0;
  await bob.page.goto(`${url}/settings`);
  await bob.page.getByRole('alert').waitFor();
  assert.match(bob.problems.splice(0).join(), /status of 403/);

  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.getByLabel('Filter').fill('server.rate');
  await page.getByRole('rowheader', { name: 'server.rate_limit' }).waitFor();
  await assertAccessible(page);
  await page.goto(`${url}/users`);
  await page.getByRole('button', { name: 'Disable bob' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disable bob' }).click();
  await page.getByRole('button', { name: /Enable \(disabled/ }).waitFor();
  await bob.page.reload();
  await bob.page.getByRole('dialog', { name: 'Log in' }).waitFor();

  await page.goto(`${url}/audit`);
  await page.getByLabel('User').fill('bob');
  await page.getByLabel('User').press('Enter');
  await page.waitForURL(/\?user=bob$/);
  await page.getByRole('cell', { name: 'revoke-token' }).waitFor();
  await assertAccessible(page);

  // The page of a server that restarts continues with what changed meanwhile.
  server.child.kill('SIGTERM');
  assert.equal((await server.result).code, 0);
  await page.getByRole('button', { name: /offline/ }).waitFor();
  const { host } = new URL(url);
  const next = world.start(['server', '--listen', host], { withinMs: 900_000 });
  world.atEnd(() => void next.child.kill('SIGTERM'));
  await next.waitForOutput(/runs at \S+\. /);
  await page.getByText('live', { exact: true }).waitFor();

  // The end of the session loses nothing typed, and a login in one tab counts for all.
  const tab = await context.newPage();
  await tab.goto(`${url}/audit`);
  await tab.getByRole('cell', { name: 'revoke-token' }).waitFor();
  await page.goto(`${url}/users`);
  await page.getByRole('form', { name: 'New user' }).getByLabel('Name').fill('dora');
  await page.getByRole('button', { name: 'Limits of bob' }).click();
  await page.getByLabel('Unfinished jobs').fill('4');
  const [second, carols] = [
    await world.output('token', 'create', '--name', 'second'),
    await world.output('user', 'add', 'carol').then(() => world.output('token', 'create', '--user', 'carol')),
  ];
  await world.runOk(['token', 'revoke', 'root']);
  await page.getByRole('button', { name: 'Save the limits of bob' }).click();
  await page.getByText('Nothing that you typed is lost.').waitFor();
  await tab.getByLabel('Only refused requests').check();
  await logIn(tab, second.trim());
  await page.getByRole('dialog', { name: 'Log in' }).waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Save the limits of bob' }).click();
  await page.getByRole('cell', { name: '4 jobs' }).waitFor();
  assert.equal(await page.getByRole('form', { name: 'New user' }).getByLabel('Name').inputValue(), 'dora');

  // Another user sees nothing of the former one in any tab.
  await world.runOk(['token', 'revoke', 'second']);
  await tab.getByLabel('Only refused requests').uncheck();
  await logIn(tab, carols.trim());
  await page.locator('summary', { hasText: 'carol' }).waitFor();
  await page.getByText('Only an admin sees and changes other users.').waitFor();

  // A log-out hides what all tabs of the user show.
  await page.locator('summary', { hasText: 'carol' }).click();
  await page.getByRole('button', { name: 'Log out' }).click();
  for (const one of [page, tab]) {
    await one.getByRole('dialog', { name: 'Log in' }).waitFor();
    await one.getByRole('cell').first().waitFor({ state: 'detached' });
  }
});
