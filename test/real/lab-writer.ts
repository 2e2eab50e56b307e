// One of many processes that change the lab's record at once, for lab-processes.test.ts: what a `set-cur`, a start of a script,
// an `upd-log`, a `finish-job` and a `-ta` write.

import { openLabRecord } from '../../src/store/lab.ts';

const [file = '', number = '', job = ''] = process.argv.slice(2);
const at = 1_763_700_000_000;
const { record, close } = openLabRecord({ file });
await record.changeUser('xibo', (user) => ({
  ...user,
  directories: { ...user.directories, [number]: `/srv/${number}` },
}));
const { session, window } = await record.openWindow(job, 1, at);
const report = { logFolder: `/srv/logs/${number}`, stageFolder: '/srv/stage', tpu: 'v2', startTime: '', at };
await record.report(session, window.window, report);
await record.finish(session, window.window, at);
await record.setTpuAlias(`short-${number}`, `long-${number}`);
await close();
