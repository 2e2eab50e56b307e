/** The logs of a job of four workers, as a person reads them: live, folded, searched, and with hostile output. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertAccessible } from '../../support/browser.ts';
import { openDashboard } from '../../support/dashboard.ts';

/**
 * Every worker prints the same steps; some have lines of their own. Worker 0 waits for two files, and then prints until the
 * job is cancelled.
 */
const program = String.raw`#!/bin/bash
w=$JOBMAN_WORKER
for i in $(seq 1 300); do
  echo "08:$((i / 60 + 10)):$((i % 60 + 100))" | cut -c 1-3,4-6,8-9 | tr -d '\n'
  echo " step $i loss 2.$w$((i % 10))"
  if [ $w = 2 -a $i = 200 ]; then echo 'Traceback (most recent call last):'; echo 'ValueError: loss is <b>NaN</b>'; fi
  if [ $w = 3 -a $i = 295 ]; then echo 'RuntimeError: peer 2 is gone'; fi
done
echo "rank $w of 4 is ready"
if [ $w = 1 ]; then
  printf '\033[1;31mred\033[0m and \033[32mgreen\033[0m\n'
  printf 'title \033]0;owned\007 \342\200\256reversed <img src=x onerror=alert(1)>\n'
  printf 'progress 10%%\rprogress 50%%\rprogress 100%%\n'
  printf '\001\002\000\377\376\375\003\004\005\006binary\n'
  head -c 1000000 /dev/zero | tr '\0' x; echo ' end of the long line'
  echo 'after the long line'
fi
if [ $w = 0 ]; then
  printf 'half of a line'; while [ ! -e ~/end ]; do sleep 0.2; done; printf ' and its end\n'
  while [ ! -e ~/ticks ]; do sleep 0.2; done
  for i in $(seq 1 100000); do echo "tick $i"; sleep 0.1; done
fi
sleep 1000
`;

const manifest = `job:
  name: logs
  files: [print.sh]
tpu:
  project: emulator
  accelerator: v4-32
  zone: us-central2-b
command:
  run: bash ~/print.sh
  workers: all
`;

