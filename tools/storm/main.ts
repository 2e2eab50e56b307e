/**
 * One storm over real processes: `node tools/storm/main.ts [--only KIND,...] [--jobs N] [--times N] [--seed N]`. Started
 * by `npm run long -- storm`. The last line says what came of it; with a failure before it what does not hold, where the
 * traces lie and how it is played again. Exits with 1 then.
 */
import { setPriority } from 'node:os';
import { parseArgs } from 'node:util';
import { openWorld } from '../../test/support/world.ts';
import { drawPlan, faultKinds, type FaultKind } from './plan.ts';
import { runStorm } from './storm.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    jobs: { type: 'string', default: '20' },
    times: { type: 'string' },
    seed: { type: 'string', default: '1' },
  },
});
const kinds = values.only?.split(',').map(kindCalled) ?? faultKinds;
const times = values.times === undefined ? undefined : numberIn('times', values.times);
const plan = drawPlan({
  seed: numberIn('seed', values.seed),
  kinds,
  jobs: numberIn('jobs', values.jobs),
  ...(times === undefined ? {} : { times: Object.fromEntries(kinds.map((kind) => [kind, times])) }),
});

// A storm is long, and others want to work meanwhile. Everything that it starts inherits this.
setPriority(10);
const endings: (() => Promise<void>)[] = [];
const world = openWorld({ after: (ending) => void endings.push(ending) }, { patienceMs: 30_000 });
// Ctrl-C leaves nothing behind either: what was started would outlive the storm.
for (const [signal, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const) {
  process.once(signal, () => {
    console.log('Cut off; taking everything down.');
    void Promise.allSettled(endings.map((ending) => ending())).then(() => process.exit(128 + number));
  });
}
try {
  const { problems, summary, traces } = await runStorm(world, plan, (line) => console.log(line));
  if (problems.length > 0) {
    process.exitCode = 1;
    for (const problem of problems) console.log(`NOT SO: ${problem}`);
    console.log(`Traces: ${traces ?? 'none'}. Again: npm run long -- storm ${process.argv.slice(2).join(' ')}`);
  }
  console.log(summary);
} finally {
  for (const ending of endings) await ending();
}

function kindCalled(word: string): FaultKind {
  const kind = faultKinds.find((one) => one === word);
  if (kind !== undefined) return kind;
  console.error(`There is no fault ${word}. There are: ${faultKinds.join(', ')}.`);
  process.exit(2);
}

function numberIn(option: string, word: string): number {
  const value = Number(word);
  if (Number.isInteger(value) && value > 0) return value;
  console.error(`--${option} should be a whole number from 1 on, and is ${word}.`);
  process.exit(2);
}
