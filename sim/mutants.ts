// node sim/mutants.ts [--write]
//
// Plays worlds with each mutant in turn and counts the seeds until an invariant notices it. With --write the table in
// MUTANTS.md is made anew. Exits with 1 when a mutant goes unnoticed, or when an invariant is left that no mutant has broken.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { invariants } from './invariants.ts';
import type { InvariantNumber } from './invariants.ts';
import { mutantNamed, mutants, importMutant } from './mutants/load.ts';
import type { run } from './run.ts';

export const maxSeeds = 500;

export interface FoundMutant {
  readonly mutant: string;
  readonly description: string;
  readonly invariant: InvariantNumber;
  /** The first seed that showed it, which is also how many were played. */
  readonly seed: number;
}

/** The function that plays a world with that mutant in the program. */
export async function runOf(mutant: string): Promise<typeof run> {
  // The module is a copy of run.ts, which a hook has made.
  const copy = (await importMutant(new URL('run.ts', import.meta.url).href, mutant)) as { readonly run: typeof run };
  return copy.run;
}

/** Plays seeds from 1 on until an invariant notices the mutant; undefined when none does within `most`. */
export async function findMutant(mutant: string, most: number): Promise<FoundMutant | undefined> {
  const { description } = mutantNamed(mutant);
  const runSeed = await runOf(mutant);
  for (let seed = 1; seed <= most; seed += 1) {
    const { violation } = await runSeed({ seed });
    if (violation !== null) return { mutant, description, invariant: violation.invariant, seed };
  }
  return undefined;
}

function pageOf(found: readonly FoundMutant[]): string {
  const rows = found.map(
    ({ mutant, description, invariant, seed }) =>
      `| \`${mutant}\` | ${description} | ${invariant}, ${invariants[invariant]} | ${seed} |`,
  );
  return [
    '# Mutants, and the invariants that find them',
    '',
    'Each mutant is a patch in `sim/mutants/*.patch` (`npm run sim -- --mutant NAME` plays with it). The invariant is the one',
    'that noticed first, the seed the first in which it did, counted from 1. Made by `node sim/mutants.ts --write`.',
    '',
    '| mutant | what goes wrong | found by invariant | in seed |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } });
  const found: FoundMutant[] = [];
  let isWhole = true;
  for (const { name } of mutants) {
    const one = await findMutant(name, maxSeeds);
    if (one === undefined) {
      isWhole = false;
      console.log(`${name}: not found in ${maxSeeds} seeds`);
    } else {
      found.push(one);
      console.log(`${name}: invariant ${one.invariant} in seed ${one.seed}`);
    }
  }
  for (const invariant of Object.keys(invariants).map(Number)) {
    if (found.some((one) => one.invariant === invariant)) continue;
    isWhole = false;
    console.log(`invariant ${invariant} has found no mutant`);
  }
  if (values.write) writeFileSync(new URL('MUTANTS.md', import.meta.url), pageOf(found));
  process.exit(isWhole ? 0 : 1);
}
