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

/** Of the heap's measurement. DASHBOARD_MINUTES=60 measures an hour. */
const heapMinutes = Number(process.env['DASHBOARD_MINUTES'] ?? 2);

const budgets = { paintMs: 1_000, frameMs: 17, updateMs: 2, inputMs: 100, nodes: 1_500, heapGrowth: 0.1 };

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
    const heap = await heapSizes(page);
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
      heapResult(heap),
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

/** Megabytes of live objects, at the beginning, and then after each twelfth of the time. */
async function heapSizes(page: Page): Promise<readonly number[]> {
  const session = await page.context().newCDPSession(page);
  const sizes: number[] = [];
  for (let sample = 0; sample <= 12; sample += 1) {
    if (sample > 0) await page.waitForTimeout((heapMinutes * 60_000) / 12);
    // The second collection frees what the finalizers of the first one have released.
    for (let collection = 0; collection < 2; collection += 1) await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    sizes.push(usedSize / 1e6);
  }
  await session.detach();
  return sizes;
}

function heapResult(sizes: readonly number[]): Result {
  // The caches of the page fill in the first twelfth.
  const growth = (sizes.at(-1) ?? 0) / (sizes[1] ?? 0) - 1;
  return {
    name: `dashboard, ${jobCount.toLocaleString('en')} jobs, ${changesPerSecond} changes per second: growth of the heap`,
    measured: `${(100 * growth).toFixed(1)} % in ${heapMinutes} min`,
    budget: `${100 * budgets.heapGrowth} %`,
    comparison: `${sizes.map((size) => size.toFixed(1)).join(', ')} MB`,
    isWithinBudget: growth <= budgets.heapGrowth,
  };
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
