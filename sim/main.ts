// npm run sim -- --seeds N [--seed S] [--plant NAME] [--trace]
//
// Plays worlds and judges them. Without --seed it begins at seed 1. Exits with 1 at the first law that is broken, and
// prints the law, what happened, and the command that plays exactly that world again.

import { parseArgs } from 'node:util';
import { loopPlants, plants } from '../src/core/plant.ts';
import type { PlantName } from '../src/core/plant.ts';
import { laws } from './laws.ts';
import { run } from './run.ts';
import type { Story } from './run.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    seed: { type: 'string' },
    plant: { type: 'string' },
    trace: { type: 'boolean', default: false },
    'keep-going': { type: 'boolean', default: false },
  },
});

const plant = values.plant === undefined ? undefined : plantNamed(values.plant);
const first = values.seed === undefined ? 1 : Number(values.seed);
const count = values.seeds === undefined ? (values.seed === undefined ? 100 : 1) : Number(values.seeds);
if (!Number.isInteger(first) || !Number.isInteger(count) || count < 1) {
  console.error('--seed and --seeds want whole numbers');
  process.exit(2);
}

const began = performance.now();
let virtualMs = 0;
let broken = 0;
for (let seed = first; seed < first + count; seed += 1) {
  const story = await run({ seed, trace: values.trace, ...(plant === undefined ? {} : { plant }) });
  virtualMs += story.virtualMs;
  if (values.trace) for (const line of story.lines) console.log(line);
  if (count === 1) console.log(`seed ${seed}: trace ${story.hash}`);
  if (story.violation === null) continue;
  broken += 1;
  tell(story);
  if (!values['keep-going']) process.exit(1);
}
const seconds = (performance.now() - began) / 1_000;
console.log(
  `${count} seeds, ${broken} broken, ${(virtualMs / 3_600_000).toFixed(1)} hours of pretend time in ${seconds.toFixed(1)} s, ` +
    `${(count / seconds).toFixed(1)} seeds a second`,
);
process.exit(broken === 0 ? 0 : 1);

function tell({ seed, violation }: Story): void {
  if (violation === null) return;
  const { law, sentence, at } = violation;
  const planted = plant === undefined ? '' : ` --plant ${plant}`;
  console.log(`law ${law}, ${laws[law]}, is broken after ${(at / 1_000).toFixed(3)} s: ${sentence}`);
  console.log(`  npm run sim -- --seed ${seed}${planted} --trace`);
}

function plantNamed(name: string): PlantName {
  const all = [...plants, ...loopPlants];
  const found = all.find((one) => one.name === name);
  if (found === undefined) {
    console.error(`there is no plant ${name}; there are: ${all.map((one) => one.name).join(', ')}`);
    process.exit(2);
  }
  return found.name;
}
