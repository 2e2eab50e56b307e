// A process that writes to a record until it is killed or done, for store-processes.test.ts. It prints the id of each job
// after the insert has returned, which is the promise that the test holds it to.

import { writeSync } from 'node:fs';
import { openStore } from '../../src/store/store.ts';
import { noon, tpuSpec } from '../support/builders.ts';

const [file = '', owner = '', count = '0'] = process.argv.slice(2);
const store = openStore({ file });
for (let made = 0; made < Number(count); made += 1) {
  const { job } = await store.insert({ owner, spec: tpuSpec(), manifest: 'job: {}\n', at: noon });
  const result = await store.commit({
    job: { ...job, desired: 'hold' },
    revision: 1,
    events: [{ kind: 'asked', at: noon, verb: 'stop', by: owner, desired: 'hold' }],
    folded: [],
    wakeAt: null,
    epoch: null,
  });
  // Straight to the pipe: what is in a buffer when a process is killed was never said.
  writeSync(1, `${job.id} ${result}\n`);
}
await store.close();
