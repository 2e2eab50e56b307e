/**
 * One chaos test: `node tools/chaos/main.ts [--only KIND,...] [--jobs N] [--times N] [--seed N]`. The last line is the
 * summary. On a failure the exit code is 1, and the lines before it have the violations, the traces and the command to
 * repeat the test.
 */
import { setPriority } from 'node:os';
import { parseArgs } from 'node:util';
import { openWorld } from '../../test/support/world.ts';
import { drawPlan, faultKinds, type FaultKind } from './plan.ts';
import { runChaosTest } from './run.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    jobs: { type: 'string', default: '20' },
    times: { type: 'string' },
    seed: { type: 'string', default: '1' },
  },
});
const kinds = values.only?.split(',').map(parseKind) ?? faultKinds;
const times = values.times === undefined ? undefined : parseNumber('times', values.times);
const plan = drawPlan({
  seed: parseNumber('seed', values.seed),
  kinds,
  jobs: parseNumber('jobs', values.jobs),
  ...(times === undefined ? {} : { times: Object.fromEntries(kinds.map((kind) => [kind, times])) }),
});

// Low priority for all processes of the test, which is long.
setPriority(10);
const cleanUps: (() => Promise<void>)[] = [];
const world = openWorld({ after: (ending) => void cleanUps.push(ending) }, { patienceMs: 30_000 });
// Ctrl-C must clean up: started programs would outlive the test.
for (const [signal, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const) {
  process.once(signal, () => {
    console.log('Cut off; taking everything down.');
    void Promise.allSettled(cleanUps.map((ending) => ending())).then(() => process.exit(128 + number));
  });
}
try {
  const { violations, summary, traces } = await runChaosTest(world, plan, (line) => console.log(line));
  if (violations.length > 0) {
    process.exitCode = 1;
    for (const violation of violations) console.log(`FAILED: ${violation}`);
    console.log(`Traces: ${traces ?? 'none'}. Again: npm run long -- chaos ${process.argv.slice(2).join(' ')}`);
  }
  console.log(summary);
} finally {
  for (const ending of cleanUps) await ending();
}

function parseKind(name: string): FaultKind {
  const kind = faultKinds.find((one) => one === name);
  if (kind !== undefined) return kind;
  console.error(`There is no fault ${name}. There are: ${faultKinds.join(', ')}.`);
  process.exit(2);
}

function parseNumber(option: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  console.error(`--${option} should be a whole number from 1 on, and is ${text}.`);
  process.exit(2);
}
