// Starts: additional time of a short command over an idle Node, with ten thousand jobs in the database. All programs
// alternate in small batches, so that other load affects all of them. The budget is for the difference of the medians.
// On a busy machine a start also waits for a core; the processor time does not include that.

import { spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { takeLock, type ControllerFile } from '../src/controller/lock.ts';
import { schemaVersion } from '../src/store/database.ts';
import { version } from '../src/version.ts';
import { jobman, node, root, withHome } from './home.ts';
import { childrenCpuMs } from './machine.ts';
import { writeDatabase } from './sample-database.ts';
import type { Result } from './result.ts';
import { quantile } from './start-times.ts';

const rounds = 20;
/** Starts in a row for each program, because the kernel counts processor time in units of 10 ms. */
const batchSize = 4;

interface MeasuredCommand {
  readonly name: string;
  readonly argv: readonly string[];
  readonly budgetMs: number;
}

const bareNode: MeasuredCommand = { name: 'bare Node', argv: [node, '-e', '0'], budgetMs: 0 };
const measuredCommands: readonly MeasuredCommand[] = [
  { name: '`list`, 200 live among 10,000', argv: [jobman, 'list'], budgetMs: 60 },
  ...['show', 'why', 'history', 'logs'].map((verb) => ({
    name: `\`${verb}\``,
    argv: [jobman, verb, '9990'],
    budgetMs: 60,
  })),
  // About 36,000 rows of the usage ledger: see sample-database.ts.
  { name: '`cost` of 10,000 jobs', argv: [jobman, 'cost'], budgetMs: 150 },
  { name: '`list --all --json` of 10,000', argv: [jobman, 'list', '--all', '--json'], budgetMs: 150 },
  { name: '`--help`', argv: [jobman, '--help'], budgetMs: 15 },
];

interface Times {
  readonly wallMs: number[];
  cpuMs: number;
}

export function measureStarts(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    await writeDatabase(home.path, 10_000, 200);
    // Live jobs imply a controller; an idle one keeps the machine quiet.
    const unlock = takeLock(join(home.path, 'controller.lock'));
    const file = {
      pid: process.pid,
      version,
      schema: schemaVersion,
      startedAt: Date.now(),
      database: 'state.db',
      isServer: false,
    } satisfies ControllerFile;
    writeFileSync(join(home.path, 'controller.json'), JSON.stringify(file));
    const all = [bareNode, ...measuredCommands];
    const times = new Map(all.map((one): [MeasuredCommand, Times] => [one, { wallMs: [], cpuMs: 0 }]));
    // A file, as with a redirection: a pipe of Node's spawn is a socket, which takes longer to open.
    const output = openSync(join(home.path, 'output'), 'w');
    for (const one of all) start(one, home.env, output);
    for (let round = 0; round < rounds; round += 1) {
      ftruncateSync(output);
      for (const one of all) measure(one, times.get(one), home.env, output);
    }
    closeSync(output);
    unlock?.();
    rmSync(join(home.path, 'controller.json'));
    const floor = times.get(bareNode);
    return measuredCommands.map((one) => resultOf(one, times.get(one), floor));
  });
}

function measure(one: MeasuredCommand, times: Times | undefined, env: NodeJS.ProcessEnv, output: number): void {
  const before = childrenCpuMs();
  for (let count = 0; count < batchSize; count += 1) times?.wallMs.push(start(one, env, output));
  if (times !== undefined) times.cpuMs += childrenCpuMs() - before;
}

function start({ argv }: MeasuredCommand, env: NodeJS.ProcessEnv, output: number): number {
  const [program = '', ...args] = argv;
  const began = performance.now();
  const ended = spawnSync(program, args, { env, cwd: root, stdio: ['ignore', output, output] });
  const tookMs = performance.now() - began;
  if (ended.status !== 0) throw new Error(`${argv.join(' ')} ended with ${ended.status}`);
  return tookMs;
}

function resultOf({ name, budgetMs }: MeasuredCommand, times?: Times, floor?: Times): Result {
  if (times === undefined || floor === undefined) throw new Error('nothing was measured');
  const [own, bareMs] = [quantile(times.wallMs, 0.5), quantile(floor.wallMs, 0.5)];
  const over = own - bareMs;
  const overAtTenth = quantile(times.wallMs, 0.1) - quantile(floor.wallMs, 0.1);
  const cpu = (one: Times): number => one.cpuMs / one.wallMs.length;
  return {
    name,
    measured: `+${over.toFixed(0)} ms`,
    budget: `+${budgetMs} ms`,
    comparison:
      `bare Node ${bareMs.toFixed(0)} ms, ${(own / bareMs).toFixed(2)} times; tenth percentile +${overAtTenth.toFixed(0)} ms; ` +
      `processor time +${(cpu(times) - cpu(floor)).toFixed(0)} ms over ${cpu(floor).toFixed(0)} ms`,
    isWithinBudget: over <= budgetMs,
  };
}
