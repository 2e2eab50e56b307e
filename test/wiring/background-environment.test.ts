// What our own programs in the background inherit from whoever starts them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Io } from '../../src/app/services.ts';
import { localSpec } from '../support/builders.ts';
import { backgroundEnvironment } from '../../src/wiring/processes.ts';

test('a controller that the program of a job has started is not taken for a part of that program', async () => {
  const env = { PATH: '/bin', JOBMAN_RUN: 'abc123/000001/1/here', JOBMAN_HOME: '/home' };
  const io = { env } as Pick<Io, 'env'> as Io;
  assert.deepEqual(await backgroundEnvironment(io, '/nowhere'), { PATH: '/bin', JOBMAN_HOME: '/home' });
});

test('nor does it find what is a secret of the job that is about to be created', async () => {
  const io = { env: { TOKEN: 'x', PATH: '/bin' } } as unknown as Io;
  const { command, ...spec } = localSpec();
  const coming = {
    ...spec,
    command: { ...command, secrets: { T: { kind: 'environment', variable: 'TOKEN' } } },
  } as const;
  assert.deepEqual(await backgroundEnvironment(io, '/nowhere', coming), { PATH: '/bin' });
});
