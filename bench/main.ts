// npm run bench [-- NAME...]: measures what has a budget, prints a table, and judges. It writes nothing but to the
// terminal; bench/RESULTS.md is kept by hand. The bundle must be built: npm run build.

import { measureAtRest } from './at-rest.ts';
import { cleanUpAll } from './home.ts';
import { measureHosts } from './hosts.ts';
import { measureKubernetes } from './kubernetes.ts';
import { measureLab } from './lab.ts';
import { measureCreates, measureLocalJobs } from './local-jobs.ts';
import { loadWords, machineWords } from './machine.ts';
import { tableOf, type Result } from './result.ts';
import { measureNoticed } from './noticed.ts';
import { measureLists, measurePreemption } from './preemption.ts';
import { measureSetup } from './setup.ts';
import { measureStarts } from './starts.ts';
import { measureTakeover } from './takeover.ts';
import { measureTpus } from './tpus.ts';

const measurements: Readonly<Record<string, () => Promise<readonly Result[]>>> = {
  starts: measureStarts,
  creates: measureCreates,
  'local-jobs': measureLocalJobs,
  'at-rest': measureAtRest,
  hosts: measureHosts,
  setup: measureSetup,
  preemption: measurePreemption,
  noticed: measureNoticed,
  lists: measureLists,
  takeover: measureTakeover,
  tpus: measureTpus,
  kubernetes: measureKubernetes,
  lab: measureLab,
};

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in measurements));
if (unknown.length > 0) {
  console.error(`There is no measurement ${unknown.join(', ')}. There are: ${Object.keys(measurements).join(', ')}.`);
  process.exit(2);
}

// Ctrl-C leaves nothing behind: a thousand programs that sleep would outlive the measurement.
for (const [signal, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const) {
  process.once(signal, () => {
    cleanUpAll();
    process.exit(128 + number);
  });
}

console.log(machineWords());
const results: Result[] = [];
for (const [name, measure] of Object.entries(measurements)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.error(`${name} ... (load ${loadWords()})`);
  results.push(...(await measure()));
}
for (const line of tableOf(results)) console.log(line);
process.exitCode = results.some((result) => result.isKept === false) ? 1 : 0;
