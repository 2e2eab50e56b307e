// Top: one redraw of a thousand jobs with four workers each, of which a few have new figures, on a terminal of 160 by 50.
// In the same process the redraw of `list --watch`, and in the same run the start of an idle Node.

import type { JobActivity } from '../src/app/activity.ts';
import type { Stream } from '../src/app/services.ts';
import { topRows, workerKey, type MeasuredWorker, type TopInput } from '../src/app/top.ts';
import { createPainter } from '../src/cli/block.ts';
import { topLines } from '../src/cli/render/top.ts';
import { topFrame, type TopState } from '../src/cli/top/screen.ts';
import { listFrame } from '../src/cli/watch/frame.ts';
import { jobActivity, measuredWorker } from '../test/support/top-builders.ts';
import { node, withHome } from './home.ts';
import type { Result } from './result.ts';
import { quantile, startTimes } from './start-times.ts';

const jobCount = 1_000;
const workerCount = 4;
const changedCount = 5;
const rounds = 100;
const budgetMs = 50;
const budgetBytes = 2_048;

const size = { columns: 160, rows: 50 };
const now = Date.UTC(2026, 10, 21, 8, 20, 14);
const plain = { styler: (_style: string, text: string) => text, unicode: true, now };

/** Both pictures show the newest jobs; those with new figures are among them. */
export function measureTop(): Promise<readonly Result[]> {
  return withHome((home) => {
    const jobs = Array.from({ length: jobCount }, (_, index) => aJob(jobCount - index));
    const data = withFigures(jobs);
    const top = redraws((round) => topPicture(data, round));
    const list = redraws((round) => listPicture(jobs, round));
    const bareMs = quantile(startTimes({ bare: [node, '-e', '0'] }, 10, home).bare, 0.5);
    const ms = quantile(top.times, 0.5);
    return Promise.resolve([
      {
        name: `\`top\`: a redraw of ${jobCount.toLocaleString('en')} jobs with ${workerCount} workers each`,
        measured: `${ms.toFixed(1)} ms`,
        budget: `${budgetMs} ms`,
        comparison:
          `processor time ${top.cpuMs.toFixed(1)} ms, of \`list --watch\` ${list.cpuMs.toFixed(1)} ms; the start of a bare Node ${bareMs.toFixed(0)} ms, ` +
          `${(ms / bareMs).toFixed(2)} times; ninetieth percentile ${quantile(top.times, 0.9).toFixed(1)} ms`,
        isWithinBudget: ms <= budgetMs,
      },
      {
        name: `\`top\`: bytes of that redraw, ${changedCount} jobs changed`,
        measured: `${top.bytes}`,
        budget: `${budgetBytes}`,
        comparison: `the whole picture ${top.wholeBytes}`,
        isWithinBudget: top.bytes <= budgetBytes,
      },
    ]);
  });
}

function aJob(number: number): JobActivity {
  return jobActivity({
    id: String(number).padStart(6, '0'),
    name: `run-${number % 97}`,
    owner: `user${number % 8}`,
    workers: Array.from({ length: workerCount }, (_, worker) => ({
      worker,
      address: `10.164.0.${worker}`,
      message: 'running',
      logAt: now - 1_000 * worker,
      lastLine: `step ${number} loss 2.114`,
    })),
  });
}

/** `bytes`: the median of a redraw after a few changes. */
function redraws(picture: (round: number) => readonly string[]): {
  readonly times: readonly number[];
  /** The mean of the processor time. */
  readonly cpuMs: number;
  readonly bytes: number;
  readonly wholeBytes: number;
} {
  const sizes: number[] = [];
  const stream: Stream = {
    write: (text) => void sizes.push(typeof text === 'string' ? Buffer.byteLength(text) : text.length),
    flush: () => Promise.resolve(),
    isTerminal: true,
    size: () => size,
    onResize: () => () => undefined,
    watchReader: () => () => undefined,
    closed: false,
  };
  const painter = createPainter(stream);
  painter.draw(picture(0));
  const times: number[] = [];
  const cpu = process.cpuUsage();
  for (let round = 1; round <= rounds; round += 1) {
    const began = performance.now();
    painter.draw(picture(round));
    times.push(performance.now() - began);
  }
  const { user, system } = process.cpuUsage(cpu);
  const [wholeBytes = 0, ...changes] = sizes;
  return { times, cpuMs: (user + system) / 1_000 / rounds, bytes: quantile(changes, 0.5), wholeBytes };
}

const state: TopState = {
  order: 'newest',
  onlyUser: null,
  onlyZone: null,
  selected: null,
  expanded: new Set(),
  showsKeys: false,
};

function topPicture({ jobs, workers }: TopData, round: number): readonly string[] {
  for (const job of jobs.slice(0, changedCount)) {
    for (const { worker } of job.workers)
      workers.set(workerKey(job, worker), measuredWorker({ cpuPercent: (round * 7) % 100 }));
  }
  const input: TopInput = { jobs, clusterJobs: [], workers, tpus: { list: null, at: now, message: null }, limits: [] };
  const rows = topRows(input, {});
  const lines = topLines(rows, 'newest', () => false);
  const clock = now + 1_000 * round;
  const frame = { rows, lines, state, clock, height: size.rows, hasKeys: true, notes: [] };
  return topFrame(frame, { ...plain, columns: size.columns }).picture;
}

interface TopData {
  readonly jobs: readonly JobActivity[];
  readonly workers: Map<string, MeasuredWorker>;
}

function withFigures(jobs: readonly JobActivity[]): TopData {
  const keys = jobs.flatMap((job) => job.workers.map(({ worker }) => workerKey(job, worker)));
  return { jobs, workers: new Map(keys.map((key) => [key, measuredWorker()])) };
}

function listPicture(jobs: readonly JobActivity[], round: number): readonly string[] {
  const rows = jobs.map((job, index) => (index < changedCount ? { ...job, message: `running for ${round}s` } : job));
  return listFrame({
    ...size,
    ...plain,
    colour: true,
    jobs: { rows, more: 0, notes: [] },
    selected: null,
    changed: new Set(),
    footer: `round ${round}`,
  });
}
