// Commands of users on the workers of a job without workers: the database answers, and no connection is made.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import type { Services } from '../../src/app/services.ts';
import type { Job } from '../../src/core/model/job.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { openStore } from '../../src/store/store.ts';
import { sshArgv } from '../../src/wiring/worker-access.ts';
import { localSpec, noon, tpuSpec } from '../support/builders.ts';
import { openWorld } from '../support/world.ts';

const over: Pick<Job, 'startRequest' | 'finish'> = {
  startRequest: null,
  finish: { at: noon, verdict: 'succeeded', reason: 'succeeded' },
};

for (const [what, spec, changes, message] of [
  ['waits for machines', tpuSpec(), {}, 'Job 000001 has no workers yet. Explain: jobman why 1'],
  ['is over', tpuSpec(), over, 'Job 000001 has finished (succeeded) and has no workers. Resume: jobman resume 1'],
  ['runs here', localSpec(), {}, 'Job 000001 is a local job: it runs on this machine and has no remote workers.'],
] as const satisfies readonly (readonly [string, JobSpec, Partial<Job>, string])[]) {
  test(`a shell on a job that ${what} is refused with the reason`, async (t) => {
    const { home } = openWorld(t);
    const store = openStore({ file: join(home, 'state.db') });
    const { job, revision } = await store.insert({ owner: 'ada', spec, at: noon, manifest: '' });
    const next = { job: { ...job, ...changes }, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null };
    assert.equal(await store.commit(next), 'committed');
    await store.close();
    // Only the database answers: any other service is undefined and would throw another error.
    const services = { io: { env: {} }, home } as Services;
    await assert.rejects(
      sshArgv(services, '000001', 0, []),
      (error) => error instanceof JobmanError && error.message === message,
    );
  });
}
