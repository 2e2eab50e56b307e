import assert from 'node:assert/strict';
import { test } from 'node:test';
import { subjectKey, type Subject } from '../../src/core/decision.ts';
import { attemptOf, subjectOf } from '../../src/store/stored-job.ts';
import { attemptOf as attemptFor } from '../support/builders.ts';

test('the text of every subject is read back as that subject, and that of another version as none', () => {
  const subjects: readonly Subject[] = [
    { kind: 'request', allocation: 12 },
    { kind: 'release', allocation: 3 },
    { kind: 'step', allocation: 1, worker: 7, step: 'a/b' },
    { kind: 'start', attempt: 2, worker: 'here' },
    { kind: 'stop', attempt: 2, worker: 0, how: 'kill' },
    { kind: 'stop', attempt: 2, worker: 'here', how: 'ask' },
  ];
  assert.deepEqual(subjects.map(subjectKey).map(subjectOf), subjects);
  assert.equal(subjectOf('dance/1'), undefined);
});

test('an attempt of an older record has its failures by task', () => {
  const failure = { tries: 2, lastAt: 5, detail: 'no' };
  const { failures: _failures, ...attempt } = attemptFor(1);
  const old = { ...attempt, stepFailures: { '3/docker': failure, 'start/here': failure, 'stop/0': failure } };
  assert.deepEqual(attemptOf(old), {
    ...attempt,
    failures: [
      { ...failure, task: { kind: 'step', worker: 3, step: 'docker' } },
      { ...failure, task: { kind: 'start', worker: 'here' } },
      { ...failure, task: { kind: 'stop', worker: 0 } },
    ],
  });
});
