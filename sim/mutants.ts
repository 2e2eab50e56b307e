// node sim/mutants.ts [--write]
//
// Plays worlds with each mutant in turn and counts the seeds until an invariant notices it. With --write the table in
// MUTANTS.md is made anew. Exits with 1 when a mutant goes unnoticed, or when an invariant is left that no mutant has broken.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { laws } from './laws.ts';
import type { Law } from './laws.ts';
import { mutantNamed, mutants, importMutant } from './mutants/load.ts';
import type { run } from './run.ts';

export const seedsMost = 500;

export interface Found {
  readonly mutant: string;
  readonly sentence: string;
  readonly law: Law;
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
export async function find(mutant: string, most: number): Promise<Found | undefined> {
  const { sentence } = mutantNamed(mutant);
  const play = await runOf(mutant);
  for (let seed = 1; seed <= most; seed += 1) {
    const { violation } = await play({ seed });
    if (violation !== null) return { mutant, sentence, law: violation.law, seed };
  }
  return undefined;
}

function pageOf(found: readonly Found[]): string {
  const rows = found.map(
    ({ mutant, sentence, law, seed }) => `| \`${mutant}\` | ${sentence} | ${law}, ${laws[law]} | ${seed} |`,
  );
  return [
    '# Mutants, and the laws that find them',
    '',
    'Each mutant is a patch in `sim/mutants/*.patch` (`npm run sim -- --mutant NAME` plays with it). The law is the one that',
    'noticed first, the seed the first in which it did, counted from 1. Made by `node sim/mutants.ts --write`.',
    '',
    '| mutant | what goes wrong | found by law | in seed |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } });
  const found: Found[] = [];
  let isWhole = true;
  for (const { name } of mutants) {
    const one = await find(name, seedsMost);
    if (one === undefined) {
      isWhole = false;
      console.log(`${name}: not found in ${seedsMost} seeds`);
    } else {
      found.push(one);
      console.log(`${name}: law ${one.law} in seed ${one.seed}`);
    }
  }
  for (const law of Object.keys(laws).map(Number)) {
    if (found.some((one) => one.law === law)) continue;
    isWhole = false;
    console.log(`law ${law} has found no mutant`);
  }
  if (values.write) writeFileSync(new URL('MUTANTS.md', import.meta.url), pageOf(found));
  process.exit(isWhole ? 0 : 1);
}
