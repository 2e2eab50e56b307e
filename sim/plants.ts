// npm run sim:plants, or node sim/plants.ts [--write]
//
// Plants every mistake in turn and counts the seeds until a law notices. With --write the table in PLANTS.md is made
// anew. Exits with 1 when a mistake goes unnoticed, or when a law is left that no mistake has broken.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loopPlants, plants } from '../src/core/plant.ts';
import type { PlantName } from '../src/core/plant.ts';
import { laws } from './laws.ts';
import type { Law } from './laws.ts';
import { run } from './run.ts';

/** How many seeds a mistake may hide in. */
export const seedsMost = 500;

export interface Found {
  readonly plant: PlantName;
  readonly sentence: string;
  readonly law: Law;
  /** The first seed that showed it, which is also how many were played. */
  readonly seed: number;
}

/** Every mistake that can be planted. */
export const allPlants = [...plants, ...loopPlants];

/** Plays seeds from 1 on until a law notices the mistake; undefined when none does within `most`. */
export async function find(plant: PlantName, most: number): Promise<Found | undefined> {
  const sentence = allPlants.find((one) => one.name === plant)?.sentence ?? '';
  for (let seed = 1; seed <= most; seed += 1) {
    const { violation } = await run({ seed, plant });
    if (violation !== null) return { plant, sentence, law: violation.law, seed };
  }
  return undefined;
}

/** The page that says which law finds which mistake. */
export function pageOf(found: readonly Found[]): string {
  const rows = found.map(
    ({ plant, sentence, law, seed }) => `| \`${plant}\` | ${sentence} | ${law}, ${laws[law]} | ${seed} |`,
  );
  return [
    '# Planted mistakes, and the laws that find them',
    '',
    'Each mistake can be switched on (`npm run sim -- --plant NAME`) in the places that ask `planted(NAME)`. The law is the',
    'one that noticed first, the seed the first in which it did, counted from 1. Made by `node sim/plants.ts --write`.',
    '',
    '| mistake | what goes wrong | found by law | in seed |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } });
  const found: Found[] = [];
  let isWhole = true;
  for (const { name } of allPlants) {
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
    console.log(`law ${law} has found no planted mistake`);
  }
  if (values.write) writeFileSync(new URL('PLANTS.md', import.meta.url), pageOf(found));
  process.exit(isWhole ? 0 : 1);
}
