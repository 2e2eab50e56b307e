// One of the processes of store-processes.test.ts. `jobs FILE OWNER COUNT` writes jobs until it is killed or done, and prints the id
// of each after the insert has returned, which is the promise that the test holds it to. `lab FILE NUMBER JOB` writes to the lab's
// record what a `set-cur`, a start of a script, an `upd-log`, a `finish-job` and a `-ta` write.

import { writeSync } from 'node:fs';
import { openLabStore } from '../../src/store/lab.ts';
import { openStore } from '../../src/store/store.ts';
import { noon, tpuSpec } from '../support/builders.ts';

const [kind, file = '', name = '', last = ''] = process.argv.slice(2);
await (kind === 'jobs' ? writeJobs(name, Number(last)) : writeLab(name, last));

async function writeJobs(owner: string, count: number): Promise<void> {
  const store = openStore({ file });
  for (let made = 0; made < count; made += 1) {
    const { job } = await store.insert({ owner, spec: tpuSpec(), manifest: 'job: {}\n', at: noon });
    const result = await store.commit({
      job: { ...job, desired: 'stopped' },
      revision: 1,
      events: [{ kind: 'command_received', at: noon, verb: 'stop', by: owner, desired: 'stopped' }],
      foldedOutcomes: [],
      wakeAt: null,
      epoch: null,
    });
    // Write to the pipe directly, because a kill would lose buffered lines.
    writeSync(1, `${job.id} ${result}\n`);
  }
  await store.close();
}

async function writeLab(number: string, job: string): Promise<void> {
  const { store: record, close } = openLabStore({ file });
  await record.changeUser('xibo', { kind: 'set_directory', number: Number(number), folder: `/srv/${number}` });
  const { session, window } = await record.openWindow(job, 1, noon);
  const report = { logFolder: `/srv/logs/${number}`, stageFolder: '/srv/stage', tpu: 'v2', startTime: '', at: noon };
  await record.reportWindow(session, window.window, report);
  await record.finishWindow(session, window.window, noon);
  await record.setTpuAlias(`short-${number}`, `long-${number}`);
  await close();
}
