// Dashboard: the list of ten thousand jobs in headless Chromium while a hundred of them change per second. Times are those
// of the browser: frames between two animations, and from an input to the next painted frame (Event Timing API).

import { chromium, type Page } from 'playwright-core';
import { findProgram } from '../test/support/real.ts';
import { openSampleDashboard } from './sample-dashboard.ts';
import type { Result } from './result.ts';
import { quantile } from './start-times.ts';

const jobCount = 10_000;
const changesPerSecond = 100;
const measuredMs = 5_000;

const budgets = { paintMs: 1_000, frameMs: 17, updateMs: 2, inputMs: 100, nodes: 1_500 };

/** Empty without Chromium. */
export async function measureDashboard(): Promise<readonly Result[]> {
  const executablePath = findProgram('chromium');
  if (executablePath === undefined) return [];
  const dashboard = await openSampleDashboard(jobCount);
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(dashboard.address);
    const paintMs = await firstPaint(page);
    await page.getByText(/^[\d,]+ jobs/).waitFor();
    const nodes = Number(await page.evaluate('document.querySelectorAll("*").length'));
    const quiet = await busyTime(page);
    dashboard.change(changesPerSecond);
    const busy = await busyTime(page);
    const frames = await scrollFrames(page);
    const inputs = await inputTimes(page);
    const updateMs = Math.max(0, busy - quiet) / ((changesPerSecond * measuredMs) / 1000 / 20);
    return [
      resultOf('first paint of the rows', paintMs, budgets.paintMs, 'ms', 'one load, with the script in the cache'),
      resultOf(
        'frame while scrolling, 95th percentile',
        quantile(frames, 0.95),
        budgets.frameMs,
        'ms',
        `median ${quantile(frames, 0.5).toFixed(1)} ms of ${frames.length} frames`,
      ),
      resultOf(
        'work of the page for 20 changed rows',
        updateMs,
        budgets.updateMs,
        'ms',
        'script, style and layout, with the read of the rows',
      ),
      resultOf(
        'from a click or a key to the next frame, the longest',
        Math.max(...inputs),
        budgets.inputMs,
        'ms',
        `${inputs.length} inputs`,
      ),
      resultOf('elements of the page', nodes, budgets.nodes, '', '1280 × 800 pixels'),
    ];
  } finally {
    await browser.close();
    await dashboard.close();
  }
}

function resultOf(what: string, value: number, budget: number, unit: string, comparison: string): Result {
  const [measured, limit] = [value, budget].map((one) => `${unit === '' ? one : one.toFixed(1)} ${unit}`.trim());
  return {
    name: `dashboard, ${jobCount.toLocaleString('en')} jobs, ${changesPerSecond} changes per second: ${what}`,
    measured: measured ?? '',
    budget: limit ?? '',
    comparison,
    isWithinBudget: value <= budget,
  };
}

/** Milliseconds from the start of a load to the first painted row. */
async function firstPaint(page: Page): Promise<number> {
  await page.addInitScript(`
    new MutationObserver((_, observer) => {
      if (document.querySelector('tbody tr:not(.space)') === null) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => (window.firstRowAt = performance.now())));
    }).observe(document, { subtree: true, childList: true });
  `);
  await page.reload();
  await page.locator('tbody tr:not(.space)').first().waitFor();
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 100)))');
  return Number(await page.evaluate('window.firstRowAt'));
}

/** Milliseconds of script, style and layout in the measured time. */
async function busyTime(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const read = async (): Promise<number> => {
    const { metrics } = await session.send('Performance.getMetrics');
    const names = ['ScriptDuration', 'LayoutDuration', 'RecalcStyleDuration'];
    return metrics.filter(({ name }) => names.includes(name)).reduce((sum, { value }) => sum + 1000 * value, 0);
  };
  const before = await read();
  await page.waitForTimeout(measuredMs);
  const after = await read();
  await session.detach();
  return after - before;
}

/** The times between the frames of a scroll through the list. */
async function scrollFrames(page: Page): Promise<readonly number[]> {
  return (await page.evaluate(`new Promise((resolve) => {
    const box = document.querySelector('.table-box');
    const times = [];
    let last = performance.now();
    const begin = last;
    const step = (now) => {
      times.push(now - last);
      last = now;
      box.scrollTop += 60;
      if (now - begin < ${measuredMs}) requestAnimationFrame(step);
      else resolve(times.slice(2));
    };
    requestAnimationFrame(step);
  })`)) as readonly number[];
}

async function inputTimes(page: Page): Promise<readonly number[]> {
  await page.evaluate(`
    window.inputTimes = [];
    new PerformanceObserver((list) => {
      for (const { name, duration } of list.getEntries()) if (/^(keydown|click|input)$/.test(name)) window.inputTimes.push(duration);
    }).observe({ type: 'event', durationThreshold: 16 });
  `);
  for (let round = 0; round < 5; round += 1) {
    await page.getByRole('button', { name: /^running/ }).click();
    await page.keyboard.press('j');
    await page.getByRole('button', { name: /^running/ }).click();
    await page.getByLabel('Filter').pressSequentially('vit', { delay: 150 });
    await page.getByLabel('Filter').fill('');
    await page.waitForTimeout(300);
  }
  return (await page.evaluate('window.inputTimes')) as readonly number[];
}
