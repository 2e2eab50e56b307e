import assert from 'node:assert/strict';
import { test } from 'node:test';
import { subjectKey, subjectOf, type Subject } from '../../src/core/model/decision.ts';

test('the key of every subject is parsed back, and a key of another version is ignored', () => {
  const subjects: readonly Subject[] = [
    { kind: 'request', allocation: 12 },
    { kind: 'release', allocation: 3 },
    { kind: 'step', allocation: 1, worker: 7, step: 'a/b' },
    { kind: 'start', attempt: 2, worker: 'controller' },
    { kind: 'stop', attempt: 2, worker: 0, signal: 'kill' },
    { kind: 'stop', attempt: 2, worker: 'controller', signal: 'stop' },
  ];
  assert.deepEqual(subjects.map(subjectKey).map(subjectOf), subjects);
  assert.equal(subjectOf('dance/1'), undefined);
});