test('a person reads the logs of four workers', async (t) => {
  const opened = await openDashboard(t);
  if (opened === undefined) return;
  const { world, open, address } = opened;
  writeFileSync(join(world.folder, 'print.sh'), program);
  writeFileSync(join(world.folder, 'logs.yaml'), manifest);
  await world.create('logs.yaml');
  const touch = (name: string) => world.runOk(['ssh', '000001', '--worker', '0', '--', 'touch', name]);
  const { page } = await open({ acceptDownloads: true });
  await page.goto(address);
  await page.getByRole('row', { name: /000001 logs/ }).waitFor();
  await page.goto(new URL('/jobs/000001/logs', address).href);
  const log = page.getByRole('log');
  const line = (text: string | RegExp) => log.locator('.log-line').filter({ hasText: text });
  const button = (name: string | RegExp) => page.getByRole('button', { name, exact: typeof name === 'string' });

  // An unfinished line is shown, and continues.
  await line(/half of a line$/).waitFor();
  await line(/^\[0-3\]rank 0\.\.3 of 4 is ready/).waitFor();
  await assertAccessible(page);
  await touch('end');
  await line('half of a line and its end').waitFor();

  // Hostile output is text.
  await line('red and green').locator('.ansi-1.ansi-bold').filter({ hasText: 'red' }).waitFor();
  await line(String.raw`title \x1b]0;owned\x07 \u202ereversed <img src=x onerror=alert(1)>`).waitFor();
  assert.equal(await page.locator('.log-box img').count(), 0);
  await line(/\]progress 100%$/).waitFor();
  await line('binary').locator('.chip').waitFor();
  await button(/^show all/).click();
  const whole = page.getByRole('dialog', { name: /A line of/ });
  await whole.getByText('end of the long line').waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Escape');

  // Scrolling up stops following, and the page counts what is new.
  await touch('ticks');
  await line(/tick \d+$/)
    .first()
    .waitFor();
  const follow = button('Follow');
  assert.equal(await follow.getAttribute('aria-pressed'), 'true');
  await log.hover();
  await page.mouse.wheel(0, -3000);
  await page.locator('.log-new', { hasText: /\d new below/ }).waitFor();
  assert.equal(await follow.getAttribute('aria-pressed'), 'false');

  // The first error of all workers is that of worker 2, although worker 3 failed too. The address has the position.
  await button('First error').click();
  await line(/^\[2\]Traceback/)
    .and(page.locator('.log-selected'))
    .waitFor();
  await page.getByText('First error: worker 2, then worker 3.').waitFor();
  await page.waitForURL(/position=\d%3A\d+/);
  await page.keyboard.press('e');
  await line(/^\[2\]ValueError: loss is <b>NaN<\/b>/)
    .and(page.locator('.log-selected'))
    .waitFor();
  await page.keyboard.press('e');
  await line(/^\[3\]RuntimeError/)
    .and(page.locator('.log-selected'))
    .waitFor();
  await assertAccessible(page);
  await page.waitForURL(/position=3%3A\d+/);
  await page.reload();
  await line(/^\[3\]RuntimeError/).waitFor();

  // The page of a failed job has a link to the first error.
  await page.goto(new URL('/jobs/000001/logs?position=first-error', address).href);
  await line(/^\[2\]Traceback/)
    .and(page.locator('.log-selected'))
    .waitFor();

  // The whole log is searched, not only what is drawn.
  await page.keyboard.press('Home');
  await line(/step 1 loss/).waitFor();
  await page.keyboard.press('Control+f');
  await page.keyboard.type('step 299');
  await page.keyboard.press('Enter');
  await line(/step 299 loss 2\.\d+\.\.2\.\d+/)
    .and(page.locator('.log-selected'))
    .waitFor();
  await log.locator('mark', { hasText: 'step 299' }).first().waitFor();

  await page.getByRole('searchbox').fill('/step 29[78] loss/');
  await page.getByRole('button', { name: 'Previous match' }).click();
  await line(/step 298 loss/)
    .and(page.locator('.log-selected'))
    .waitFor();
  await page.getByRole('searchbox').fill('/(/');
  await page.getByRole('button', { name: 'Next match' }).click();
  await page.getByText('/(/ is not a valid regular expression.').waitFor();

  // An expression that would take hours for the long line ends, and the page stays alive.
  await page.getByRole('searchbox').fill('/(x+x+)+y/');
  await page.getByRole('button', { name: 'Next match' }).click();
  await page.getByText('The expression takes too long.').waitFor();
  await page.getByRole('searchbox').fill('/step 29[6] loss/');
  await page.getByRole('button', { name: 'Previous match' }).click();
  await line(/step 296 loss/)
    .and(page.locator('.log-selected'))
    .waitFor();
  await log.locator('mark', { hasText: 'step 296 loss' }).first().waitFor();

  // A fold opens. Without folds each worker has its line.
  await line(/step 299/)
    .getByRole('button')
    .click();
  await line(/^\[3\].*step 299 loss/).waitFor();
  await line(/step 299/)
    .getByRole('button')
    .click();
  await button('Fold').click();
  await line(/^\[1\].*step \d+ loss 2.1/)
    .first()
    .waitFor();
  await button('Fold').click();

  // Lines above a very long one fill the view.
  await button('Worker 1').click();
  await line('after the long line').waitFor();
  await line('binary').waitFor();

  // Two workers next to each other.
  await button('Worker 2').click();
  await button('Columns').click();
  await page.getByRole('log', { name: 'Log of attempt_1/command_worker_2' }).waitFor();
  await button('First error').waitFor();
  await assertAccessible(page);
  await button('Columns').click();

  // An error on the last screen of a log stays selected, although the view is at the end.
  await button('Worker 3').click();
  await button('Worker 1').click();
  await button('Worker 2').click();
  await line('rank 3 of 4 is ready').waitFor();
  await button('First error').click();
  await page.getByText('First error: worker 3.').waitFor();
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  assert.equal(await log.locator('.log-selected').textContent(), 'RuntimeError: peer 2 is gone');
  assert.equal(await follow.getAttribute('aria-pressed'), 'false');
  await button('All').click();

  // A download has the bytes.
  await button('Download').click();
  const download = page.waitForEvent('download');
  await button('Download attempt_1/command_worker_1').click();
  const bytes = readFileSync(await (await download).path());
  const raw = await world.output('logs', '000001', '--worker', '1', '--raw');
  assert.ok(bytes.toString('utf8') === raw, 'the download is the raw log');
  assert.ok(bytes.length > 1_000_000);
  await page.keyboard.press('Escape');
  await button('Follow').click();
  await line(/tick \d+$/)
    .first()
    .waitFor();
});
