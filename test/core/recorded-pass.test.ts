import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { applyDelta, deltaOf, type Json } from '../../src/core/model/json-delta.ts';
import { known, unknown, type Observation } from '../../src/core/model/observation.ts';
import { observationOf, omittedText, recordPass } from '../../src/core/model/recorded-pass.ts';
import { newJob } from '../../src/core/model/job.ts';
import { noon, tpuSpec } from '../support/builders.ts';

const { job } = newJob({ id: '000001', installation: 'abc123', owner: 'ada', spec: tpuSpec(), at: noon });

test('a delta turns one value into the other, and equal values have none', () => {
  // A pass is stored as JSON, whose text has no -0.
  const value = fc.jsonValue({ noUnicodeString: false }).map((one) => JSON.parse(JSON.stringify(one)) as Json);
  fc.assert(
    fc.property(value, value, (from, to) => {
      const delta = deltaOf(from, to);
      const stored = delta === undefined ? undefined : (JSON.parse(JSON.stringify(delta)) as typeof delta);
      assert.deepEqual(stored === undefined ? from : applyDelta(from, stored), to);
      assert.equal(deltaOf(from, structuredClone(from)), undefined);
    }),
  );
});

test('a recorded pass has the observation that was decided on', () => {
  const value = { bootId: 'b', proofs: ['docker'], runs: [] };
  const observation: Observation = {
    admitted: false,
    allocations: [
      { allocation: 2, observed: known({ state: 'ready', detail: '', workers: 11 }, noon - 5) },
      { allocation: 10, observed: unknown('', noon - 9) },
    ],
    workers: [
      ...Array.from({ length: 11 }, (_, worker) => ({ allocation: 2, worker, observed: known(value, noon) })),
      { allocation: 2, worker: 'controller', observed: unknown('', noon - 7) },
    ],
    outcomes: [
      {
        subject: { kind: 'stop', attempt: 1, worker: 'controller', signal: 'kill' },
        at: noon,
        result: { kind: 'done' },
      },
    ],
    unansweredRequests: [10],
  };
  const decision = { job, events: [], actions: [], wakeAt: undefined };
  assert.deepEqual(observationOf(recordPass(observation, decision, { now: noon, version: '1' })), observation);
});

test('a recorded pass contains no text that neither the job nor its events contain', () => {
  const line = 'token "hf_secret"';
  const worker = { bootId: 'b', proofs: [], runs: [], matched: { attempt: 1, line } };
  const observation: Observation = {
    admitted: true,
    allocations: [{ allocation: 1, observed: unknown('the proxy refused hf_other', noon) }],
    workers: [{ allocation: 1, worker: 0, observed: known(worker, noon) }],
    outcomes: [
      {
        subject: { kind: 'request', allocation: 1 },
        at: noon,
        result: {
          kind: 'failed',
          evidence: { message: 'no', raw: line },
          error: { kind: 'quota', message: 'no', raw: line },
        },
      },
    ],
  };
  const actions = { actions: [], wakeAt: undefined };
  const options = { now: noon, version: '1' };
  const unseen = JSON.stringify(recordPass(observation, { job, events: [], ...actions }, options));
  assert.doesNotMatch(unseen, /hf_|"no"/);
  assert.match(unseen, new RegExp(`"line":"${omittedText}"`));
  const event = { kind: 'unreachable', at: noon, allocation: 1, message: `worker 0 printed ${line}` } as const;
  const seen = JSON.stringify(recordPass(observation, { job, events: [event], ...actions }, options));
  assert.match(seen, /hf_secret/);
  assert.doesNotMatch(seen, /hf_other/);
});
