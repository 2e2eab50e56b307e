// npm run sim -- --seeds N [--seed S] [--mutant NAME] [--trace] [--keep-going] [--found FOLDER]
// npm run sim -- --lab [--afternoon] --seeds N [--seed S] [--fault NAME] [--trace] [--keep-going] [--found FOLDER]
//
// Simulates worlds and checks their invariants; with --lab two days of a lab, or one afternoon. Without --seed it starts
// at seed 1. At the first broken invariant it prints the invariant and the command that repeats this world, and exits
// with 1. --keep-going continues with the other seeds. --found writes the trace of each broken seed to that folder, and
// their list to its seeds.md.

import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { anAfternoon, twoDays } from './lab-people.ts';
import { labFaults } from './lab-world.ts';
import type { LabFault } from './lab-world.ts';
import { runLab } from './lab.ts';
import { invariants } from './invariants.ts';
import { runOf } from './mutants.ts';
import { mutants } from './mutants/load.ts';
import { simOptions } from './options.ts';
import { run } from './run.ts';

const { values } = parseArgs({ options: simOptions });

interface SeedResult {
  readonly violation: { readonly invariant: string; readonly message: string; readonly at: number } | null;
  readonly hash: string;
  readonly lines: readonly string[];
  readonly virtualMs: number;
}

const { trace } = values;
const mutant = values.mutant === undefined ? undefined : mutantOf(values.mutant);
const fault = values.fault === undefined ? undefined : faultNamed(values.fault);
const runSeed = mutant === undefined ? run : await runOf(mutant);
const first = values.seed === undefined ? 1 : Number(values.seed);
const defaultCount = values.lab ? 1 : 100;
const count = values.seeds === undefined ? (values.seed === undefined ? defaultCount : 1) : Number(values.seeds);
if (!Number.isInteger(first) || !Number.isInteger(count) || count < 1) {
  console.error('--seed and --seeds take whole numbers');
  process.exit(2);
}

const startedAt = performance.now();
let virtualMs = 0;
let broken = 0;
for (let seed = first; seed < first + count; seed += 1) {
  const result = await play(seed, trace);
  virtualMs += result.virtualMs;
  if (trace) for (const line of result.lines) console.log(line);
  if (count === 1) console.log(`seed ${seed}: trace ${result.hash}`);
  if (result.violation === null) continue;
  broken += 1;
  printViolation(seed, result.violation);
  if (values.found !== undefined) await saveTrace(values.found, seed, result.violation);
  if (!values['keep-going']) process.exit(1);
}
const seconds = (performance.now() - startedAt) / 1_000;
console.log(
  `${count} seeds, ${broken} broken, ${(virtualMs / 3_600_000).toFixed(1)} simulated hours in ${seconds.toFixed(1)} s, ` +
    `${(count / seconds).toFixed(1)} seeds per second`,
);
process.exit(broken === 0 ? 0 : 1);

function play(seed: number, isTraced: boolean): Promise<SeedResult> {
  return values.lab ? playLab(seed, isTraced) : playWorld(seed, isTraced);
}

async function playWorld(seed: number, isTraced: boolean): Promise<SeedResult> {
  const result = await runSeed({ seed, trace: isTraced });
  const { violation } = result;
  if (violation === null) return { ...result, violation };
  return {
    ...result,
    violation: { ...violation, invariant: `${violation.invariant}, ${invariants[violation.invariant]},` },
  };
}

async function playLab(seed: number, isTraced: boolean): Promise<SeedResult> {
  const size = values.afternoon ? anAfternoon : twoDays;
  const result = await runLab({ seed, size, trace: isTraced, ...(fault === undefined ? {} : { fault }) });
  const { jobs, attempts, programs, controllers } = result;
  const verdicts = Object.entries(result.verdicts).map(([verdict, number]) => `${number} ${verdict}`);
  console.log(
    `seed ${seed}: ${jobs} jobs, ${attempts} attempts, ${programs} programs on TPUs, ${controllers} controllers; ${verdicts.join(', ')}`,
  );
  return result;
}

function commandFor(seed: number): string {
  const lab = values.lab ? ' --lab' : '';
  const size = values.afternoon ? ' --afternoon' : '';
  const faultFlag = mutant === undefined ? (fault === undefined ? '' : ` --fault '${fault}'`) : ` --mutant ${mutant}`;
  return `npm run sim --${lab}${size} --seed ${seed}${faultFlag} --trace`;
}

function printViolation(seed: number, { invariant, message, at }: NonNullable<SeedResult['violation']>): void {
  console.log(`invariant ${invariant} is broken after ${(at / 1_000).toFixed(3)} s: ${message}`);
  console.log(`  ${commandFor(seed)}`);
}

/** The trace stays useful after the code changes, when the seed gives another world. */
async function saveTrace(
  folder: string,
  seed: number,
  { invariant, message }: NonNullable<SeedResult['violation']>,
): Promise<void> {
  const { lines } = await play(seed, true);
  mkdirSync(folder, { recursive: true });
  const kind = values.lab ? (values.afternoon ? 'afternoon' : 'lab') : 'world';
  writeFileSync(join(folder, `${kind}-${seed}.txt`), `${lines.join('\n')}\n`);
  appendFileSync(join(folder, 'seeds.md'), `* \`${commandFor(seed)}\`: invariant ${invariant} ${message}\n`);
}

function mutantOf(name: string): string {
  const names = mutants.map((one) => one.name);
  if (names.includes(name)) return name;
  console.error(`there is no mutant ${name}; there are: ${names.join(', ')}`);
  process.exit(2);
}

function faultNamed(name: string): LabFault {
  const all = Object.keys(labFaults) as LabFault[];
  const found = all.find((one) => one === name);
  if (found === undefined) {
    console.error(`there is no fault ${name}; there are: ${all.join(', ')}`);
    process.exit(2);
  }
  return found;
}
