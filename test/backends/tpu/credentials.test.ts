// Who we are to the cloud. Google's own library is not asked here: without a network it would look for a metadata server.
// Real runs of it need an account; what is ours (when it is asked, what is sent where) is in the other tests.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createCredentials, isLoopback } from '../../../src/backends/tpu/credentials.ts';
import { JobmanError } from '../../../src/app/errors.ts';

const neverRun = () => Promise.reject(new Error('nobody should be asked'));

suite('no login is shown', () => {
  for (const endpoint of ['http://127.0.0.1:4000', 'http://127.3.2.1:4000/', 'http://localhost:1', 'http://[::1]:5']) {
    test(`to ${endpoint}, which is this machine`, async () => {
      const credentials = createCredentials({ endpoint: () => Promise.resolve(endpoint), run: neverRun, now: () => 0 });
      assert.deepEqual(await credentials.headers(), {});
    });
  }

  for (const endpoint of ['http://tpu.example.com', 'http://127.0.0.1.example.com', 'not an address']) {
    test(`to ${endpoint}, in clear text`, async () => {
      const credentials = createCredentials({ endpoint: () => Promise.resolve(endpoint), run: neverRun, now: () => 0 });
      await assert.rejects(
        credentials.headers(),
        (error) => error instanceof JobmanError && /no https/.test(error.message),
      );
    });
  }
});

test('a machine is this one only by its whole name', () => {
  assert.equal(isLoopback('https://127.evil.example.com'), false);
  assert.equal(isLoopback('https://localhost.example.com'), false);
  assert.equal(isLoopback('https://tpu.googleapis.com'), false);
});

test('a refused login names the command that makes a new one', () => {
  const credentials = createCredentials({ endpoint: () => Promise.resolve(''), run: neverRun, now: () => 0 });
  assert.match(credentials.refused(), /gcloud auth application-default login$/);
});
