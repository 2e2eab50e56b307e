// `npm run bench [-- NAME...]`: measures everything with a budget and prints a table. Requires the bundle, except for
// `walks`. Edit bench/RESULTS.md manually.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { measureAtRest } from './at-rest.ts';
import { cleanUpAll, root } from './home.ts';
import { measureDashboard } from './dashboard.ts';
import { measureDashboardLogs } from './dashboard-logs.ts';
import { measureDatabases } from './databases.ts';
import { measureHosts } from './hosts.ts';
import { measureKubernetes } from './kubernetes.ts';
import { measureLab } from './lab.ts';
import { measureCreates, measureLocalJobs } from './local-jobs.ts';
import { formatLoad, describeMachine } from './machine.ts';
import { tableOf, type Result } from './result.ts';
import { measureDetection } from './detection.ts';
import { measureLists, measurePreemption } from './preemption.ts';
import { measurePasses } from './passes.ts';
import { measureQuota } from './quota.ts';
import { serverMeasurements } from './server.ts';
import { measureSetup } from './setup.ts';
import { measureStarts } from './starts.ts';
import { measureStorage } from './storage.ts';
import { measureTakeover } from './takeover.ts';
import { measureTop } from './top.ts';
import { measureTpus } from './tpus.ts';
import { measureWalks } from './walks.ts';

const measurements: Readonly<Record<string, () => Promise<readonly Result[]>>> = {
  starts: measureStarts,
  creates: measureCreates,
  'local-jobs': measureLocalJobs,
  'at-rest': measureAtRest,
  ...serverMeasurements,
  hosts: measureHosts,
  setup: measureSetup,
  preemption: measurePreemption,
  detection: measureDetection,
  lists: measureLists,
  takeover: measureTakeover,
  databases: measureDatabases,
  passes: measurePasses,
  tpus: measureTpus,
  top: measureTop,
  dashboard: measureDashboard,
  'dashboard-logs': measureDashboardLogs,
  quota: measureQuota,
  storage: measureStorage,
  kubernetes: measureKubernetes,
  lab: measureLab,
  walks: measureWalks,
};

const requested = process.argv.slice(2);
const unknown = requested.filter((name) => !(name in measurements));
if (unknown.length > 0) {
  console.error(`There is no measurement ${unknown.join(', ')}. There are: ${Object.keys(measurements).join(', ')}.`);
  process.exit(2);
}

// All others start jobman as users do. Walks are of the source.
if (requested.join() !== 'walks' && !existsSync(join(root, 'dist/bundle/main.cjs'))) {
  console.error('There is no bundle to measure: npm run build');
  process.exit(2);
}

// Ctrl-C must clean up: a thousand sleeping programs would outlive the measurement.
for (const [signal, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const) {
  process.once(signal, () => {
    cleanUpAll();
    process.exit(128 + number);
  });
}

console.log(describeMachine());
const results: Result[] = [];
for (const [name, measure] of Object.entries(measurements)) {
  if (requested.length > 0 && !requested.includes(name)) continue;
  console.error(`${name} ... (load ${formatLoad()})`);
  results.push(...(await measure()));
}
for (const line of tableOf(results)) console.log(line);
process.exitCode = results.some((result) => result.isWithinBudget === false) ? 1 : 0;
