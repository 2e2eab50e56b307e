import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRow } from '../../src/app/client.ts';
import { flagsOf, matchesTerms, parseTerms, proposeTerms, withPhases } from '../../src/app/filter-terms.ts';
import { hour } from '../../src/core/model/time.ts';

const now = Date.UTC(2026, 10, 20);
const row: JobRow = {
  id: '000042',
  name: 'vit lr=3e-4',
  owner: 'bob',
  backend: 'tpu',
  accelerator: 'v4-8',
  pricing: 'spot',
  zone: 'us-west4-a',
  hosts: [],
  worker0Address: null,
  phase: 'failed',
  heldCapacity: null,
  message: 'exit 1, worker 3',
  desired: 'running',
  stage: 0,
  attempt: 1,
  attemptEnds: ['command_failed'],
  attention: 'failed',
  tags: ['sweep'],
  overrides: [],
  createdAt: now - 2 * hour,
  phaseStartedAt: now,
  pricePerHourUsd: null,
  simulated: false,
};

test('terms are the filters of the list, and every other text is searched in id, name, tags and message', () => {
  const isFound = (text: string): boolean => matchesTerms(row, parseTerms(text, now));
  const found = ['', 'phase:failed', 'Phase:FAILED,running', 'user:bob zone:us-west4-a', 'tag:sweep', 'name:vit*'];
  for (const text of [...found, 'accelerator:v4', 'LR 0042', 'worker', 'name:"vit lr=3e-4"', 'since:3h', 'error: x'])
    assert.equal(isFound(text), text !== 'error: x', text);
  for (const text of ['phase:running', 'user:alice', 'tag:swe', 'name:vit', 'lr missing', 'since:1h', 'zone:us'])
    assert.equal(isFound(text), false, text);
});

test('a pattern of names has any text for a star and one character for a question mark', () => {
  const isFound = (name: string, pattern: string): boolean =>
    matchesTerms({ ...row, name }, parseTerms(`name:${pattern}`, now));
  for (const pattern of ['*', 'vit-*', '*-LR', 'v?t*', 'vit*1*lr', '**vit-1-lr**', 'vit-1-lr'])
    assert.equal(isFound('vit-1-lr', pattern), true, pattern);
  for (const pattern of ['vit', '*-l', '?vit*', 'vit*2*lr', 'vit-1-lr?', 'vit.1.lr', 'lr*vit'])
    assert.equal(isFound('vit-1-lr', pattern), false, pattern);
  assert.equal(isFound('a-b-ab', '*-ab'), true);
  // A regular expression would try more ways than a person waits for.
  assert.equal(isFound('a'.repeat(63), `${'*a'.repeat(30)}*b`), false);
});

test('a term without a meaning is ignored and named', () => {
  const { query, problems } = parseTerms('phase:faild since:never', now);
  assert.deepEqual(query, {});
  assert.match(problems[0] ?? '', /no phase faild\. Did you mean failed\?/);
  assert.match(problems[1] ?? '', /never: expected a time/);
});

test('phases are replaced without a change of other terms', () => {
  assert.equal(withPhases('lr phase:failed user:"a b"', ['running', 'queued']), 'lr user:"a b" phase:running,queued');
  assert.equal(withPhases('phase:failed', []), '');
});

test('the flags of the command are those of the terms', () => {
  const terms = parseTerms('phase:failed,running name:"a b" since:1d lr', now);
  assert.deepEqual(flagsOf(terms), ['--phase failed', '--phase running', "--name 'a b'", '--since 1d']);
});

test('the last term is completed: its name, then its value', () => {
  assert.deepEqual(proposeTerms('lr ph', [row]), ['lr phase:']);
  assert.deepEqual(proposeTerms('phase:f', [row]), ['phase:failed ']);
  assert.deepEqual(proposeTerms('lr zone:', [row]), ['lr zone:us-west4-a ']);
  assert.deepEqual(proposeTerms('name:', [row]), ['name:"vit lr=3e-4" ']);
  assert.deepEqual(proposeTerms('user:bob', [row]), []);
  assert.deepEqual(proposeTerms('lr', [row]), []);
});
