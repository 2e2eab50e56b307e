// The log viewer of the dashboard in headless Chromium: a log of 2 GB, and 64 workers that print. The times are those of
// the page, from the input until the lines are in the document.

import { spawn } from 'node:child_process';
import { appendFileSync, closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium, type Page } from 'playwright-core';
import { findProgram } from '../test/support/real.ts';
import { jobman, report, waitForCount, withCleanUp, withHome, type Home } from './home.ts';
import type { Result } from './result.ts';
import { quantile } from './start-times.ts';

const blocks = 2048;
const blockBytes = 1024 * 1024;
const jumps = 10;
const workers = 64;
const linesPerSecond = 100;
const followedMs = 30_000;

/** Empty without Chromium. */
export async function measureDashboardLogs(): Promise<readonly Result[]> {
  const chromiumPath = findProgram('chromium');
  if (chromiumPath === undefined) return [];
  return withHome(async (home) => {
    const logs = await startJob(home);
    return withPage(home, chromiumPath, async (page) => [
      ...(await measureLargeLog(page, logs)),
      ...(await measureWorkers(page, logs)),
    ]);
  });
}

/** A job that prints nothing by itself. Returns the folder of its logs. */
async function startJob(home: Home): Promise<string> {
  const manifest = join(home.path, 'sleep.yaml');
  writeFileSync(manifest, 'local: {}\ncommand:\n  run: sleep 3600\n');
  await home.run(['create', manifest]);
  const show = async () =>
    JSON.parse(await home.run(['show', '1', '--json'])) as { phase: string; folder: { path: string } };
  await waitForCount('jobs are running', 1, async () => ((await show()).phase === 'running' ? 1 : 0));
  const logs = join((await show()).folder.path, 'logs/attempt_1');
  mkdirSync(logs, { recursive: true });
  return logs;
}

async function withPage<T>(home: Home, executablePath: string, measure: (page: Page) => Promise<T>): Promise<T> {
  const dashboard = spawn(jobman, ['dashboard', '--no-browser'], { env: home.env });
  return withCleanUp(
    () => void dashboard.kill('SIGKILL'),
    async () => {
      let output = '';
      for await (const chunk of dashboard.stdout) {
        output += String(chunk);
        if (/open\?code=\S+\n/.test(output)) break;
      }
      const [, address = ''] = /at (http\S+)/.exec(output) ?? [];
      const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
      try {
        const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
        await page.goto(address);
        await page.getByRole('row', { name: /000001/ }).waitFor();
        return await measure(page);
      } finally {
        await browser.close();
      }
    },
  );
}

async function measureLargeLog(page: Page, folder: string): Promise<readonly Result[]> {
  const file = openSync(join(folder, 'command_worker_0.log'), 'w');
  let line = 0;
  let middle = 0;
  for (let block = 0; block < blocks; block += 1) {
    if (block === blocks / 2) middle = line;
    let text = '';
    while (text.length < blockBytes - 200) {
      line += 1;
      text += `2026-11-20T08:20:01.123Z step ${line} loss 2.1145 accuracy 0.5130 throughput 1.16 steps/s, learning rate 0.0003\n`;
    }
    writeSync(file, text);
  }
  closeSync(file);
  report(`the log has ${line} lines`);
  // The code of the page is loaded once.
  await open(page, '');
  const opened: number[] = [];
  for (let round = 0; round < 5; round += 1) opened.push(await open(page, `step ${line} `));
  const times: number[] = [];
  for (let jump = 0; jump < jumps; jump += 1) times.push(await jumpTo(page, (jump * 7) % jumps));
  const found: number[] = [];
  for (let round = 0; round < 5; round += 1) found.push(await findFromStart(page, `step ${middle} `));
  const began = performance.now();
  await page.getByRole('searchbox').fill('absent from the log');
  await page.getByRole('button', { name: 'Next match' }).click();
  await page.getByText('No further match below.').waitFor({ timeout: 300_000 });
  const searched = performance.now() - began;
  return [
    result('a log of 2 GB opens at its end', quantile(opened, 0.5), 500, 'median of 5'),
    result(
      'a jump in it',
      quantile(times, 0.5),
      200,
      `median of ${jumps}; longest ${Math.max(...times).toFixed(0)} ms`,
    ),
    result('search for a line after 1 GB', quantile(found, 0.5), 1000, 'median of 5'),
    {
      name: 'search of the other 1 GB for an absent text',
      measured: `${(searched / 1000).toFixed(1)} s`,
      budget: '-',
      comparison: '-',
      isWithinBudget: null,
    },
  ];
}

