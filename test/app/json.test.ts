// The JSON of a job, for scripts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewJson } from '../../src/app/json.ts';
import { jobView } from '../cli/support/harness.ts';

test('an environment value that the database hides is hidden here too', () => {
  const given = jobView();
  const env = { HF_TOKEN: 'abc123', RATE: '1' };
  const shown = (key: string): string => {
    const overrides = [{ key, value: '***' }];
    return JSON.stringify(
      viewJson({ ...given, spec: { ...given.spec, command: { ...given.spec.command, env }, overrides } }),
    );
  };
  assert.match(shown('job.env.HF_TOKEN'), /"HF_TOKEN":"\*\*\*","RATE":"1"/);
  assert.match(shown('command.env'), /"HF_TOKEN":"\*\*\*","RATE":"\*\*\*"/);
  assert.match(shown('vars.password'), /"HF_TOKEN":"abc123"/);
});
