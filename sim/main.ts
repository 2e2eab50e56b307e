// npm run sim -- --seeds N [--seed S] [--mutant NAME] [--trace] [--keep-going] [--found FOLDER]
// npm run sim -- --lab [--afternoon] --seeds N [--seed S] [--fault NAME] [--trace] [--keep-going] [--found FOLDER]
//
// Plays worlds and judges them; with --lab two days in the life of a lab, or an afternoon of it. Without --seed it begins at
// seed 1. Exits with 1 at the first law that is broken, and prints the law, what happened, and the command that plays
// exactly that world again. --keep-going plays the other seeds too; --found keeps the trace of each seed that broke a law in that
// folder, and the list of them in its seeds.md.

import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { anAfternoon, twoDays } from './lab-people.ts';
import { labFaults } from './lab-world.ts';
import type { LabFault } from './lab-world.ts';
import { runLab } from './lab.ts';
import { laws } from './laws.ts';
import { runOf } from './mutants.ts';
import { mutants } from './mutants/load.ts';
import { simOptions } from './options.ts';
import { run } from './run.ts';

const { values } = parseArgs({ options: simOptions });

interface Told {
  readonly violation: { readonly law: string; readonly sentence: string; readonly at: number } | null;
  readonly hash: string;
  readonly lines: readonly string[];
  readonly virtualMs: number;
}

const { trace } = values;
const mutant = values.mutant === undefined ? undefined : mutantOf(values.mutant);
const fault = values.fault === undefined ? undefined : faultNamed(values.fault);
const playWith = mutant === undefined ? run : await runOf(mutant);
const first = values.seed === undefined ? 1 : Number(values.seed);
const usually = values.lab ? 1 : 100;
const count = values.seeds === undefined ? (values.seed === undefined ? usually : 1) : Number(values.seeds);
if (!Number.isInteger(first) || !Number.isInteger(count) || count < 1) {
  console.error('--seed and --seeds want whole numbers');
  process.exit(2);
}

const began = performance.now();
let virtualMs = 0;
let broken = 0;
for (let seed = first; seed < first + count; seed += 1) {
  const story = await play(seed, trace);
  virtualMs += story.virtualMs;
  if (trace) for (const line of story.lines) console.log(line);
  if (count === 1) console.log(`seed ${seed}: trace ${story.hash}`);
  if (story.violation === null) continue;
  broken += 1;
  tell(seed, story.violation);
  if (values.found !== undefined) await keep(values.found, seed, story.violation);
  if (!values['keep-going']) process.exit(1);
}
const seconds = (performance.now() - began) / 1_000;
console.log(
  `${count} seeds, ${broken} broken, ${(virtualMs / 3_600_000).toFixed(1)} hours of pretend time in ${seconds.toFixed(1)} s, ` +
    `${(count / seconds).toFixed(1)} seeds a second`,
);
process.exit(broken === 0 ? 0 : 1);

function play(seed: number, isTraced: boolean): Promise<Told> {
  return values.lab ? playLab(seed, isTraced) : playWorld(seed, isTraced);
}

async function playWorld(seed: number, isTraced: boolean): Promise<Told> {
  const story = await playWith({ seed, trace: isTraced });
  const { violation } = story;
  if (violation === null) return { ...story, violation };
  return { ...story, violation: { ...violation, law: `${violation.law}, ${laws[violation.law]},` } };
}

async function playLab(seed: number, isTraced: boolean): Promise<Told> {
  const size = values.afternoon ? anAfternoon : twoDays;
  const story = await runLab({ seed, size, trace: isTraced, ...(fault === undefined ? {} : { fault }) });
  const { jobs, attempts, programs, lives } = story;
  const verdicts = Object.entries(story.verdicts).map(([verdict, number]) => `${number} ${verdict}`);
  console.log(
    `seed ${seed}: ${jobs} jobs, ${attempts} attempts, ${programs} programs on TPUs, ${lives} controllers; ${verdicts.join(', ')}`,
  );
  return story;
}

function commandFor(seed: number): string {
  const lab = values.lab ? ' --lab' : '';
  const size = values.afternoon ? ' --afternoon' : '';
  const mistake = mutant === undefined ? (fault === undefined ? '' : ` --fault '${fault}'`) : ` --mutant ${mutant}`;
  return `npm run sim --${lab}${size} --seed ${seed}${mistake} --trace`;
}

function tell(seed: number, { law, sentence, at }: NonNullable<Told['violation']>): void {
  console.log(`law ${law} is broken after ${(at / 1_000).toFixed(3)} s: ${sentence}`);
  console.log(`  ${commandFor(seed)}`);
}

/** Keeps the trace of a seed that broke a law, since the seed means another world as soon as the code changes. */
async function keep(folder: string, seed: number, { law, sentence }: NonNullable<Told['violation']>): Promise<void> {
  const { lines } = await play(seed, true);
  mkdirSync(folder, { recursive: true });
  const kind = values.lab ? (values.afternoon ? 'afternoon' : 'lab') : 'world';
  writeFileSync(join(folder, `${kind}-${seed}.txt`), `${lines.join('\n')}\n`);
  appendFileSync(join(folder, 'seeds.md'), `* \`${commandFor(seed)}\`: law ${law} ${sentence}\n`);
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