function result(name: string, ms: number, budget: number, comparison: string): Result {
  return { name, measured: `${ms.toFixed(0)} ms`, budget: `${budget} ms`, comparison, isWithinBudget: ms <= budget };
}

/** Goes to the logs, as a link of the page does. */
function open(page: Page, text: string): Promise<number> {
  return page.evaluate<number>(`(async () => {
    const goTo = (path) => {
      history.pushState(null, '', path);
      dispatchEvent(new PopStateEvent('popstate'));
    };
    goTo('/jobs');
    await new Promise((resolve) => setTimeout(resolve, 500));
    const began = performance.now();
    goTo('/jobs/000001/logs');
    const isThere = () =>
      [...document.querySelectorAll('.log-line')].some((line) => line.textContent.includes(${JSON.stringify(text)}));
    while (!isThere()) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  })()`);
}

/** From the beginning of the log to the only line with the text. */
async function findFromStart(page: Page, text: string): Promise<number> {
  await page.getByRole('log').press('Home');
  await page.getByText(/step 1 loss/).waitFor();
  await page.getByRole('searchbox').fill(text);
  const began = performance.now();
  await page.getByRole('button', { name: 'Next match' }).click();
  await page.locator('.log-selected').getByText(text).waitFor();
  return performance.now() - began;
}

/** To this tenth of the log. */
function jumpTo(page: Page, tenth: number): Promise<number> {
  return page.evaluate<number>(`(async () => {
    const slider = document.querySelector('input[type=range]');
    const first = () => document.querySelector('.log-line')?.textContent;
    const before = first();
    const began = performance.now();
    slider.value = '${tenth * 100 + 33}';
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    while (first() === before) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  })()`);
}

async function measureWorkers(page: Page, folder: string): Promise<readonly Result[]> {
  const files = Array.from({ length: workers }, (_, worker) => join(folder, `command_worker_${worker}.log`));
  for (const file of files) writeFileSync(file, 'begin\n');
  await open(page, 'begin');
  const session = await page.context().newCDPSession(page);
  // Processor time of the main thread, not the time in which others have the core.
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const metric = async (name: string): Promise<number> =>
    (await session.send('Performance.getMetrics')).metrics.find((one) => one.name === name)?.value ?? 0;
  let step = 0;
  const began = performance.now();
  let before = 0;
  let beganAt = 0;
  while (performance.now() - began < followedMs) {
    if (beganAt === 0 && performance.now() - began > followedMs / 3) {
      before = await metric('TaskDuration');
      beganAt = performance.now();
    }
    const from = step;
    step = Math.floor(((performance.now() - began) / 1000) * linesPerSecond);
    files.forEach((file, worker) => {
      const lines = Array.from({ length: step - from }, (_, index) => textOf(from + index, worker));
      appendFileSync(file, lines.join(''));
    });
    await sleep(100);
  }
  const share = ((await metric('TaskDuration')) - before) / ((performance.now() - beganAt) / 1000);
  const nodes = await page.evaluate<number>('document.querySelectorAll("*").length');
  return [
    {
      name: `${workers} workers with ${linesPerSecond} lines per second, main thread of the page`,
      measured: `${(share * 100).toFixed(1)}% of a core`,
      budget: '10%',
      comparison: `${nodes} nodes in the document, heap ${((await metric('JSHeapUsedSize')) / 1e6).toFixed(0)} MB`,
      isWithinBudget: share <= 0.1,
    },
  ];
}

/** Every tenth line is of one worker alone. */
function textOf(step: number, worker: number): string {
  return step % 10 === 0
    ? `worker ${worker} reports ${step * worker} items\n`
    : `step ${step} loss 2.${worker}${step % 10}\n`;
}
