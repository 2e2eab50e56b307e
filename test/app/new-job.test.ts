/** The checks of every front end before it creates a job. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { quotaWarningsFor } from '../../src/app/new-job.ts';
import { tpuSpec } from '../support/builders.ts';

test('a job has no warnings about the quota of a project that its user may not use', async () => {
  const refused = new JobmanError('You may not use the project lab.', exitCode.conflict, [], {
    errorCode: 'forbidden',
  });
  const client = { quotaWarnings: () => Promise.reject(refused) };
  assert.deepEqual(await quotaWarningsFor(client, tpuSpec()), []);
});
