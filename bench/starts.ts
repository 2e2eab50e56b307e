// Starts: how much longer a short command takes than Node with nothing to do, over a record of ten thousand jobs.
//
// Bare Node and the commands are started in turn, a few of each at a time, so that whatever else the machine does falls on
// all of them. The difference of the medians is what the budget is about. On a machine that is busy a start waits for a
// core, which lengthens everything; the processor time beside it does not.

import { spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { takeLock, type ControllerFile } from '../src/controller/lock.ts';
import { version } from '../src/version.ts';
import { jobman, node, root, withHome } from './home.ts';
import { childrenCpuMs } from './machine.ts';
import { writeRecord } from './record.ts';
import type { Result } from './result.ts';
import { quantile } from './start-times.ts';

const rounds = 20;
/** Started one after the other before it is the next one's turn: the kernel's books count by 10 ms. */
const atOnce = 4;

interface Contender {
  readonly what: string;
  readonly argv: readonly string[];
  readonly budgetMs: number;
}

const bare: Contender = { what: 'bare Node', argv: [node, '-e', '0'], budgetMs: 0 };
const contenders: readonly Contender[] = [
  { what: '`list`, 200 live among 10,000', argv: [jobman, 'list'], budgetMs: 60 },
  ...['show', 'why', 'history', 'logs'].map((verb) => ({
    what: `\`${verb}\``,
    argv: [jobman, verb, '9990'],
    budgetMs: 60,
  })),
  { what: '`list --all --json` of 10,000', argv: [jobman, 'list', '--all', '--json'], budgetMs: 150 },
  { what: '`--help`', argv: [jobman, '--help'], budgetMs: 15 },
];

interface Times {
  readonly wallMs: number[];
  cpuMs: number;
}

export function measureStarts(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    await writeRecord(home.path, 10_000, 200);
    // A controller is there, as it is where jobs are live; that it does nothing keeps the machine quiet.
    const unlock = takeLock(join(home.path, 'controller.lock'));
    const file = { pid: process.pid, version, startedAt: Date.now() } satisfies ControllerFile;
    writeFileSync(join(home.path, 'controller.json'), JSON.stringify(file));
    const all = [bare, ...contenders];
    const times = new Map(all.map((one): [Contender, Times] => [one, { wallMs: [], cpuMs: 0 }]));
    // A file, as a redirection gives: what Node's own spawn calls a pipe is a socket, which is slower to open.
    const output = openSync(join(home.path, 'output'), 'w');
    for (const one of all) start(one, home.env, output);
    for (let round = 0; round < rounds; round += 1) {
      ftruncateSync(output);
      for (const one of all) measure(one, times.get(one), home.env, output);
    }
    closeSync(output);
    unlock?.();
    rmSync(join(home.path, 'controller.json'));
    const floor = times.get(bare);
    return contenders.map((one) => resultOf(one, times.get(one), floor));
  });
}

function measure(one: Contender, times: Times | undefined, env: NodeJS.ProcessEnv, output: number): void {
  const before = childrenCpuMs();
  for (let count = 0; count < atOnce; count += 1) times?.wallMs.push(start(one, env, output));
  if (times !== undefined) times.cpuMs += childrenCpuMs() - before;
}

/** The time of one start, in milliseconds. */
function start({ argv }: Contender, env: NodeJS.ProcessEnv, output: number): number {
  const [program = '', ...words] = argv;
  const began = performance.now();
  const ended = spawnSync(program, words, { env, cwd: root, stdio: ['ignore', output, output] });
  const tookMs = performance.now() - began;
  if (ended.status !== 0) throw new Error(`${argv.join(' ')} ended with ${ended.status}`);
  return tookMs;
}

function resultOf({ what, budgetMs }: Contender, times?: Times, floor?: Times): Result {
  if (times === undefined || floor === undefined) throw new Error('nothing was measured');
  const [own, bareMs] = [quantile(times.wallMs, 0.5), quantile(floor.wallMs, 0.5)];
  const over = own - bareMs;
  const leastOver = quantile(times.wallMs, 0.1) - quantile(floor.wallMs, 0.1);
  const cpu = (one: Times): number => one.cpuMs / one.wallMs.length;
  return {
    what,
    measured: `+${over.toFixed(0)} ms`,
    budget: `+${budgetMs} ms`,
    beside:
      `bare Node ${bareMs.toFixed(0)} ms, ${(own / bareMs).toFixed(2)} times; tenth percentile +${leastOver.toFixed(0)} ms; ` +
      `processor time +${(cpu(times) - cpu(floor)).toFixed(0)} ms over ${cpu(floor).toFixed(0)} ms`,
    isKept: over <= budgetMs,
  };
}
